"""The data sources over what a cluster keeps itself: ``moldau_statelog``, ``moldau_segments``, ``moldau_metadata`` and
``moldau_job``.

Each is a thin shell around ``moldau.clusterdata``: it checks options, cuts the work into partitions of Spark, and hands
on Arrow batches. The packages ``pyspark_moldau_*`` let Spark find them. Read next: source.py.
"""
