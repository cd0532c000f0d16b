"""Spark's look-up imports ``pyspark_moldau`` without a net: it must never fail, and be quick."""

from __future__ import annotations

import subprocess
import sys

OLD = """
import sys, types
import pyspark.sql.datasource
old = types.ModuleType("pyspark.sql.streaming.datasource")
sys.modules["pyspark.sql.streaming.datasource"] = old
from pyspark_moldau import DefaultSource
assert DefaultSource.name() == "moldau"
assert issubclass(DefaultSource, pyspark.sql.datasource.DataSource)
try:
    DefaultSource({"subscribe": "orders"})
except ImportError as error:
    print(error)
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.strip()


def test_with_an_old_pyspark_the_source_says_so_when_it_is_used_and_harms_no_other():
    said = run(OLD)
    assert 'format("moldau") needs PySpark 4.2 or later' in said
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:" in said


def test_the_import_brings_nothing_of_the_client():
    """What PySpark itself imports does not count: it does so without us."""
    program = """
import sys
import pyspark.sql.datasource, pyspark.sql.streaming.datasource
before = set(sys.modules)
import pyspark_moldau
print(",".join(sorted(set(sys.modules) - before)))
"""
    brought = run(program).split(",")
    ours = [name for name in brought if name.startswith("moldau.")]
    assert set(ours) <= {"moldau.spark", "moldau.spark.source", "moldau.spark.rows"}, ours
    assert not {"pyarrow", "numpy", "pandas", "asyncio"} & set(brought)
