"""One partition's replication, decided without I/O: leader, follower, ISR, high watermark, leader epochs, truncation.

Nothing here reads a log, sends a request or looks at a clock; the broker does, and hands facts to this package.
``epochs.py`` is the leader epoch table, used by storage too. Read next: ``partition.py``, the machine; ``laws.py``.
"""
