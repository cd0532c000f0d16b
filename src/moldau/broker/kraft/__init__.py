"""A node's seat in the quorum: the one driver of the quorum machine, its files, its words on the wire.

Start with ``driver.py`` (events in, effects out); ``requests.py`` and ``answers.py`` translate, ``files.py`` keeps
what must survive, ``batches.py`` writes and reads log batches, ``delivery.py`` hands the committed on. Who uses it:
``broker/kraft/plane.py``.
"""
