"""Lets Spark find the data source ``moldau_job`` by itself; without a PySpark that can, there is none.

Never failing: an error here would take every other Python source of the environment with it.
Read next: moldau/spark/own/source.py.
"""

try:
    from moldau.spark.own.source import JobSource as DefaultSource
except ImportError:  # a PySpark without Python data sources, which does not look here either
    pass
else:
    __all__ = ["DefaultSource"]
