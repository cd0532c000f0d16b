"""A declared pipeline on a real cluster and a real Spark: equal books whatever is cut off, a way out of each stop."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fastavro
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from deltalake import DeltaTable
from foreign import create_topic
from kafka_peer import wait_until
from pyspark.sql import SparkSession

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline import dedup
from moldau.pipeline.backfill import BackfillError, Backfills
from moldau.pipeline.batches import RefusedBatch
from moldau.pipeline.books import BookLine, balances, outcomes
from moldau.pipeline.lint import lint_file
from moldau.pipeline.maintained import maintenance
from moldau.pipeline.positions import lags, plan, reset_cost, verified
from moldau.pipeline.reading import load
from moldau.pipeline.registry.double import RegistryDouble
from moldau.pipeline.replays import Replays
from moldau.pipeline.resetting import reset
from moldau.pipeline.running import Ended, Runner
from moldau.pipeline.said import words
from moldau.pipeline.spec import Pipeline
from moldau.spark.sink import once
from moldau.spark.tables import Table

Fresh = Callable[[str], str]
PATIENCE_S = 240

pytestmark = pytest.mark.timeout(900)


class Orders:
    """A pipeline over a topic of orders, its file, and what came of it."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, topic: str) -> None:
        self.spark, self.bootstrap, self.folder, self.topic = spark, bootstrap, folder, topic
        create_topic(bootstrap, topic, 2, 3)
        create_topic(bootstrap, f"{topic}-clean", 1, 3)
        self.file = folder / "orders.yaml"
        self.lines: list[BookLine] = []
        self.declare()

    def declare(self, *, on_error: str = "dlq", rule: str = "amount >= 0", more_sinks: str = "") -> Pipeline:
        """Write the file: garbage and wrong amounts are treated as ``on_error`` says."""
        self.file.write_text(
            f"""\
pipeline: {self.topic}
cluster: {self.bootstrap}
folder: state
source: {{topics: {self.topic}, max_records: 40}}
decode: {{format: json, fields: {{id: long, amount: double, at: timestamp}}, on_error: {on_error}}}
check:
  - {{name: known, rule: id IS NOT NULL, on_error: skip}}
  - {{name: sound, rule: "{rule}", on_error: {on_error}}}
transform:
  - sql: SELECT id, amount * 2 AS twice, _topic, _partition, _offset FROM records
sinks:
  - table: orders
  - {{topic: {self.topic}-clean, key: id}}
{more_sinks}
dlq: {{table: dead}}
late: {{column: at, after: 1h}}
every: 500ms
"""
        )
        return load(self.file, {})

    def write(self, *values: object) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(self.topic, value if isinstance(value, bytes) else json.dumps(value).encode())
        assert producer.flush(120) == 0

    def orders(self, numbers: range) -> None:
        self.write(*({"id": number, "amount": number, "at": "2026-11-23T00:00:00Z"} for number in numbers))

    def run(self) -> Ended:
        return self.runner().run()

    def runner(self, *, once: bool = True, say: Callable[[str], None] = lambda text: None) -> Runner:
        return Runner(
            load(self.file, {}), file=self.file, once=once, say=say, on_line=self.lines.append,
            session=lambda pipeline: self.spark,
        )  # fmt: skip

    def ids(self) -> list[int]:
        return sorted(Table(self.folder / "orders", pipeline=self.topic).read()["id"].to_pylist())

    def clean(self) -> list[int]:
        """The ids in the topic, without doubles of batches that ran twice."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": f"{self.topic}-clean",
            "includeHeaders": "true",
        }
        rows = once(self.spark.read.format("moldau").options(**options).load())
        return sorted(json.loads(row.value)["id"] for row in rows.collect())


@pytest.fixture
def orders(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Fresh) -> Orders:
    return Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))


def test_every_record_is_written_left_out_or_dead_and_the_books_say_which(orders: Orders) -> None:
    orders.orders(range(50))
    orders.write(b"garbage", {"id": None}, {"id": 77, "amount": -1, "at": "2020-01-01T00:00:00Z"}, b"")
    pipeline = load(orders.file, {})
    before = orders.runner().folder
    assert sum(one.lag for one in lags(pipeline, before)) == 54
    assert [one.what for one in plan(pipeline, before) if one.changes] == [
        "checkpoint",
        f"table {orders.folder}/orders",
        f"dead letters {orders.folder}/dead",
    ]
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(50))
    assert orders.clean() == list(range(50))
    folder = orders.runner().folder
    totals = folder.books.newest(1)[0].totals
    assert balances(totals)
    assert totals.topics == {orders.topic: {"ok": 50, "skip:known": 1, "dlq:decode": 2, "dlq:sound": 1}}
    assert all(one["there"] in (None, one["rows"]) for one in verified(pipeline, totals))
    dead = Table(orders.folder / "dead", pipeline=orders.topic).read().to_pylist()
    assert sorted((row["stage"], row["value"]) for row in dead)[:2] == [("decode", b""), ("decode", b"garbage")]
    assert {row["topic"] for row in dead} == {orders.topic}
    assert sum(one.lag for one in lags(pipeline, folder)) == 0
    state = folder.state()
    assert state is not None
    assert state.state == "done"
    shutil.rmtree(orders.folder / "dead")
    assert [one["there"] for one in verified(pipeline, totals)] == [50, None, 0]
    orders.write(b"garbage")
    with pytest.raises(Exception, match="dead"):
        orders.run()
    assert orders.runner().folder.books.newest(1)[0].totals == totals, "the batch is not in the books"


def test_the_file_that_init_writes_is_linted_and_run_as_it_is(orders: Orders) -> None:
    orders.write({"id": 1, "amount": 2}, {"id": 2, "amount": 2.5, "to": {"city": "x"}}, b"garbage")
    file = orders.folder / "new.yaml"

    def init(topic: str) -> tuple[int, str]:
        words = ["init", "new", "--topic", topic, "--bootstrap-server", orders.bootstrap, "--out", str(file)]
        found = CliRunner().invoke(commands, words)
        return found.exit_code, found.output

    code, said = init("no-such-topic")
    assert (code, len(said.splitlines())) == (1, 1), said
    assert init(orders.topic)[0] == 0
    assert not lint_file(file)
    orders.file = file
    assert orders.run() is Ended.DONE
    rows = Table(orders.folder / "tables" / "new", pipeline="new").read().select(["id", "amount"]).to_pylist()
    assert sorted((row["id"], row["amount"]) for row in rows) == [(1, 2.0), (2, 2.5)]
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert totals.topics == {orders.topic: {"ok": 2, "dlq:decode": 1}}


def die_before_spark_knows(orders: Orders) -> None:
    """Run a batch, and end when it is in the books."""

    def die(line: BookLine) -> None:
        raise RuntimeError("dead before Spark knows")

    runner = orders.runner()
    runner._on_line = die
    with pytest.raises(Exception, match="dead before Spark knows"):
        runner.run()


def test_what_is_cut_off_between_any_two_steps_is_gone_on_with(orders: Orders) -> None:
    """A step that fails, a second sink that fails after the first has the batch, and a death before Spark knows; with
    a table that is maintained after each batch."""
    (orders.folder / "broken.py").write_text(
        "from pathlib import Path\n\n\ndef once(rows):\n    mark = Path(__file__).with_suffix('.mark')\n"
        "    if mark.exists():\n        mark.unlink()\n        raise RuntimeError('a step fails')\n    return rows\n"
    )
    text = orders.file.read_text().replace("sinks:", "  - python: broken:once\nsinks:")
    second = "{table: second, maintain: {every: 1ms}}"
    orders.file.write_text(text.replace("dlq: {", f"  - {second}\ndlq: {{"))
    (orders.folder / "broken.mark").touch()
    (orders.folder / "second").write_text("in the way of a table")
    orders.orders(range(30))
    with pytest.raises(Exception, match="a step fails"):
        orders.run()
    with pytest.raises(Exception, match="second"):
        orders.run()
    assert orders.ids() == list(range(30)), "the first table has the batch"
    (orders.folder / "second").unlink()
    die_before_spark_knows(orders)
    orders.orders(range(30, 60))
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(60))
    assert orders.clean() == list(range(60))
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert (totals.read, totals.rows_out, outcomes(totals, "ok")) == (60, 60, 60)
    assert totals.sinks[f"{orders.folder}/second"] == 60
    pipeline, folder = load(orders.file, {}), orders.runner().folder
    assert all(one["there"] in (None, one["rows"]) for one in verified(pipeline, totals))
    told = {one["table"]: one["told"] for one in maintenance(pipeline, folder)}
    assert "merged into 1" in str(told[f"{orders.folder}/second"])
    assert told[f"{orders.folder}/orders"] == "", "its time comes in a day"
    assert len(DeltaTable(f"{orders.folder}/second").file_uris()) == 1


def with_dedup(orders: Orders, what: str, *, more: str = "") -> Pipeline:
    """Declare the pipeline with a section ``dedup``."""
    orders.declare()
    text = orders.file.read_text().replace("check:", f"dedup: {{{what}}}\ncheck:")
    orders.file.write_text(text.replace("dlq: {", f"{more}dlq: {{"))
    return load(orders.file, {})


def test_a_key_that_was_seen_is_left_out_of_its_batch_of_later_ones_and_of_later_runs(orders: Orders) -> None:
    with_dedup(orders, "by: [id, amount], within: 1h")
    orders.orders(range(30))
    orders.orders(range(25))
    orders.write({"id": 7, "amount": 8.5, "at": None}, {"id": 400, "amount": None}, {"id": 400, "amount": None})
    assert orders.run() is Ended.DONE
    orders.orders(range(20, 40))
    assert orders.run() is Ended.DONE
    assert orders.ids() == sorted([*range(40), 7]), "an amount that is not there is no sound one"
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert balances(totals)
    assert totals.topics[orders.topic] == {"ok": 41, "skip:dedup": 35, "dlq:sound": 2}
    sent = json.loads(runner_state(orders))
    assert all(one["booked"] for one in sent)


def runner_state(orders: Orders) -> bytes:
    """What the pipeline says that it remembers."""
    return (orders.folder / "state" / "dedup" / "parts.json").read_bytes()


def test_a_key_is_remembered_for_the_time_that_is_said_by_the_column_that_is_said(orders: Orders) -> None:
    with_dedup(orders, "by: id, within: 1h, at: at, on_duplicate: dlq")

    def at(*ids: int, hour: int, minute: int = 0) -> None:
        orders.write(*({"id": one, "amount": hour, "at": f"2026-11-20T{hour:02}:{minute:02}:00Z"} for one in ids))
        assert orders.run() is Ended.DONE

    at(1, 2, hour=1)
    at(1, hour=1, minute=59)
    at(3, hour=3)
    at(1, 3, hour=3, minute=1)
    orders.write({"id": 5, "amount": 1, "at": "9999-01-01T00:00:00Z"})
    assert orders.run() is Ended.DONE
    at(2, 5, hour=4)
    assert orders.ids() == [1, 1, 2, 2, 3, 5], "5 is known until the year 9999 comes, 2 was forgotten"
    dead = [(one.stage, one.records) for one in Replays(load(orders.file, {}), orders.runner().folder).waiting()]
    assert sum(count for stage, count in dead if stage == "dedup") == 3


def test_a_batch_that_is_cut_off_is_judged_as_before_when_it_is_run_again(orders: Orders) -> None:
    with_dedup(orders, "by: id", more="  - {table: second}\n")
    orders.orders(range(10))
    orders.orders(range(10))
    (orders.folder / "second").write_text("in the way of a table")
    with pytest.raises(Exception, match="second"):
        orders.run()
    assert orders.ids() == list(range(10)), "the first table has the batch"
    (orders.folder / "second").unlink()
    die_before_spark_knows(orders)
    orders.orders(range(5, 15))
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(15))
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert balances(totals)
    assert totals.sinks[f"{orders.folder}/second"] == 15
    assert totals.topics[orders.topic] == {"ok": 15, "skip:dedup": 15}


def test_what_a_batch_remembered_and_nobody_wrote_leaves_nothing_out(orders: Orders) -> None:
    """A batch fails for good, its pipeline is reset: the same records come in a batch of another name."""
    pipeline = with_dedup(orders, "by: id")
    (orders.folder / "orders").write_text("in the way of a table")
    orders.orders(range(10))
    with pytest.raises(Exception, match="orders"):
        orders.run()
    (orders.folder / "orders").unlink()
    reset(pipeline, orders.runner().folder, "earliest")
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(10))


def test_a_backfill_that_was_written_is_remembered_though_it_ended_at_once(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended after its line in the books, and before it had said that it is there."""
    pipeline = with_dedup(orders, "by: id")
    pipeline = replace(pipeline, source=replace(pipeline.source, start="latest"))
    orders.orders(range(10))
    orders.file.write_text(orders.file.read_text().replace("max_records: 40", "max_records: 40, start: latest"))
    assert orders.run() is Ended.DONE
    backfills = Backfills(pipeline, orders.runner().folder)

    def die(*_: object) -> None:
        raise RuntimeError("dead before it is said")

    with monkeypatch.context() as patched:
        patched.setattr(dedup.SeenKeys, "booked", die)
        with pytest.raises(RuntimeError, match="dead before it is said"):
            backfills.carry_out(
                orders.spark, backfills.wanted("earliest", "latest"), modules=None, on_line=orders.lines.append
            )
    backfills.finish(orders.spark, modules=None, on_line=orders.lines.append)
    orders.orders(range(5, 15))
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(15))


