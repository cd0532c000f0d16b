"""What is done to a cluster: one function per scenario, each after an incident that really happened to somebody.

``table.py`` lists them. ``processes.py``: kills, stops and pauses; ``links.py``: cuts of the net; ``control.py``: the
controller and what it was told; ``disks.py``: full, hung, corrupt and wiped disks.
"""
