"""Lets Spark find the data source ``moldau`` by itself.

Spark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``. Kept light: a failing
import here would switch the look-up off for all sources. Read next: moldau/spark/source.py.
"""

from moldau.spark.source import MoldauSource as DefaultSource

__all__ = ["DefaultSource"]