def test_what_is_remembered_and_cannot_be_read_ends_the_run_by_its_name_and_loses_nothing(orders: Orders) -> None:
    with_dedup(orders, "by: id")
    orders.orders(range(10))
    assert orders.run() is Ended.DONE
    memory = orders.folder / "state" / "dedup"
    (part,) = (path for path in memory.iterdir() if path.is_dir())
    data = next(part.glob("*.parquet"))
    sound, named = data.read_bytes(), (memory / "parts.json").read_bytes()
    orders.orders(range(5, 15))

    def fails(match: str) -> None:
        with pytest.raises(Exception, match=match) as found:
            orders.run()
        assert re.search(match, words(found.value)), "in the line that the command prints"
        assert orders.ids() == list(range(10))

    data.write_bytes(b"no Parquet at all")
    fails(part.name)
    data.write_bytes(sound)
    part.rename(memory / "elsewhere")
    fails(part.name)
    (memory / "elsewhere").rename(part)
    (memory / "parts.json").write_bytes(b"{")
    fails("parts\\.json: not a list of what dedup remembers")
    (memory / "parts.json").write_bytes(named)
    assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(15))


def test_many_parts_of_what_is_remembered_become_one_and_know_as_much(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedup, "MERGED_FROM", 2)
    with_dedup(orders, "by: id")
    for number in range(4):
        orders.orders(range(10 * number, 10 * number + 15))
        assert orders.run() is Ended.DONE
    assert orders.ids() == list(range(45))
    names = [one["name"] for one in json.loads(runner_state(orders))]
    assert len(names) < 3
    assert {path.name for path in (orders.folder / "state" / "dedup").iterdir() if path.is_dir()} == {*names}


