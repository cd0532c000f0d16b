"""Histories of what clients of a cluster saw: their rows, and the rules that check them.

Shared by the kill suite and the chaos scenarios (real processes) and by the simulator (virtual ones): one checker, so
that what one of them trusts has been broken on purpose by the others. Read rows.py, then checks.py. Starts nothing,
waits for nothing.
"""
