"""Several real nodes in one process on virtual time: chance, clocks, disks and net are drawn by a seed.
seed.

Read loop.py (time and order), ports.py (clock, chance, tasks), net.py, disk.py, then cluster.py (nodes and what befalls
them) and run.py (a whole run: load, disturbances, healing, checks). The same seed gives the same history.
"""