def test_a_pipeline_that_pauses_writes_nothing_of_the_batch_and_goes_on_when_its_file_is_mended(orders: Orders) -> None:
    orders.declare(on_error="pause")
    orders.orders(range(5))
    orders.write(b"garbage")
    assert orders.run() is Ended.PAUSED
    state = orders.runner().folder.state()
    assert state is not None
    assert (state.state, "garbage" in state.message or "decode" in state.message) == ("paused", True)
    assert Table(orders.folder / "orders", pipeline=orders.topic).last() is None

    said: list[str] = []
    runner = orders.runner(once=False, say=said.append)

    def mend(text: str) -> None:
        said.append(text)
        if text.startswith("paused"):
            orders.declare(on_error="dlq")

    def stop(line: BookLine) -> None:
        orders.lines.append(line)
        runner.stop()

    runner._say, runner._on_line = mend, stop
    assert runner.run() is Ended.STOPPED
    assert any("is read again" in text for text in said), said
    assert orders.ids() == list(range(5))


def test_a_policy_of_fail_ends_the_run_with_the_place_and_the_reason(orders: Orders) -> None:
    orders.declare(on_error="fail")
    orders.write({"id": 1, "amount": -5, "at": None})
    with pytest.raises(
        RefusedBatch, match=rf"{orders.topic}-[01]@0: stage 'sound' cannot take this record: not met: amount"
    ):
        orders.run()


