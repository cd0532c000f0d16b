"""The controller: decides, as records, what becomes of brokers, topics and partitions. No I/O; the same in both modes.

``active.py`` is a node's way in, ``ledger.py`` the table of decisions, ``requests.py`` and ``replies.py`` their words.
"""
