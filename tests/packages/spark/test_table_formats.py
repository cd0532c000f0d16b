"""The ledger's rules hold in every format, and on a store that speaks S3; no JVM is needed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.cluster.nodes import free_ports
from moldau.spark.tables import BatchKey, DeltaFormat, LedgerError, Table, TableError
from moldau.spark.tables.files import DataFile, FileLayout, TaskFiles, folder_of, partition_of
from moldau.spark.tables.iceberg import IcebergFormat
from moldau.spark.tables.manifest import ParquetFormat
from moldau.spark.tables.stores import Store, open_store
from tests.packages.spark.table_batches import at, key

ROWS = pa.table({"id": pa.array([3, 1, 2], pa.int64()), "name": ["b", None, "a"]})
ALL = ["delta", "parquet", "iceberg"]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """moto's server: answers S3's protocol over a socket, conditional writes and all."""
    pytest.importorskip("moto.server")
    (port,) = free_ports(1)  # not one that the kernel gives to somebody else meanwhile
    # A process of its own: delta-rs holds the interpreter while it waits for an answer.
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    while True:
        assert server.poll() is None, "the server has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        select.select([], [], [], 0.05)
    client: Any = open_store("s3://tables", options)._s3_client()
    client.create_bucket(Bucket="tables")
    yield options
    server.terminate()
    server.wait(120)


def opened(kind: str, where: Path, place: str, options: dict[str, str], **how: Any) -> Table:
    by = how.pop("partition_by", ())
    if kind == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        told = {"AWS_ENDPOINT_URL": "s3.endpoint", "AWS_ACCESS_KEY_ID": "s3.access-key-id",
                "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key", "AWS_REGION": "s3.region"}  # fmt: skip
        properties = {told[name]: value for name, value in options.items() if name in told}
        warehouse = place if "://" in place else f"file://{place}"
        catalog = SqlCatalog("c", uri=f"sqlite:///{where}/catalog.db", warehouse=warehouse, **properties)
        return Table(IcebergFormat(catalog, "n.t", location=place, partition_by=by, storage_options=options), **how)
    store = open_store(place, options)
    return Table(DeltaFormat(store, by) if kind == "delta" else ParquetFormat(store, by), **how)


def files(store: Store, folder: str, rows: pa.Table, layout: FileLayout) -> list[DataFile]:
    told = TaskFiles(store, folder, rows.schema, layout).write(iter(rows.to_batches())).to_pylist()
    return [
        DataFile(row["path"], row["size"], row["rows"], json.loads(row["stats"]), partition_of(row["path"]))
        for row in told
    ]


def add(table: Table, batch: BatchKey, rows: pa.Table = ROWS) -> bool:
    table.format.prepare(rows.schema, evolve=table.evolve)
    folder = f"batch-{batch.batch_id}-{threading.get_ident()}-{os.urandom(4).hex()}"
    return not table.add(files(table.store, folder, rows, table.format.layout), batch).skipped


def race(tables: list[Table], batch: BatchKey) -> None:
    """Of drivers that write one batch at the same time one is told that it did, and the others that it is there."""
    outcome: list[bool | Exception] = []
    start = threading.Barrier(len(tables))

    def run(table: Table) -> None:
        table.last()
        start.wait()
        try:
            outcome.append(add(table, batch))
        except Exception as error:
            outcome.append(error)

    threads = [threading.Thread(target=run, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome, key=str) == [*[False] * (len(tables) - 1), True]


def walk(make) -> None:
    """The life of a table, each step by a driver that was started anew."""
    assert add(make(), key(0))
    assert not add(make(), key(0))
    assert add(make(), key(1))
    with pytest.raises(LedgerError, match="leaves a gap"):
        add(make(), key(3))
    with pytest.raises(LedgerError, match="comes from query r"):
        add(make(), key(2, "r"))
    assert make().count() == 6
    assert json.loads(make().positions()) == {"t": {"0": 20}}
    make().adopt()
    assert add(make(), key(2, "r"))
    assert make().add([], key(3, "r")) == (0, 0, False)
    assert json.loads(make().rewind(1)) == {"t": {"0": 20}}
    assert make().count() == 6
    assert add(make(), key(2, "s"))
    assert sorted(make().read()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("kind", ALL)
def test_the_ledgers_rules_hold_in_every_format(kind, tmp_path):
    walk(lambda: opened(kind, tmp_path, str(tmp_path / "t"), {}))


@pytest.mark.parametrize("kind", ALL)
def test_the_ledgers_rules_hold_on_s3(kind, tmp_path, s3):
    walk(lambda: opened(kind, tmp_path, f"s3://tables/{kind}", s3))


@pytest.mark.parametrize("kind", ALL)
def test_a_table_is_rewound_to_the_batch_where_it_ends(kind, tmp_path):
    """Nothing is to be taken back, and whichever stream comes next goes on."""

    def make() -> Table:
        return opened(kind, tmp_path, str(tmp_path / "t"), {})

    add(make(), key(0))
    assert json.loads(make().rewind(0)) == {"t": {"0": 10}}
    assert make().count() == 3
    assert add(make(), BatchKey("other", 0, at(10), at(20)))


REFUSED = {
    "a gap": BatchKey("q", 2, at(25), at(30)),
    "another checkpoint": BatchKey("new", 0, None, at(30)),
    "a restored checkpoint": BatchKey("q", 1, at(15), at(25)),
}


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("kind", ALL)
def test_what_a_refusal_tells_to_do_is_done_as_it_is_printed(kind, refused, tmp_path):
    """By someone who opens the table by its place alone, and without its rows at hand."""
    told: set[str] = set()
    for way in ("adopt", "reset", "rewind"):
        where = tmp_path / way
        where.mkdir()

        def stream(where: Path = where) -> Table:
            return opened(kind, where, str(where / "t"), {}, partition_by=["name"])

        add(stream(), key(0))
        add(stream(), key(1))
        with pytest.raises(LedgerError) as error:
            add(stream(), REFUSED[refused])
        calls = [call for call in re.findall(r"table\.\w+\([^)]*\)", str(error.value)) if f".{way}(" in call]
        if not calls:
            continue
        table = opened(kind, where, str(where / "t"), {})
        begins = json.loads(table.positions())
        said = eval(calls[0], {"table": table, "batch": 0})
        told.add(way)
        match way:
            case "adopt":
                assert begins == {"t": {"0": 20}}
                assert add(stream(), BatchKey("other", 0, at(20), at(30)))
            case "reset":
                assert add(stream(), REFUSED[refused])
            case "rewind":
                assert json.loads(said) == {"t": {"0": 10}}
                assert stream().count() == 3
                assert add(stream(), BatchKey("other", 0, at(10), at(30)))
    assert told >= {"adopt"}


@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_of_drivers_that_race_with_one_batch_one_is_taken(kind, tmp_path):
    def make() -> Table:
        return opened(kind, tmp_path, str(tmp_path / "t"), {})

    add(make(), key(0))
    race([make() for _ in range(3)], key(1))
    assert make().count() == 6


def test_of_writers_of_one_version_on_s3_one_is_let_in(s3):
    store = open_store("s3://tables/race", s3)
    assert store.put_if_absent("_moldau/log/0.json", b"one")
    assert not store.put_if_absent("_moldau/log/0.json", b"two")
    assert store.read("_moldau/log/0.json") == b"one"


def test_a_parquet_table_on_hdfs_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(TableError, match=re.escape("pip install 'moldau[hdfs]'")):
        open_store("hdfs://127.0.0.1:1/t").put_if_absent("_moldau/log/0.json", b"one")


@pytest.mark.parametrize("kind", ALL)
def test_columns_are_added_when_asked_for_and_partitions_compared(kind, tmp_path):
    def make(**how: object) -> Table:
        return opened(kind, tmp_path, str(tmp_path / "t"), {}, **how)

    wider = ROWS.append_column("more", pa.array([1, 2, 3], pa.int32()))
    add(make(partition_by=["name"]), key(0))
    with pytest.raises(TableError, match="differ in more"):
        add(make(partition_by=["name"]), key(1), wider)
    add(make(partition_by=["name"], evolve=True), key(1), wider)
    with pytest.raises(TableError, match=r"is partitioned by \['name'\], not by \[\]"):
        add(make(), key(2))
    found = make().read()
    assert sorted(found["more"].to_pylist(), key=str) == [1, 2, 3, None, None, None]
    assert sorted(found["name"].to_pylist(), key=str) == [None, None, "a", "a", "b", "b"]


def test_columns_that_another_writer_added_meanwhile_stay_and_keep_their_types(tmp_path):
    """Between the look at a batch's columns and its commit, for which its files are written."""

    def make(pipeline: str) -> Table:
        return opened("parquet", tmp_path, str(tmp_path / "t"), {}, evolve=True, pipeline=pipeline)

    wider = ROWS.append_column("more", pa.array([1, 2, 3], pa.int32()))
    other = ROWS.append_column("more", pa.array(["x", "y", "z"]))
    add(make("a"), key(0))
    slow, wrong = make("a"), make("c")
    slow.format.prepare(ROWS.schema, evolve=True)
    wrong.format.prepare(other.schema, evolve=True)
    add(make("b"), key(0), wider)
    slow.add([], key(1))
    with pytest.raises(TableError, match="differ in more"):
        wrong.add([], key(0))
    with pytest.raises(TableError, match="differ in more"):
        add(make("d"), key(0), other)
    assert make("a").read()["more"].type == pa.int32()