def test_dead_letters_that_are_well_now_are_taken_up_once_and_a_reset_reads_again(orders: Orders) -> None:
    orders.orders(range(10))
    orders.write({"id": 100, "amount": -1}, {"id": 101, "amount": -2}, b"garbage")
    orders.run()
    pipeline = orders.declare(rule="amount >= -1")
    folder = orders.runner().folder
    replays = Replays(pipeline, folder)
    waiting = replays.waiting()
    assert sorted((one.stage, one.records) for one in waiting) == [("decode", 1), ("sound", 2)]
    replays.replay(orders.spark, replays.waiting("sound"), modules=None, on_line=orders.lines.append)
    assert orders.ids() == [*range(10), 100]
    assert sorted((one.stage, one.records, one.batch) for one in replays.waiting())[1:] == [("sound", 1, "replay-0")]
    reasons = {one.stage: one.reason for one in replays.waiting()}
    assert reasons["sound"] == "not met: amount >= -1"
    totals = folder.books.newest(1)[0].totals
    assert balances(totals)
    assert (totals.read, totals.replayed, outcomes(totals, "dlq") - totals.replayed) == (13, 2, 2)

    _, again, left_out = reset_cost(pipeline, folder, "earliest")
    assert (again, left_out) == (13, 0)
    reset(pipeline, folder, "earliest")
    orders.run()
    assert orders.ids() == sorted([*range(10), *range(10), 100, 100])
    totals = folder.books.newest(1)[0].totals
    assert balances(totals)
    assert totals.read == 26


