"""Streams into tables in a real session: what is observed, written and committed agrees after a crash at each step."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from spark_steps import of_format

from moldau.spark import session
from moldau.spark.tables import BatchKey, LedgerError, Table, TableError
from moldau.spark.tables.files import DataFile, FileLayout, write_files
from moldau.spark.tables.routing import Tables
from moldau.spark.tables.stores import Store

BATCH = 20

pytestmark = pytest.mark.timeout(900)


class Crash(RuntimeError):
    """Stands for a driver that is killed."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    found = session("tables", folder=str(folder), conf={"spark.sql.session.timeZone": "Europe/Prague"})
    yield found
    found.stop()


class Numbers:
    """A stream of numbers, a file of 20 for each batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.count = spark, folder / "in", 0
        self.folder.mkdir()
        self.checkpoint = folder / "checkpoint"

    def more(self, batches: int = 1) -> None:
        for _ in range(batches):
            numbers = range(self.count * BATCH, self.count * BATCH + BATCH)
            (self.folder / f"{self.count:04d}.txt").write_text("".join(f"{n}\n" for n in numbers))
            self.count += 1

    def run(self, each: Callable[[DataFrame, int], None], checkpoint: Path | None = None) -> None:
        rows = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.folder))
        rows = rows.selectExpr("cast(value AS bigint) AS n", "cast(value % 2 AS string) AS half", "now() AS at")
        stream = rows.writeStream.option("checkpointLocation", str(checkpoint or self.checkpoint)).foreachBatch(each)
        stream.trigger(availableNow=True).start().awaitTermination(240)


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Numbers:
    return Numbers(spark, tmp_path)


def test_after_a_crash_at_each_step_the_books_are_equal(numbers: Numbers, tmp_path: Path) -> None:
    """Planned, files written, table committed; each batch crashes in another place and is run again."""
    steps = {1: "planned", 2: "written", 3: "committed"}

    def write(rows: DataFrame, store: Store, folder: str, layout: FileLayout) -> list[DataFile]:
        found = write_files(rows, store, folder, layout)
        if steps.get(int(folder.split("-")[1])) == "written":
            del steps[2]
            raise Crash("files are written")
        return found

    def each(rows: DataFrame, batch_id: int) -> None:
        table = Table(tmp_path / "table", partition_by=["half"], write=write)
        if steps.get(batch_id) == "planned":
            del steps[1]
            raise Crash("the batch is planned")
        table(rows, batch_id)
        if steps.get(batch_id) == "committed":
            del steps[3]
            raise Crash("the table has committed, Spark has not")

    numbers.more(5)
    for _ in range(3):
        with pytest.raises(StreamingQueryException, match="Crash"):
            numbers.run(each)
    numbers.run(each)
    table = Table(tmp_path / "table", partition_by=["half"])
    assert sorted(table.read()["n"].to_pylist()) == list(range(5 * BATCH))
    last = table.last()
    assert last is not None
    assert (last.batch_id, last.rows) == (4, BATCH)
    assert last.start is not None
    assert json.loads(last.start[0]) == {"logOffset": 3}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own of a few megabytes, as an executor's."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "moldau", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_a_full_disk_of_the_executors_is_named_loses_nothing_and_doubles_nothing(
    numbers: Numbers, small: Path, kind: str
) -> None:
    """The batch fails where its files are written; with space again the same batch goes in whole."""
    table = Table(of_format(kind, small))

    def each(rows: DataFrame, batch_id: int) -> None:
        hashes = fn.transform(fn.sequence(fn.lit(1), fn.lit(400)), lambda turn: fn.sha2(fn.concat("n", turn), 512))
        table.append(rows.withColumn("pad", fn.concat_ws("", hashes)), table.key_of(rows, batch_id))

    numbers.more()
    numbers.run(each)
    filler = small / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small).free - 100_000))
    numbers.more(2)
    with pytest.raises(StreamingQueryException, match="No space left on device"):
        numbers.run(each)
    assert table.count() == BATCH
    filler.unlink()
    numbers.run(each)
    assert sorted(Table(of_format(kind, small)).read()["n"].to_pylist()) == list(range(3 * BATCH))


def test_checkpoints_that_are_new_or_restored_are_refused_until_somebody_decides(
    numbers: Numbers, tmp_path: Path
) -> None:
    table = Table(tmp_path / "table")
    numbers.more(2)
    numbers.run(table)
    shutil.copytree(numbers.checkpoint, tmp_path / "copy")
    numbers.more()
    numbers.run(table)
    with pytest.raises(StreamingQueryException, match=r"comes from query .*table\.adopt\(\)"):
        numbers.run(Table(tmp_path / "table"), tmp_path / "new")
    numbers.run(Table(tmp_path / "table"), tmp_path / "copy")  # it had seen less, and sees the same again
    assert sorted(table.read()["n"].to_pylist()) == list(range(3 * BATCH))
    table.reset()
    numbers.run(table, tmp_path / "new")
    assert table.count() == 6 * BATCH


def test_an_executors_folder_that_the_driver_does_not_see_loses_nothing_silently(
    numbers: Numbers, tmp_path: Path
) -> None:
    """As on a cluster without a shared folder: the files lie where the driver does not look."""

    def elsewhere(rows: DataFrame, store: Store, folder: str, layout: FileLayout) -> list[DataFile]:
        class Far(Store):
            def names(self, folder: str, suffix: str = "") -> list[str]:
                return []

        return write_files(rows, Far(store.uri, store.filesystem, store.base, {}), folder, layout)

    numbers.more()
    with pytest.raises(StreamingQueryException, match="20 rows were written by the executors, but the driver finds 0"):
        numbers.run(Table(tmp_path / "table", write=elsewhere))
    numbers.run(Table(tmp_path / "table"))
    assert Table(tmp_path / "table").count() == BATCH


def test_timestamps_as_partitions_need_a_session_in_utc_and_files_by_arrow_hold_all_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(100).selectExpr("id AS n", "id % 3 AS third", "timestamp '2026-11-22 12:00:00' AS at")
    with pytest.raises(TableError, match="time zone Europe/Prague"):
        Table(tmp_path / "a", partition_by=["at"]).append(rows, BatchKey("q", 0))

    def keep(rows: DataFrame, store: Store, folder: str, layout: FileLayout) -> list[DataFile]:
        return write_files(rows, store, folder, FileLayout(layout.partition_by, keep_columns=True))

    table = Table(tmp_path / "b", partition_by=["third"], write=keep)
    assert table.append(rows, BatchKey("q", 0)).rows == 100
    assert table.append(rows, BatchKey("q", 0)).skipped
    with pytest.raises(LedgerError):
        table.append(rows, BatchKey("r", 0))
    assert sorted(table.read()["n"].to_pylist()) == list(range(100))


def test_a_routed_table_that_vanished_is_refused_until_somebody_says_that_it_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Topic b has records before the query began and none in its first batch; c's are all dropped by the query."""

    def key(batch: int, a: int, b: int, c: int) -> BatchKey:
        before, after = ((place(a - 1, b - 1, c - 1),), (place(a, b, c),))
        return BatchKey("q", batch, before, after)

    def place(a: int, b: int, c: int) -> str:
        return json.dumps({"a": {"0": a}, "b": {"0": b}, "c": {"0": c}})

    def rows(*topics: str) -> DataFrame:
        return spark.createDataFrame([(topic, index) for index, topic in enumerate(topics)], "topic string, n int")

    where = str(tmp_path / "{topic}")
    unmoved = BatchKey("q", 0, (place(0, 9, 0),), (place(1, 9, 1),))
    assert set(Tables(where).append(rows("a"), unmoved)) == {"a", "b", "c"}
    assert Tables(where).append(rows("a", "b"), key(1, 2, 10, 2))["b"].rows == 1
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(LedgerError, match=r"/b: batch 2 of query q is not the query's first.*was it removed"):
        Tables(where).append(rows("a", "b", "c"), key(2, 3, 11, 3))
    late = Tables(where, begins_late=True).append(rows("a", "b", "c"), key(2, 3, 11, 3))
    assert {topic: (each.rows, each.skipped) for topic, each in late.items()} == {
        "a": (0, True), "b": (1, False), "c": (1, False),
    }  # fmt: skip
    running = Tables(where)
    running.append(rows("a", "b", "c"), key(3, 4, 12, 4))
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(LedgerError, match="/c: batch 4 of query q is not the query's first"):
        running.append(rows("c"), key(4, 5, 13, 5))