def test_an_iceberg_tables_partitions_by_numbers_are_told_and_nan_is_none(tmp_path):
    def make() -> Table:
        return opened("iceberg", tmp_path, str(tmp_path / "t"), {}, partition_by=["x"])

    add(make(), key(0), pa.table({"x": [1.5, None, 2.5], "n": [1, 2, 3]}))
    with pytest.raises(TableError, match="x is NaN in some of the rows"):
        add(make(), key(1), pa.table({"x": [1.5, float("nan")], "n": [4, 5]}))
    table = make().format
    assert isinstance(table, IcebergFormat)
    found = table._open()
    assert found is not None
    for rule, there in (("x == 1.5", [1]), ("x > 2", [3]), ("x is null", [2])):
        assert found.scan(row_filter=rule).to_arrow()["n"].to_pylist() == there, rule


def test_a_parquet_tables_small_files_are_merged_beside_the_stream(tmp_path):
    def make() -> Table:
        return opened("parquet", tmp_path, str(tmp_path / "t"), {})

    running = make()
    for number in range(250):  # over two sums of a hundred versions
        add(running, key(number))
    make().store.write(f"{folder_of(250)}/part.parquet", b"never committed")
    assert make().maintain(retention_hours=0) == {"merged": 250, "into": 1, "removed": 251}
    assert add(running, key(250))
    assert isinstance(running.format, ParquetFormat)
    assert len(running.format.files()) == 2
    assert make().count() == 251 * 3
    assert make().maintain(retention_hours=1)["removed"] == 0
    assert sorted(set(make().read()["id"].to_pylist())) == [1, 2, 3]
    with pytest.raises(LedgerError):
        add(make(), key(250, "r"))


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_columns_are_checked_without_a_table_being_made_or_changed(kind, tmp_path):
    def make(**how: object) -> Table:
        return opened(kind, tmp_path, str(tmp_path / "t"), {}, **how)

    make().format.check(ROWS.schema, evolve=False)
    assert not (tmp_path / "t").exists()
    add(make(), key(0))
    wider = ROWS.append_column("more", pa.array([1, 2, 3], pa.int32())).schema
    make().format.check(wider, evolve=True)
    refused = ((wider, {}, "differ in more"), (ROWS.schema, {"partition_by": ["name"]}, "partitioned by"))
    for schema, how, why in refused:
        with pytest.raises(TableError, match=why):
            make(**how).format.check(schema, evolve=False)
    assert make().read().column_names == ROWS.column_names