def test_dead_letters_whose_replay_is_refused_are_where_they_were_and_hold_up_no_others(orders: Orders) -> None:
    orders.orders(range(3))
    orders.write({"id": 100, "amount": -1}, b"garbage")
    orders.run()
    pipeline = orders.declare(on_error="fail")
    replays = Replays(pipeline, orders.runner().folder)
    before = replays.waiting()
    assert {one.stage for one in before} == {"decode", "sound"}
    with pytest.raises(RefusedBatch):
        replays.replay(orders.spark, replays.waiting("sound"), modules=None, on_line=orders.lines.append)
    assert replays.waiting() == before
    assert replays.planned() == []
    replays = Replays(orders.declare(), orders.runner().folder)
    replays.replay(orders.spark, replays.waiting("decode"), modules=None, on_line=orders.lines.append)
    assert {one.batch for one in replays.waiting("decode")} == {"replay-0"}


def test_a_table_for_each_topic_can_be_added_later_and_is_reset_with_the_others(orders: Orders) -> None:
    orders.orders(range(5))
    orders.run()
    text = orders.file.read_text().replace("dlq: {", "  - {table: 'by/{topic}'}\ndlq: {")
    orders.file.write_text(text)
    orders.orders(range(5, 9))
    orders.run()
    routed = Table(orders.folder / "by" / orders.topic, pipeline=orders.topic)
    assert sorted(routed.read()["id"].to_pylist()) == list(range(5, 9)), "from then on"
    pipeline = load(orders.file, {})
    reset(pipeline, orders.runner().folder, "earliest")
    orders.run()
    assert sorted(routed.read()["id"].to_pylist()) == sorted([*range(5, 9), *range(9)])
    assert orders.ids() == sorted([*range(9), *range(9)])
    found = verified(pipeline, orders.runner().folder.books.newest(1)[0].totals)
    assert [(one["rows"], one["there"]) for one in found] == [(18, 18), (18, None), (13, 13), (0, 0)]


