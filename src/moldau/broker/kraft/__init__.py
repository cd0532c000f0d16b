"""A node's part in the quorum: the driver of the quorum's state machine, its files, its requests and responses.

Start with ``driver.py`` (events in, effects out); ``requests.py`` and ``answers.py`` translate, ``files.py`` keeps
what must survive, ``batches.py`` writes and reads log batches, ``delivery.py`` hands the committed on. Who uses it:
``broker/kraft/plane.py``.
"""