def test_a_batch_of_a_parquet_table_reads_and_writes_as_much_after_many_versions(tmp_path, monkeypatch):
    """Counted, not timed: files that are read for a batch of a driver that runs, and of one that starts."""
    store = open_store(tmp_path / "t")
    running = Table(ParquetFormat(store))
    file = files(store, "batch", ROWS, FileLayout())
    running.format.prepare(ROWS.schema, evolve=False)
    reads: list[str] = []
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda self, name: (reads.append(name), read(self, name))[1])
    costs = []
    for number in range(220):
        reads.clear()
        running.add(file, key(number))
        costs.append(len(reads))
    assert max(costs[1:99]) == costs[150] == costs[210]
    reads.clear()
    Table(ParquetFormat(store)).add(file, key(220))
    assert len(reads) <= 4
    assert pq.read_table(store.at(file[0].path)).num_rows == 3


def test_a_delta_table_is_read_without_python_in_the_threads_of_arrow(tmp_path, monkeypatch):
    """Such a thread that lets go of a file while the interpreter ends aborts the process."""
    from deltalake import write_deltalake
    from deltalake.fs import DeltaStorageHandler

    names = ["a b", "50%", "x:y", "ü", "a/b", "a%20b", ""]
    write_deltalake(str(tmp_path / "t"), pa.table({"p": names, "n": range(len(names))}), partition_by=["p"])

    def refuse(*_: object) -> None:
        raise AssertionError("Arrow calls Python")

    for name in ("open_input_file", "open_input_stream", "get_file_info"):
        monkeypatch.setattr(DeltaStorageHandler, name, refuse)
    found = Table(tmp_path / "t").read().to_pylist()
    assert sorted((row["n"], row["p"] or "") for row in found) == list(enumerate(names))
