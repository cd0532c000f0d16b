"""A TCP proxy in a process of its own, in which links are cut, slowed and reset where nothing else can.

Every listener of a node has a front, and all others reach it there. Start reading at ``links.py`` (what happens to
bytes), then ``fronts.py`` (one listener), ``sources.py`` (who is calling), ``process.py`` (what it is told).
"""
