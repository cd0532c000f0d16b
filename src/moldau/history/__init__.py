"""What clients of a cluster saw, and whether a log may be so: rows of a history, and the rules that judge it.

Shared by the kill suite and the chaos scenarios (real processes) and by the simulator (virtual ones): one checker, so
that what one of them trusts has been broken on purpose by the others. Read rows.py, then checks.py. Starts nothing,
waits for nothing.
"""