def test_what_lay_before_a_pipeline_began_is_read_beside_it_once(orders: Orders) -> None:
    """Cut off after its first batch, finished with the same ones beside a stream that goes on, known afterwards."""
    orders.orders(range(10))
    orders.file.write_text(orders.file.read_text().replace("max_records: 40", "start: latest, max_records: 4"))
    orders.run()
    orders.orders(range(10, 14))
    orders.run()
    pipeline = load(orders.file, {})
    folder = orders.runner().folder
    backfills = Backfills(pipeline, folder)
    wanted = backfills.wanted("earliest", None)
    assert (wanted.size, wanted.again, wanted.go_on) == (10, [], None)

    def die(line: BookLine) -> None:
        raise RuntimeError("dead after a batch")

    with pytest.raises(RuntimeError, match="dead after a batch"):
        backfills.carry_out(orders.spark, wanted, modules=None, on_line=die)
    orders.orders(range(14, 16))
    orders.run()
    Backfills(pipeline, folder).finish(orders.spark, modules=None, on_line=orders.lines.append)
    assert [line.kind for line in orders.lines[-2:]] == ["backfill", "backfill"]
    assert orders.ids() == list(range(16))
    assert orders.clean() == list(range(16))
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert (balances(totals), totals.read) == (True, 16)
    assert all(one["there"] in (None, one["rows"]) for one in verified(pipeline, totals))
    assert sum(one.size for one in backfills.wanted("earliest", "latest").again) == 16
    assert sum(one.lag for one in lags(pipeline, folder)) == 0, "positions are the stream's"


