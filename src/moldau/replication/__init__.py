"""One partition's replication, decided without I/O: leader, follower, ISR, high watermark, leader epochs, truncation.

Nothing here reads a log, sends a request or looks at a clock; the broker's data plane does and tells this room facts.
``epochs.py`` is the leader epoch table, used by storage too. Read next: ``partition.py``, the machine; ``laws.py``.
"""
