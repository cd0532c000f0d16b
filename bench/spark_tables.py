"""What a batch costs a table, and what a row costs the sink, without Spark: ``python -m bench.spark_tables``.

Tables: the ledger's look and the commit of one file, at batch 1, 1,000 and 100,000, by a driver that runs. The batches
before are written into the log without their data: a million rows would not change what a commit reads. The first
hundred commits after each size are measured, so that one of Delta's checkpoints is among them. Of Iceberg, whose
snapshots ``maintain`` expires, up to batch 1,000. Sink: rows of a task through partitioning and encoding to batches,
with a cluster that takes them at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyiceberg.catalog.sql import SqlCatalog

from moldau.client.view import Partition, Topic
from moldau.client.writing import BatchOutcome, Sent
from moldau.model import Code, TopicPartition
from moldau.spark.produce import ProducerPool, write_task
from moldau.spark.sink_options import parse
from moldau.spark.tables import BatchKey, DeltaFormat, Table
from moldau.spark.tables.files import DataFile, read_footers
from moldau.spark.tables.iceberg import IcebergFormat
from moldau.spark.tables.manifest import ManifestVersion, ParquetFormat
from moldau.spark.tables.stores import open_store

SCHEMA = pa.schema([("id", pa.int64())])
ICEBERG_MOST = 1000
"""A commit takes pyiceberg longer by a constant time for each snapshot that is kept."""
STATS = {"numRecords": 1000, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}


def offsets(at: int) -> tuple[str, ...]:
    return (json.dumps({"orders": {str(number): at for number in range(6)}}),)


def key(number: int) -> BatchKey:
    return BatchKey("q", number, offsets(number), offsets(number + 1))


def file(number: int) -> DataFile:
    return DataFile(f"batch-{number:09d}/part-0.parquet", 1000, 1000, STATS, {})


def delta(folder: Path, before: int) -> Table:
    """A Delta table with the files of so many batches; its log as if they had come one by one, up to the last."""
    table = Table(folder)
    table.format.prepare(SCHEMA, evolve=False)
    if before > 1:
        actions: list[AddAction | RemoveAction] = [
            AddAction(each.path, each.size, {}, 0, True, json.dumps(STATS)) for each in map(file, range(before - 1))
        ]
        found = DeltaTable(str(folder))
        found.create_write_transaction(actions, "append", found.schema())
        DeltaTable(str(folder)).create_checkpoint()
    if before:
        Table(DeltaFormat(open_store(folder)), begins_late=True).add([file(before - 1)], key(before - 1))
    return Table(folder)


def parquet(folder: Path, before: int) -> Table:
    """A Parquet table with so many versions."""
    store = open_store(folder)
    lines: dict[str, str] = {}
    log = folder / "_moldau" / "log"
    log.mkdir(parents=True)
    for number in range(before):
        start, end = offsets(number), offsets(number + 1)
        line = {"pipeline": "default", "sequence": number, "query_id": "q", "batch_id": number, "start": start,
                "end": end, "rows": 1000, "what": "batch"}  # fmt: skip
        lines = {"default": json.dumps(line)}
        version = ManifestVersion(number, [file(number)], (), {"id": "int64"}, (), lines)
        (log / f"{number:020d}.json").write_bytes(version.to_json())
    return Table(ParquetFormat(store))


def iceberg(folder: Path, before: int) -> Table:
    """An Iceberg table, in a catalog of SQLite, with so many snapshots; each batch has the same file."""
    home = folder.parent
    folder.mkdir()
    (folder / "batch").mkdir()
    pq.write_table(pa.table({"id": pa.array(range(1000), pa.int64())}), folder / "batch" / "part-0.parquet")
    made = IcebergFormat(_catalog(home), "n.t", location=str(folder))
    made.prepare(SCHEMA, evolve=False)
    if before:
        Table(made, begins_late=True).add(_same(folder), key(before - 1))
        now = made.catalog.load_table("n.t")
        told = json.loads(Path(now.metadata_location.removeprefix("file://")).read_text())
        (newest,) = told["snapshots"]
        newest["sequence-number"] = told["last-sequence-number"] = before
        older = [{**newest, "snapshot-id": n, "sequence-number": n} for n in range(1, before)]
        (folder / "many.json").write_text(json.dumps({**told, "snapshots": [*older, newest]}))
        made.catalog.drop_table("n.t")
        made.catalog.register_table("n.t", f"file://{folder}/many.json")
    return Table(IcebergFormat(_catalog(home), "n.t", location=str(folder)))


TABLES = {"delta": delta, "parquet": parquet, "iceberg": iceberg}


def _catalog(home: Path) -> SqlCatalog:
    return SqlCatalog("c", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")


def _same(folder: Path) -> list[DataFile]:
    return read_footers(open_store(folder), "batch")


def cost(table: Table, before: int, files: Sequence[DataFile] = ()) -> dict[str, float]:
    """Milliseconds of a batch, of these files or of one that is not there: the first of a new driver, middle and worst
    of the next hundred, and the middle of their processor time."""
    spent, busy = [], []
    for number in range(before, before + 101):
        began, worked = time.perf_counter(), time.process_time()
        table.format.prepare(SCHEMA, evolve=False)
        table.add(files or [file(number)], key(number))
        spent.append((time.perf_counter() - began) * 1000)
        busy.append((time.process_time() - worked) * 1000)
    middle, processor = statistics.median(spent[1:]), statistics.median(busy[1:])
    return {"first": spent[0], "median": middle, "worst": max(spent[1:]), "processor": processor}


class Sponge:
    """A cluster that takes everything."""

    def topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        return {name: Topic(name, bytes(16), {n: Partition(n, 1, 0, [1], [1], []) for n in range(6)}) for name in names}

    def producer_id(self) -> tuple[int, int]:
        return 1, 0

    def begin_produce(self, parts: Mapping[TopicPartition, bytes], *, acks: int, timeout_ms: int) -> list[Sent]:
        return [Sent(None, list(parts), None, BatchOutcome(Code.NONE))]  # type: ignore[arg-type]  # nobody is asked

    def finish_produce(self, sent: Sent) -> Mapping[TopicPartition, BatchOutcome]:
        return dict.fromkeys(sent.targets, BatchOutcome(Code.NONE))

    def ready(self, sent: Collection[Sent]) -> list[Sent]:
        return []

    def produce(self, target: TopicPartition, records: bytes, *, acks: int, timeout_ms: int) -> BatchOutcome:
        return BatchOutcome(Code.NONE)

    def close(self) -> None:
        """Nothing is open."""


def sink(size: int, rows: int = 500_000) -> float:
    """Rows a second of processor time through one task."""
    count = 10_000
    batch = pa.RecordBatch.from_pydict({"key": [b"key%d" % n for n in range(count)], "value": [bytes(size)] * count})
    options = parse({"kafka.bootstrap.servers": "nowhere:1", "topic": "t"})
    began = time.process_time()
    write_task(options, iter([batch] * (rows // count)), "q/1/2/", open_out=lambda _: Sponge(), pool=ProducerPool(0))
    return rows / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_tables", description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 1_000, 100_000])
    parser.add_argument("--only", choices=[*TABLES], help="a table of this format, and no sink")
    arguments = parser.parse_args()
    for name in TABLES if arguments.only is None else [arguments.only]:
        make = TABLES[name]
        for before in arguments.batches:
            if make is iceberg and before > ICEBERG_MOST:
                continue
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "t"
                table = make(place, before - 1)
                found = cost(table, before - 1, _same(place) if make is iceberg else [])
            print(
                json.dumps({"table": name, "batch": before, **{k: round(v, 1) for k, v in found.items()}}), flush=True
            )
    for size in (100, 1000) if arguments.only is None else ():
        print(json.dumps({"sink": "encode", "bytes": size, "rows_per_cpu_second": round(sink(size))}), flush=True)


if __name__ == "__main__":
    main()