def test_a_pipeline_that_never_ran_goes_on_where_its_backfill_ended(orders: Orders) -> None:
    orders.orders(range(20))
    pipeline = load(orders.file, {})
    folder = orders.runner().folder
    backfills = Backfills(pipeline, folder)
    with pytest.raises(BackfillError, match="say how far"):
        backfills.wanted("earliest", None)
    with pytest.raises(BackfillError, match="the source has no other-0"):
        backfills.wanted("earliest", '{"other": {"0": 1}}')
    ends = {str(one.partition): one.end // 2 for one in lags(pipeline, folder)}
    wanted = backfills.wanted("earliest", json.dumps({orders.topic: ends}))
    assert wanted.size == sum(ends.values())
    backfills.carry_out(orders.spark, wanted, modules=None, on_line=orders.lines.append)
    assert len(orders.ids()) == wanted.size
    orders.run()
    assert orders.ids() == list(range(20))
    again = backfills.wanted("2026-01-01T00:00:00Z", "latest")
    assert (again.size, sum(one.size for one in again.again)) == (20, 20)
    backfills.carry_out(orders.spark, again, modules=None, on_line=orders.lines.append)
    assert orders.ids() == sorted([*range(20), *range(20)])
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert (balances(totals), totals.read) == (True, 40)

    def said(*words: str) -> tuple[int, str]:
        found = CliRunner().invoke(commands, [words[0], str(orders.file), *words[1:]])
        return found.exit_code, found.output

    assert said("backfill", "--dry-run") == (0, "0 offsets would be read, 0 of them again\n")
    code, text = said("replay", "--from", "-1h", "--to", "latest", "--topic", orders.topic, "--dry-run")
    assert (code, text.splitlines()[-1]) == (0, "20 offsets would be read, 20 of them again")
    code, text = said("backfill", "--to", "latest", "--yes")
    assert (code, "`moldau pipeline replay` reads a range again" in text) == (1, True), text
    code, text = said("run", "--once", "--metrics-port", "0")
    assert (code, "/metrics" in text) == (0, True), text
    assert len(orders.ids()) == 40


def test_a_topic_is_copied_to_another_cluster_as_it_is(orders: Orders, fresh: Fresh) -> None:
    """Partitions, keys, timestamps of hours, headers and tombstones, but for the mark of whoever wrote them."""
    copy = fresh("copy")
    create_topic(orders.bootstrap, copy, 2, 3)
    producer = Producer({"bootstrap.servers": orders.bootstrap})
    now_ms, hour_ms = time.time_ns() // 1_000_000, 3_600_000  # retention removes what is days old
    headers: list[tuple[str, bytes | str | None]] = [("a", b"x"), ("moldau-batch", b"q/0/0/0"), ("a", None)]
    for number in range(12):
        value = None if number == 7 else f"value {number}".encode()
        producer.produce(orders.topic, value, b"k" if number % 3 else None, number % 2, headers=headers,
                         timestamp=now_ms - number % 5 * hour_ms)  # fmt: skip
    assert producer.flush(120) == 0
    orders.file.write_text(
        f"pipeline: {copy}\ncluster: {orders.bootstrap}\nfolder: copy\nsource: {{topics: {orders.topic}}}\n"
        f"decode: {{format: raw}}\nsinks:\n  - {{topic: {copy}, cluster: '{orders.bootstrap}', key: _key, "
        "value: value, keep: [partition, timestamp, headers]}\n  - {table: copied}\n"
    )
    assert lint_file(orders.file, {}) == []
    orders.run()

    def all_of(topic: str) -> list[tuple[object, ...]]:
        options = {"kafka.bootstrap.servers": orders.bootstrap, "subscribe": topic, "includeHeaders": "true"}
        rows = orders.spark.read.format("moldau").options(**options).load().collect()
        found = [
            (row.partition, row.offset, row.timestamp, row.key, row.value,
             [(one.key, one.value) for one in row.headers if one.key != "moldau-batch"])
            for row in rows
        ]  # fmt: skip
        assert all(sum(one.key == "moldau-batch" for one in row.headers) == 1 for row in rows)
        return sorted(found, key=lambda one: one[:2])

    assert all_of(copy) == all_of(orders.topic)
    assert len(all_of(copy)) == 12
    columns = Table(orders.folder / "copied", pipeline=copy).read().column_names
    assert columns == ["value", "_topic", "_partition", "_offset", "_timestamp"]


def test_a_run_that_is_killed_goes_on_without_loss_or_doubles(orders: Orders) -> None:
    """The command itself, killed with SIGKILL in the middle of its batches, stopped by SIGTERM in good order."""
    orders.orders(range(400))
    command = [sys.executable, "-c", "from moldau.admin.main import main; main()", "pipeline"]

    def begin(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True)

    def done(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], capture_output=True, text=True, check=False)

    first = begin("run", str(orders.file))
    assert first.stderr is not None
    for line in first.stderr:
        if "batch 2:" in line:
            break
    first.kill()
    first.wait(PATIENCE_S)
    first.stderr.close()
    shown = subprocess.run(
        [*command, "status", str(orders.file), "-o", "json"], capture_output=True, text=True, check=False
    )
    assert json.loads(shown.stdout)["state"] == "lost"
    second = begin("run", str(orders.file))
    books = orders.runner().folder.books

    def all_read() -> bool:
        last = books.last()
        return last is not None and last.totals.read == 400

    wait_until(all_read, "all records are in the books", PATIENCE_S)
    other = done("run", str(orders.file), "--once")
    assert (other.returncode, "runs the pipeline" in other.stderr) == (1, True), other.stderr
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 0
    assert second.stderr is not None
    second.stderr.close()
    assert orders.ids() == list(range(400))
    assert orders.clean() == list(range(400))
    shown = subprocess.run(
        [*command, "status", str(orders.file), "--verify"], capture_output=True, text=True, check=False
    )
    assert (shown.returncode, "400 read + 0 replayed = 400 ok" in shown.stdout) == (0, True), shown.stdout


