"""The scenarios: one function for each, each after an incident that really happened in production or in a test.

``table.py`` lists them. ``processes.py``: kills, stops and pauses; ``links.py``: cuts of the net; ``control.py``: the
controller and what it was told; ``disks.py``: full, hung, corrupt and wiped disks.
"""
