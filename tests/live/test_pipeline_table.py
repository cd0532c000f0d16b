"""A table's change feed into a topic, on a real cluster and Spark: nothing is missing, nothing twice by its marks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable, write_deltalake
from foreign import create_topic
from kafka_peer import wait_until
from pyspark.sql import SparkSession

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline import batches
from moldau.pipeline import running as topic_running
from moldau.pipeline.batches import ForeachBatch, RefusedBatch
from moldau.pipeline.books import BookLine, balances
from moldau.pipeline.feed.changes import FeedError
from moldau.pipeline.feed.running import runner
from moldau.pipeline.metrics import metrics
from moldau.pipeline.reading import load
from moldau.pipeline.resetting import reset
from moldau.pipeline.running import Ended, NoCluster, Runner
from moldau.spark.sink import once
from moldau.spark.tables import Table

Fresh = Callable[[str], str]
PATIENCE_S = 240

pytestmark = pytest.mark.timeout(900)


class Feeds:
    """A pipeline over a Delta table, its file, and what came of it."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, topic: str) -> None:
        self.spark, self.bootstrap, self.folder, self.topic = spark, bootstrap, folder, topic
        create_topic(bootstrap, topic, 1, 3)
        self.table, self.file = folder / "orders", folder / "feed.yaml"
        self.lines: list[BookLine] = []
        self.declare()

    def declare(self, source: str = "", *, rule: str = "amount < 1000", transform: str = "") -> None:
        given = source or "table: orders, start: earliest, keys: id, deletes: tombstone, max_records: 7"
        self.file.write_text(
            f"""\
pipeline: {self.topic}
cluster: {self.bootstrap}
folder: state
source: {{{given}}}
check:
  - {{name: sound, rule: "{rule}", on_error: dlq}}
{transform}
sinks:
  - {{topic: {self.topic}, key: CAST(id AS STRING)}}
dlq: {{table: dead}}
every: 200ms
"""
        )

    def write(self, *ids: int, amount: float = 1.0) -> None:
        found = pa.table({"id": pa.array(ids, pa.int64()), "amount": [amount] * len(ids)})
        write_deltalake(self.table, found, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

    def runner(self, *, once: bool = True) -> Runner:
        return runner(
            load(self.file, {}), file=self.file, once=once, on_line=self.lines.append,
            session=lambda pipeline: self.spark,
        )  # fmt: skip

    def run(self) -> Ended:
        return self.runner().run()

    def records(self) -> list[tuple[str, object]]:
        """Key and value of every record, in the topic's order, doubles too."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused"})
        _, end = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=60)
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        found: list[tuple[str, object]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < end and time.monotonic() < deadline:
            for one in consumer.consume(1000, 1.0):
                assert one.error() is None
                value = one.value()
                found.append(((one.key() or b"").decode(), None if value is None else json.loads(value)))
        consumer.close()
        assert len(found) == end
        return found

    def keys_once(self) -> list[str]:
        """The keys of the topic's records, those of a batch that ran twice once."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, "includeHeaders": "true"}
        rows = once(self.spark.read.format("moldau").options(**options).load())
        return sorted(row.key.decode() for row in rows.collect())

    def totals(self) -> dict[str, int]:
        totals = self.runner().folder.books.newest(1)[0].totals
        assert balances(totals)
        return dict(totals.topics["orders"])

    def invoke(self, *words: str) -> str:
        found = CliRunner().invoke(commands, [words[0], str(self.file), *words[1:]])
        assert found.exit_code == 0, found.output
        return found.output


@pytest.fixture
def feeds(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh) -> Feeds:
    return Feeds(spark, bootstrap_servers, tmp_path, fresh("feed"))


def test_every_change_of_the_table_is_in_the_topic_and_the_books_balance(feeds: Feeds) -> None:
    feeds.write(*range(10))
    feeds.write(99, amount=5000.0)
    assert "2 versions to read" in feeds.invoke("plan")
    assert json.loads(feeds.invoke("dry-run", "-o", "json"))["read"] == 11
    assert feeds.run() is Ended.DONE
    assert feeds.records() == [(str(one), {"id": one, "amount": 1.0}) for one in range(10)]
    DeltaTable(feeds.table).update(updates={"amount": "2.0"}, predicate="id = 3")
    DeltaTable(feeds.table).update(updates={"id": "50"}, predicate="id = 4")
    DeltaTable(feeds.table).delete("id = 5")
    assert json.loads(feeds.invoke("lag", "-o", "json"))[0]["lag"] == 3
    assert 'moldau_pipeline_lag_versions{pipeline="' in metrics(load(feeds.file, {}), feeds.runner().folder)
    assert feeds.run() is Ended.DONE
    assert feeds.records()[10:] == [
        ("3", {"id": 3, "amount": 2.0}), ("4", None), ("50", {"id": 50, "amount": 1.0}), ("5", None)
    ]  # fmt: skip
    assert feeds.totals() == {"ok": 14, "dlq:sound": 1, "skip:replaced": 1}
    dead = Table(feeds.folder / "dead", pipeline=feeds.topic).read().to_pylist()
    assert [json.loads(one["value"]) for one in dead] == [
        {"id": 99, "amount": 5000.0, "_change": "insert", "_version": 1}
    ]
    status = json.loads(feeds.invoke("status", "--verify", "-o", "json"))
    assert (status["read"], status["balanced"]) == (16, True)
    assert feeds.run() is Ended.DONE
    assert len(feeds.records()) == 14, "nothing is new"


class Cut(BaseException):
    """The process ends here: no part of a batch is told to have failed."""


def cut_at(feeds: Feeds, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, after: bool) -> None:
    """Run until a step of a batch is begun, or done, and end there."""
    step = getattr(owner, name)

    def ends(self: object, *args: object, **kwargs: object) -> object:
        if after:
            step(self, *args, **kwargs)
        raise Cut(name)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, ends)
        with pytest.raises(Cut):
            feeds.run()


