"""The real ports: clocks, chance, files, sockets and tasks of this machine, and the loop that runs a node.

Only entry points import this package. The simulator's counterparts live in moldau/simulator.
"""
