"""Writes the classes that Spark's JVM loads into a file: ``python -m tests.spark_classes FILE``.

A JVM that is given the file (``-XX:SharedArchiveFile``) maps them, in place of reading, checking and linking each,
which is half the processor time of a Spark that lives for seconds. tests/live/conftest.py gives it to those that tests
start. A JVM of another version, or of other jars, goes on without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

FLAGS = "-XX:TieredStopAtLevel=1"
"""The thorough compiler would take two fifths of the processor time of such a JVM."""
ARCHIVE = Path(__file__).resolve().parents[1] / ".venv" / "spark-classes.jsa"
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Without it, a JVM that cannot use the file would say so in the output that tests look at."""


def options() -> str:
    """What SPARK_SUBMIT_OPTS tells a JVM that a test starts."""
    return f"{FLAGS} -XX:SharedArchiveFile={ARCHIVE} {QUIET}" if ARCHIVE.exists() else FLAGS


def write(path: Path) -> None:
    """Start a Spark that writes the file when it ends; it queries, streams and runs Python in its workers meanwhile."""
    whole = path.with_suffix(".part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{FLAGS} -XX:ArchiveClassesAtExit={whole} {QUIET}"
    from moldau.spark import session

    with tempfile.TemporaryDirectory() as folder:
        spark = session("classes", folder=folder)
        numbers = spark.range(1_000).selectExpr(
            "id % 7 AS key", "CAST(id AS STRING) AS value", "current_timestamp() AS at"
        )
        numbers.mapInPandas(lambda parts: parts, numbers.schema).createOrReplaceTempView("numbers")
        spark.sql("SELECT key, count(*), max(at), to_json(struct(*)) FROM numbers GROUP BY ALL ORDER BY key").collect()
        stream = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: rows.write.mode("append").parquet(f"{folder}/rows"))
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        jvm = spark.sparkContext._gateway
        assert jvm is not None
        spark.stop()
        jvm.shutdown()
        process = jvm.proc
        process.stdin.close()
        process.wait()
    whole.rename(path)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