def test_a_run_that_is_cut_off_between_any_two_steps_goes_on_where_it_was(
    feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moldau.pipeline.books import Books
    from moldau.pipeline.feed.checkpoint import FeedCheckpoint
    from moldau.pipeline.sinks import Dead, ToTopic

    feeds.write(*range(20))
    feeds.write(98, amount=5000.0)
    DeltaTable(feeds.table).delete("id < 4")
    steps = [
        (FeedCheckpoint, "add"), (ForeachBatch, "take"), (Dead, "write"), (ToTopic, "write"), (Books, "add"),
    ]  # fmt: skip
    for owner, name in steps:
        cut_at(feeds, monkeypatch, owner, name, after=False)
        cut_at(feeds, monkeypatch, owner, name, after=True)
    assert feeds.run() is Ended.DONE
    assert feeds.totals() == {"ok": 24, "dlq:sound": 1}
    assert feeds.keys_once() == sorted(str(one) for one in [*range(20), *range(4)])
    dead = Table(feeds.folder / "dead", pipeline=feeds.topic).read()
    assert dead.num_rows == 1
    state: dict[str, object] = {}
    state.update(feeds.records())
    assert sorted(int(key) for key, value in state.items() if value is not None) == list(range(4, 20))


def test_a_run_that_is_killed_while_the_table_grows_loses_nothing(feeds: Feeds) -> None:
    feeds.write(*range(5))
    command = [sys.executable, "-m", "moldau", "pipeline", "run", str(feeds.file)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        books, count = feeds.runner().folder.books, 5

        def has_lines(lines: int) -> bool:
            return len(books.newest(100)) >= lines

        for lines in range(1, 5):
            wait_until(partial(has_lines, lines), f"{lines} batches", PATIENCE_S)
            feeds.write(*range(count, count + 5))
            count += 5
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    feeds.write(*range(count, count + 5))
    wait_until(lambda: not feeds.runner().folder.is_locked(), "nobody runs it", PATIENCE_S)
    assert feeds.run() is Ended.DONE
    assert feeds.keys_once() == sorted(str(one) for one in range(count + 5))
    assert feeds.totals() == {"ok": count + 5}


def test_what_cannot_be_read_ends_the_run_with_the_way_out_and_a_reset_goes_on(feeds: Feeds) -> None:
    feeds.write(1, 2)
    assert feeds.run() is Ended.DONE
    feeds.declare("table: orders, start: earliest")
    DeltaTable(feeds.table).delete("id = 1")
    with pytest.raises(FeedError, match="deletes or updates rows"):
        feeds.run()
    state = feeds.runner().folder.state()
    assert state is not None
    assert (state.state, "version 1 deletes or updates rows" in state.message) == ("failed", True)
    assert "would begin at snapshot" in feeds.invoke("reset", "--to", "snapshot", "--dry-run")
    feeds.invoke("reset", "--to", "snapshot", "--yes")
    assert feeds.run() is Ended.DONE
    feeds.write(3)
    assert feeds.run() is Ended.DONE
    assert [key for key, _ in feeds.records()] == ["1", "2", "2", "3"]
    feeds.declare("table: orders", rule="id < 3", transform="transform: [{sql: SELECT id + 1 AS id FROM records}]")
    feeds.file.write_text(feeds.file.read_text().replace("on_error: dlq", "on_error: pause"))
    feeds.write(4)
    assert feeds.run() is Ended.PAUSED
    feeds.file.write_text(feeds.file.read_text().replace("id < 3", "id < 5"))
    assert feeds.run() is Ended.DONE
    assert feeds.records()[-1] == ("5", {"id": 5})
    for words in (["backfill", "--dry-run", "--to", "latest"], ["dlq", "replay"], ["test"]):
        given = [*words[:2], str(feeds.file)] if words[0] == "dlq" else [words[0], str(feeds.file), *words[1:]]
        found = CliRunner().invoke(commands, given)
        assert (found.exit_code, "is for pipelines that read topics" in found.output) == (1, True), found.output
    reset(load(feeds.file, {}), feeds.runner().folder, "2")
    assert feeds.run() is Ended.DONE
    assert [key for key, _ in feeds.records()][-2:] == ["4", "5"]
    feeds.file.write_text(feeds.file.read_text().replace("pause", "fail"))
    feeds.write(77)
    with pytest.raises(RefusedBatch):
        feeds.run()


def test_a_cluster_that_nobody_reaches_is_told_before_anything_is_noted(
    feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.write(1)
    feeds.file.write_text(feeds.file.read_text().replace(f"cluster: {feeds.bootstrap}", "cluster: 127.0.0.1:1"))
    monkeypatch.setattr(topic_running, "REACH_S", 0.0)
    with pytest.raises(NoCluster, match=r"no broker takes connections at 127\.0\.0\.1:1"):
        feeds.run()
    assert not feeds.runner().folder.has_checkpoint()


def test_brokers_that_go_away_while_a_batch_is_written_are_tried_again(
    feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.write(*range(5))
    write = batches.ForeachBatch.take
    failed: list[int] = []

    def refuse_once(self: ForeachBatch, *args: object, **kwargs: object) -> object:
        if not failed:
            failed.append(1)
            raise RuntimeError("moldau.client.client.Unreachable: no broker answers")
        return write(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(batches.ForeachBatch, "take", refuse_once)
    assert feeds.run() is Ended.DONE
    assert feeds.keys_once() == [str(one) for one in range(5)]


def test_appended_snapshots_of_an_iceberg_table_are_in_the_topic(feeds: Feeds) -> None:
    from pyiceberg.catalog import load_catalog

    place = feeds.folder
    given = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
    catalog = load_catalog("here", **given)
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "amount": [1.0] * 10})
    table = catalog.create_table("shop.orders", schema=rows.schema)
    options = json.dumps({"catalog": "here", "identifier": "shop.orders", **given})
    feeds.declare(f"table: orders, format: iceberg, start: earliest, max_records: 7, options: {options}")
    table.append(rows)
    table.append(rows)
    assert feeds.run() is Ended.DONE
    table.append(rows.slice(0, 1))
    assert feeds.run() is Ended.DONE
    assert [key for key, _ in feeds.records()] == [*map(str, range(10)), *map(str, range(10)), "0"]
    totals = feeds.runner().folder.books.newest(1)[0].totals
    assert dict(totals.topics) == {"shop.orders": {"ok": 21}}
    table.overwrite(rows)
    with pytest.raises(FeedError, match="only appended rows are read"):
        feeds.run()
