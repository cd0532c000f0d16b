"""The chaos suite: real nodes, real faults of processes, net and disks, a recorded history, and a verdict.

``python -m moldau.cluster.chaos 4`` (``make chaos SCENARIO=4``) runs one scenario, ``--list`` names them. Start reading
at ``scenarios/`` (the faults), then ``scenario_context.py`` (how every run begins and ends), ``net.py`` (how links are
cut). What clients saw is checked by ``moldau.history``, what disks hold by ``cluster/kills/replicas.py``.
"""