def test_a_test_file_is_run_without_a_cluster_and_names_what_differs(tmp_path: Path, spark: SparkSession) -> None:
    from moldau.pipeline.decode.plan import plan_decode
    from moldau.pipeline.trial import read_cases, run_case

    file = tmp_path / "a.yaml"
    file.write_text(
        "pipeline: a\nsource: {topics: orders}\n"
        "decode: {format: json, fields: {id: long, amount: double}, on_error: dlq}\n"
        "check: [{name: sound, rule: 1 / amount > 0, on_error: skip}]\n"
        "transform: [{sql: 'SELECT id, amount * 2 AS twice FROM records'}]\nsinks: [{table: t}]\ndlq: {table: d}\n"
    )
    tests = tmp_path / "a.test.yaml"
    tests.write_text(
        "- name: sound\n"
        "  records: [{value: {id: 1, amount: 2.5}}, {value: no, offset: 7}, {value: {id: 2, amount: 0}}]\n"
        "  rows: [{id: 1, twice: 5}]\n  dead: [{stage: decode, offset: 7}]\n  left_out: 1\n"
        "- {name: wrong, records: [{value: {id: 1, amount: 1}}], rows: [{twice: 3}]}\n"
        "- {name: dead, records: [{value: no}]}\n"
    )
    pipeline = load(file, {})
    decoding = plan_decode(pipeline.decode, ["orders"])
    found = [run_case(spark, pipeline, decoding, case, tmp_path) for case in read_cases(tests)]
    assert [bool(one.differences) for one in found] == [False, True, True]
    assert found[1].differences[0] == 'rows: expected and not found: {"twice": 3}'


def test_avro_of_a_registry_is_read_across_two_schemas_of_its_writers(orders: Orders) -> None:
    """A field that the columns lack is drift; an id that the registry lacks makes a dead letter."""
    fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]
    more = [*fields, {"name": "vat", "type": "double", "default": 0.0}]
    with RegistryDouble() as registry:
        texts = [{"type": "record", "name": "Order", "fields": one} for one in (fields, more)]
        ids = [registry.register(f"{orders.topic}-value", json.dumps(one)) for one in texts]
        text = orders.file.read_text()
        text = text.replace("format: json, fields: {id: long, amount: double, at: timestamp}",
                            f"format: avro, registry: '{registry.url}', version: 1")  # fmt: skip
        orders.file.write_text(text.replace("late: {column: at, after: 1h}\n", ""))
        for number, schema in zip(ids, texts, strict=True):
            for id in range(3):
                stream = io.BytesIO()
                value = {"id": number * 10 + id, "amount": 1.0, "vat": 0.2}
                fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
                orders.write(b"\0" + number.to_bytes(4, "big") + stream.getvalue())
        orders.write(b"\0" + (999).to_bytes(4, "big") + b"\2\0\0\0\0\0\0\0\0")
        assert orders.run() is Ended.DONE
        assert orders.ids() == sorted(number * 10 + id for number in ids for id in range(3))
        line = orders.runner().folder.books.newest(1)[0]
        assert [(one.what, one.schema_id, one.records) for one in line.drift] == [
            ("fields that are no columns: vat", ids[1], 3)
        ]
        dead = Table(orders.folder / "dead", pipeline=orders.topic).read().to_pylist()
        assert [(row["schema_id"], "999" in row["reason"]) for row in dead] == [(999, True)]
