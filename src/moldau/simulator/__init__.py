"""The simulator runs several real nodes in one process on virtual time; a seed draws all that is random.

Read loop.py (time and order), ports.py (clock, random numbers, tasks), net.py, disk.py, then cluster.py (the nodes) and
run.py (a whole run: load, faults, healing, checks). The same seed gives the same history.
"""
