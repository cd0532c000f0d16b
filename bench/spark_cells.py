"""The cells of the Spark bench: both connectors in one session, one after the other, on the same topics.

Runs in .venv-parity, started by bench/spark.py. A cell is a function from a `Stage` to its rows; `CELLS` is the list.
The first run of every connector is not counted: it compiles.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrameReader, SparkSession
from tests.parity.compare import FORMATS, start

from bench.made_logs import write_logs
from moldau.client.reading import LATEST
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.spark import until_it_stands
from moldau.spark.decode import Decoder
from moldau.wire.batch import build

PARTITIONS = 6


class Row(NamedTuple):
    """One measured number of one connector. `better` is "higher" or "lower"."""

    cell: str
    system: str
    unit: str
    better: str
    value: float


class Sizes(NamedTuple):
    """How much of everything: a full run, or a quick one that only proves that the bench works."""

    large: int = 1_000_000  # records of 1024 bytes
    small: int = 4_000_000  # records of 100 bytes
    large_written: int = 300_000
    small_written: int = 1_000_000
    repeats: int = 3
    batches: int = 60
    decode_s: float = 5.0


FULL = Sizes()
QUICK = Sizes(60_000, 120_000, 20_000, 40_000, 1, 5, 0.5)


class Stage:
    """A session, a cluster and the topics that were filled once for both."""

    def __init__(self, spark: SparkSession, bootstrap: str, sizes: Sizes, folder: Path) -> None:
        self.spark, self.bootstrap, self.sizes, self.folder = spark, bootstrap, sizes, folder
        self._filled: dict[str, str] = {}

    def create(self, name: str) -> str:
        """A new topic of `PARTITIONS` partitions; its name."""
        topic = f"bench-{name}-{time.time_ns()}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        kept = {"retention.ms": "-1"}  # the records' timestamps are of 1970
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=kept)])[topic].result(60)
        return topic

    def filled(self, size: int, count: int) -> str:
        """A topic with so many records of that size, in batches of 500 KB or 500 records, as a busy producer's."""
        name = f"{size}-{count}"
        if name not in self._filled:
            topic = self._filled[name] = self.create(name)
            each = min(500, count // PARTITIONS)
            batch = build([(1_000_000 + n, b"%8d" % n, bytes(size), ()) for n in range(each)])
            with Cluster(self.bootstrap) as cluster:
                for number in range(count // each):
                    written = cluster.produce(TopicPartition(topic, number % PARTITIONS), batch)
                    assert written.base_offset >= 0, written
        return self._filled[name]

    def count(self, topic: str) -> int:
        """How many records a topic has."""
        places = dict.fromkeys((TopicPartition(topic, number) for number in range(PARTITIONS)), LATEST)
        with Cluster(self.bootstrap) as cluster:
            return sum(each.offset for each in cluster.offsets(places).values())

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([topic])[topic].result(60)

    def options(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}


def source_rows(stage: Stage) -> Iterator[Row]:
    """Rows a second of a batch read of all columns into nothing; the best of the repeats, by turns."""
    for cell, size, count in (("source 1 KB", 1024, stage.sizes.large), ("source 100 B", 100, stage.sizes.small)):
        topic = stage.filled(size, count)
        for source in FORMATS:
            read = stage.spark.read.format(source).options(**stage.options(topic)).load().count()
            assert read == count - count % min(500, count // PARTITIONS), f"{source} reads {read} of {count} records"
        took: dict[str, list[float]] = {source: [] for source in FORMATS}
        for turn in range(stage.sizes.repeats + 1):
            for source in FORMATS:
                began = time.monotonic()
                rows = stage.spark.read.format(source).options(**stage.options(topic)).load()
                rows.write.format("noop").mode("overwrite").save()
                if turn:
                    took[source].append(time.monotonic() - began)
        for source in FORMATS:
            yield Row(cell, source, "rows/s", "higher", count // min(took[source]))


def sink_rows(stage: Stage) -> Iterator[Row]:
    """Rows a second that are written to a topic, made as they go; the best of the repeats, by turns. Each connector has
    its own defaults: acks=all, idempotent, keys decide the partition."""
    cells = ("sink 1 KB", 1024, stage.sizes.large_written), ("sink 100 B", 100, stage.sizes.small_written)
    for cell, size, count in cells:
        took: dict[str, list[float]] = {source: [] for source in FORMATS}
        columns = "CAST(id AS STRING) AS key", f"CAST(repeat('x', {size}) AS BINARY) AS value"
        rows = stage.spark.range(count).selectExpr(*columns)
        for turn in range(stage.sizes.repeats + 1):
            for source in FORMATS:
                topic = stage.create("sink")
                began = time.monotonic()
                there = {"kafka.bootstrap.servers": stage.bootstrap, "topic": topic}
                rows.write.format(source).options(**there).mode("append").save()
                if turn:
                    took[source].append(time.monotonic() - began)
                assert (there_are := stage.count(topic)) == count, f"{source} wrote {there_are} of {count} records"
                stage.delete(topic)
        for source in FORMATS:
            yield Row(cell, source, "rows/s", "higher", count // min(took[source]))


def micro_batches(stage: Stage) -> Iterator[Row]:
    """Milliseconds of a micro-batch of 100 records, a hundred of them a minute: the median, and the slowest tenth."""
    for source in FORMATS:
        topic = stage.create("micro")
        producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 0})
        stream = stage.spark.readStream.format(source).options(**stage.options(topic)).load().writeStream
        stream = stream.format("noop").option("checkpointLocation", str(stage.folder / f"{source}-{time.time_ns()}"))
        query = until_it_stands(stream.trigger(processingTime="600 milliseconds").start)
        took: dict[int, float] = {}
        deadline = time.monotonic() + 120 + 2 * stage.sizes.batches
        while len(took) < stage.sizes.batches + 5 and time.monotonic() < deadline:
            for number in range(100):
                producer.produce(topic, bytes(1024), partition=number % PARTITIONS)
            producer.flush(30)
            time.sleep(0.6)
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    took[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
        query.stop()
        counted = [ms for batch, ms in sorted(took.items())][5:]
        yield Row("micro-batch, median", source, "ms", "lower", statistics.median(counted))
        yield Row("micro-batch, slowest tenth", source, "ms", "lower", statistics.quantiles(counted, n=10)[-1])


def decode(stage: Stage) -> Iterator[Row]:
    """Records a second that one core turns from a log's bytes into Arrow batches of all columns; ours alone."""
    batch = build([(1_000_000 + n, b"%8d" % n, bytes(1024), ()) for n in range(500)])
    buffer = memoryview(batch * ((8 << 20) // len(batch)))
    decoder = Decoder(TopicPartition("t", 0))
    records, best = len(buffer) // len(batch) * 500, 0.0
    ends = time.monotonic() + stage.sizes.decode_s
    while time.monotonic() < ends:
        began = time.process_time()
        found = sum(rows.num_rows for rows in decoder.decode(buffer, 0, 1 << 62))
        assert found == records
        best = max(best, records / (time.process_time() - began))
    yield Row("decode 1 KB", "moldau", "records/s/core", "higher", best)


def cluster_files(stage: Stage) -> Iterator[Row]:
    """Lines a second of state-change logs, each kept as a row with all columns or with its time alone; of the logs
    merged by time, each kept; and bytes a second of segments, each checksum computed. On all cores of the session, but
    for the merge, which is one process with its start; ours alone."""
    lines = 2 * stage.sizes.large
    home = stage.folder / "logs"
    home.mkdir()
    write_logs(home, lines)
    size = max(stage.sizes.large // 1000, 64) << 20
    folder = stage.folder / "data" / "orders-0"
    folder.mkdir(parents=True)
    each = 64 << 20
    batch = build([(1_000_000 + n, b"%8d" % n, bytes(1024), ()) for n in range(500)])
    for number in range(size // each):
        (folder / f"{number * 500:020d}.log").write_bytes(batch * (each // len(batch)))
    written = size // each * (each // len(batch)) * len(batch)

    def reader(format: str) -> DataFrameReader:
        return stage.spark.read.format(format)  # one each: an option that one is given stays

    yield Row("state-change logs, merged", "moldau", "lines/s", "higher", _merged(home, stage.folder / "merged", lines))
    short = reader("moldau_statelog").option("columns", "time,line").load(f"{home}/*/state-change.log")
    for cell, unit, amount, frame in (
        ("state-change logs", "lines/s", lines, reader("moldau_statelog").load(f"{home}/*/state-change.log")),
        ("state-change logs, time", "lines/s", lines, short),
        ("segments, verified", "MB/s", written / 1e6, reader("moldau_segments").load(str(folder.parent))),
    ):
        best = 0.0
        for _ in range(stage.sizes.repeats + 1):
            began = time.monotonic()
            frame.write.format("noop").mode("overwrite").save()
            best = max(best, amount / (time.monotonic() - began))
        yield Row(cell, "moldau", unit, "higher", best)


def _merged(home: Path, out: Path, lines: int) -> float:
    """Lines a second of ``moldau log merge`` into a file that has every line."""
    best = 0.0
    for _ in range(3):
        with out.open("wb") as merged:
            began = time.monotonic()
            files = map(str, sorted(home.glob("*/state-change.log")))
            subprocess.run([sys.executable, "-m", "moldau", "log", "merge", *files], check=True, stdout=merged)
            best = max(best, lines / (time.monotonic() - began))
    with out.open("rb") as merged:
        times = [line[1:24] for line in merged]
    assert len(times) == lines, f"{len(times)} of {lines} lines are in the merged log"
    assert times == sorted(times), "they are not in the order of time"
    return best


CELLS: dict[str, Callable[[Stage], Iterator[Row]]] = {
    "source": source_rows,
    "sink": sink_rows,
    "micro": micro_batches,
    "decode": decode,
    "files": cluster_files,
}


def main() -> None:
    """Measure the asked cells and print every row as a JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_cells", description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(CELLS), choices=list(CELLS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = start(folder)
        stage = Stage(spark, arguments.bootstrap, QUICK if arguments.quick else FULL, Path(folder))
        for name in arguments.only:
            for row in CELLS[name](stage):
                print(json.dumps(row._asdict()), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
