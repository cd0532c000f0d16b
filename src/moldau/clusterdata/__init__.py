"""What a cluster keeps of itself, read as rows: state-change logs, segments, the metadata log, the internal topics.

Plain Python over files: nothing is locked or changed, no cluster need run, and no Spark is needed. What cannot be read
is a row with the reason. Used by ``moldau log``, ``moldau replica``, ``moldau job`` and by the data sources of
``moldau.spark.own``. Read next: columns.py, then ``segments.py``, ``metadata.py``, ``jobs/``.
"""
