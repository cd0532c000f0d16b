"""A program with a stream from a topic into a table that is killed, once at each step of a batch.

    python spark_steps.py BOOTSTRAP TOPIC FORMAT FOLDER

Run it until it ends by itself: each run goes on from the checkpoint, and leaves a file in FOLDER for each step at which
it, or a process of a task, was killed with kill -9.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame

import moldau.spark
from moldau.spark.tables import DeltaFormat, Table
from moldau.spark.tables.files import DataFile, FileLayout, write_files
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.stores import Store, open_store
from moldau.spark.tables.table import Format

STEPS = {
    "planned": 0, "a task retried": 1, "files written": 2, "table committed": 3, "Spark committed": 5, "tasks run": 5,
}  # fmt: skip
"""The batch that each kill is in, in this order. When batch 5 begins, Spark has committed batch 4."""
BATCHES = 6


def of_format(kind: str, folder: Path) -> Format:
    """The table's format, opened anew."""
    place = folder / "table"
    if kind == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        from moldau.spark.tables.iceberg import IcebergFormat

        catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{place}")
        return IcebergFormat(catalog, "n.t", location=str(place))
    return DeltaFormat(open_store(place)) if kind == "delta" else ParquetFormat(open_store(place))


def once(folder: Path, step: str) -> bool:
    """Whether this step was not come to before; it has been from now on."""
    try:
        (folder / step).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Stream what there is, a batch after the other, and die where it is due."""
    bootstrap, topic, kind, place = sys.argv[1:]
    folder, driver = Path(place), os.getpid()
    conf = {"spark.master": "local[2,3]"}  # three attempts of each task
    spark = moldau.spark.session("steps", bootstrap_servers=bootstrap, folder=f"{folder}/spark", conf=conf)
    gateway = SparkContext._gateway
    assert gateway is not None
    (folder / "jvm").write_text(str(gateway.proc.pid))

    def write(rows: DataFrame, store: Store, batch: str, layout: FileLayout) -> list[DataFile]:
        number = int(batch.split("-")[1])

        def killed(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from rows
            if number == STEPS["a task retried"] and once(folder, "a task retried"):
                kill(os.getpid())
            if number == STEPS["tasks run"] and (folder / "Spark committed").exists() and once(folder, "tasks run"):
                kill(driver)

        found = write_files(rows.mapInArrow(killed, rows.schema), store, batch, layout)
        if number == STEPS["files written"] and once(folder, "files written"):
            kill(driver)
        return found

    def each(rows: DataFrame, batch: int) -> None:
        if batch == STEPS["planned"] and once(folder, "planned"):
            kill(driver)
        if batch == STEPS["Spark committed"] and once(folder, "Spark committed"):
            assert (folder / "checkpoint" / "commits" / str(batch - 1)).exists()
            kill(driver)
        Table(of_format(kind, folder), write=write)(rows, batch)
        if batch == STEPS["table committed"] and once(folder, "table committed"):
            kill(driver)

    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    rows = spark.readStream.format("moldau").options(**options).load().selectExpr("partition", "offset", "value")
    stream = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    moldau.spark.run(lambda: stream.foreachBatch(each).start())


if __name__ == "__main__":
    main()
