"""A program for ``spark-submit``: a topic read as a batch and as a stream, into tables and into another topic.

    spark-submit [--master M] spark_job.py BOOTSTRAP TOPIC OUT FOLDER

The same text runs on every master; what it found is in told.json in FOLDER, which driver and executors must share.
With JOB_FAILS_FIRST in its environment the first attempt of each task of the stream fails. Run twice, the second run
goes on where the first ended.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from moldau.spark import run
from moldau.spark.tables import Table


def where(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The process that a row was seen by, how it came by Moldau, and its Python."""
    import moldau

    for each in rows:
        count = each.num_rows
        yield pa.record_batch({
            "pid": pa.array([os.getpid()] * count), "code": pa.array([str(moldau.__file__)] * count),
            "python": pa.array([sys.prefix] * count),
        })  # fmt: skip


def failing_first(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows, to an attempt that is not a task's first; none of the others comes to its end."""
    yield from rows
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt of a task fails")


def main() -> None:
    """Read, write, stream, and tell."""
    bootstrap, topic, out, folder = sys.argv[1:]
    spark = SparkSession.builder.appName("job").getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("moldau").options(**options).load()
    checkpoint = f"{folder}/checkpoint"
    table = Table(f"{folder}/table", checkpoint=checkpoint)
    stream = spark.readStream.format("moldau").options(**options, maxOffsetsPerTrigger="40").load()
    rows = stream.selectExpr("CAST(value AS STRING) AS value")
    if os.environ.get("JOB_FAILS_FIRST"):
        rows = rows.mapInArrow(failing_first, "value string")
    writer = rows.writeStream.foreachBatch(table)
    run(lambda: writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
    batch.select("key", "value").write.format("moldau").mode("append").options(
        **{"kafka.bootstrap.servers": bootstrap, "topic": out}
    ).save()
    read = sorted(int(row.value) for row in batch.select("value").collect())
    seen = batch.select("partition").mapInArrow(where, "pid long, code string, python string").distinct().collect()
    spark.stop()
    held = sorted(int(value) for value in table.read()["value"].to_pylist())
    workers = sorted([row.pid, row.code, row.python] for row in seen)
    Path(folder, "told.json").write_text(json.dumps({"read": read, "table": held, "workers": workers}))


if __name__ == "__main__":
    main()
