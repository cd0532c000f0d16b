"""A batch, a replay or a backfill that is cut off and cannot be finished as it was begun: refused, and given up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from test_pipeline import PATIENCE_S, Orders

from moldau.admin.pipeline import pipeline as commands
from moldau.pipeline.begun import HalfWritten
from moldau.pipeline.books import BookLine, balances
from moldau.pipeline.positions import differences, lags, plan, reset_cost, verified
from moldau.pipeline.reading import load
from moldau.pipeline.replays import Replays
from moldau.pipeline.running import Ended
from moldau.pipeline.unfinished import unfinished
from moldau.spark.sink import MARK, once
from moldau.spark.tables import Table

SECOND = "  - {table: second}"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def orders(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]) -> Orders:
    found = Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))
    found.declare(more_sinks=SECOND)
    return found


def said(orders: Orders, *words: str) -> tuple[int, str]:
    """A command, and what it ended with."""
    command, *rest = words
    found = CliRunner().invoke(commands, [*command.split(), str(orders.file), *rest])
    return found.exit_code, found.output


def cut_off(orders: Orders) -> None:
    """Run a batch until its second table, where something is in the way; then take that away."""
    second, aside = orders.folder / "second", orders.folder / "aside"
    if second.exists():
        shutil.move(second, aside)
    second.write_text("in the way of a table")
    with pytest.raises(Exception, match="second"):
        orders.run()
    second.unlink()
    if aside.exists():
        shutil.move(aside, second)


def seconds(orders: Orders) -> list[int]:
    return sorted(Table(orders.folder / "second", pipeline=orders.topic).read()["id"].to_pylist())


def check_books(orders: Orders) -> None:
    """The books balance, and the tables hold what they say."""
    totals = orders.runner().folder.books.newest(1)[0].totals
    assert balances(totals)
    assert differences(verified(load(orders.file, {}), totals)) == []


def test_a_batch_that_was_begun_is_finished_as_it_was_or_given_up(orders: Orders) -> None:
    """As many records are well after the edit, but others: counts alone would not tell."""
    orders.orders(range(1, 5))
    orders.write({"id": 100, "amount": -1})
    cut_off(orders)
    (one,) = unfinished(load(orders.file, {}), orders.runner().folder)
    assert {part.place for part in one.parts} == {"orders", "dead"}
    code, text = said(orders, "status", "--verify")
    assert (code, "unfinished: batch 0 is half written" in text, "wrong:" in text) == (0, True, False), text
    pipeline = orders.declare(rule="amount <> 4", more_sinks=SECOND)
    assert [step.what for step in plan(pipeline, orders.runner().folder) if "half written" in step.how] == ["batch 0"]
    with pytest.raises(HalfWritten, match=r"orders.*Undo the edit and run again, or `moldau pipeline abandon FILE`"):
        orders.run()
    assert orders.ids() == [1, 2, 3, 4], "nothing was written"

    code, text = said(orders, "abandon", "--dry-run")
    assert (code, "orders: 4 rows of it are removed" in text) == (0, True), text
    assert f"topic {orders.topic}-clean: what it has of it stays, and stands there twice" in text
    assert orders.ids() == [1, 2, 3, 4]
    assert said(orders, "abandon", "--yes")[0] == 0
    assert orders.ids() == []
    assert orders.run() is Ended.DONE
    assert orders.ids() == seconds(orders) == [1, 2, 3, 100]
    assert [one.records for one in Replays(pipeline, orders.runner().folder).waiting()] == [1]
    check_books(orders)
    assert set(orders.clean()) == {1, 2, 3, 4, 100}, "a mark that is used again would leave one out"


def test_an_edit_that_is_undone_lets_the_batch_be_finished(orders: Orders) -> None:
    orders.orders(range(1, 5))
    orders.write({"id": 100, "amount": -1})
    cut_off(orders)
    orders.declare(rule="amount <> 4", more_sinks=SECOND)
    with pytest.raises(HalfWritten):
        orders.run()
    orders.declare(more_sinks=SECOND)
    assert orders.run() is Ended.DONE
    assert orders.ids() == seconds(orders) == orders.clean() == [1, 2, 3, 4]
    check_books(orders)


def test_dead_letters_alone_make_place_for_those_of_the_next_run(orders: Orders) -> None:
    """No sink had the batch when it was cut off: whatever the records come to now, none is lost and none is twice."""
    orders.orders(range(1, 5))
    orders.write({"id": 100, "amount": -1})
    (orders.folder / "orders").write_text("in the way of a table")
    with pytest.raises(Exception, match="orders"):
        orders.run()
    (orders.folder / "orders").unlink()
    pipeline = orders.declare(rule="amount <> 4", more_sinks=SECOND)
    assert orders.run() is Ended.DONE
    assert orders.ids() == seconds(orders) == orders.clean() == [1, 2, 3, 100]
    assert [one.records for one in Replays(pipeline, orders.runner().folder).waiting()] == [1]
    check_books(orders)


def test_a_transformation_that_is_edited_does_not_finish_what_another_began(orders: Orders) -> None:
    orders.orders(range(1, 5))
    cut_off(orders)
    orders.file.write_text(orders.file.read_text().replace("amount * 2 AS", "amount * 3 AS"))
    with pytest.raises(HalfWritten, match="decode or transform would now give other rows"):
        orders.run()


def test_a_batch_that_is_in_the_books_is_not_judged_again_by_a_file_that_was_edited(orders: Orders) -> None:
    orders.orders(range(1, 5))
    runner = orders.runner()

    def die(line: BookLine) -> None:
        raise RuntimeError("dead before Spark knows")

    runner._on_line = die
    with pytest.raises(Exception, match="dead before Spark knows"):
        runner.run()
    orders.declare(rule="amount <> 4", more_sinks=SECOND)
    orders.orders(range(5, 7))
    assert orders.run() is Ended.DONE
    assert orders.ids() == [1, 2, 3, 4, 5, 6]
    check_books(orders)


def test_a_reset_says_what_a_half_written_batch_would_have_twice(orders: Orders) -> None:
    orders.orders(range(4))
    assert orders.run() is Ended.DONE
    orders.orders(range(4, 7))
    cut_off(orders)
    folder = orders.runner().folder
    ends = json.loads(orders.lines[-1].end[0])[orders.topic]  # type: ignore[index]
    start = json.dumps({orders.topic: ends})
    assert reset_cost(load(orders.file, {}), folder, start)[1:] == (3, 0)
    code, text = said(orders, "reset", "--to", start, "--dry-run")
    assert (code, "batch 1 is half written" in text, "abandon" in text) == (0, True, True), text
    assert said(orders, "abandon", "--yes")[0] == 0
    assert said(orders, "reset", "--to", start, "--yes")[0] == 0
    assert orders.run() is Ended.DONE
    assert orders.ids() == seconds(orders) == list(range(7))
    check_books(orders)


def test_a_replay_that_cannot_be_finished_is_given_up_and_its_dead_letters_wait_again(orders: Orders) -> None:
    orders.write({"id": 1, "amount": 1}, {"id": 100, "amount": -1}, {"id": 101, "amount": -3})
    assert orders.run() is Ended.DONE
    orders.declare(rule="amount >= -10", more_sinks=SECOND)
    shutil.move(orders.folder / "second", orders.folder / "aside")
    (orders.folder / "second").write_text("in the way of a table")
    assert said(orders, "dlq replay", "--yes")[0] == 1
    (orders.folder / "second").unlink()
    shutil.move(orders.folder / "aside", orders.folder / "second")
    pipeline = orders.declare(rule="amount > -3", more_sinks=SECOND)
    code, text = said(orders, "dlq replay", "--yes")
    assert (code, "replay 0 was cut off before" in text, "moldau pipeline abandon" in text) == (1, True, True), text
    assert said(orders, "abandon", "--yes")[0] == 0
    assert orders.ids() == [1]
    code, text = said(orders, "dlq replay", "--yes")
    assert code == 0, text
    assert orders.ids() == seconds(orders) == [1, 100]
    assert [one.batch for one in Replays(pipeline, orders.runner().folder).waiting()] == ["replay-1"]
    check_books(orders)


def test_a_replay_that_dies_after_its_line_is_counted_once(orders: Orders) -> None:
    orders.write({"id": 1, "amount": 1}, {"id": 100, "amount": -1})
    assert orders.run() is Ended.DONE
    pipeline = orders.declare(rule="amount >= -10", more_sinks=SECOND)

    def die(line: BookLine) -> None:
        raise RuntimeError("dead after its line")

    replays = Replays(pipeline, orders.runner().folder)
    with pytest.raises(RuntimeError, match="dead after its line"):
        replays.replay(orders.spark, replays.waiting(), modules=None, on_line=die)
    orders.orders(range(2, 4))
    assert orders.run() is Ended.DONE
    assert said(orders, "dlq replay", "--yes")[0] == 0
    assert orders.runner().folder.books.newest(1)[0].totals.replayed == 1
    assert orders.ids() == [1, 2, 3, 100]
    check_books(orders)


def test_two_pipelines_replay_into_one_topic_and_each_record_is_read_once(
    orders: Orders, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Orders(orders.spark, orders.bootstrap, tmp_path / "other", fresh("other"))
    for number, one in enumerate((orders, other)):
        text = one.file.read_text().replace(f"topic: {one.topic}-clean", f"topic: {orders.topic}-clean")
        one.file.write_text(text)
        one.write({"id": number, "amount": -1})
        assert one.run() is Ended.DONE
        one.file.write_text(text.replace("amount >= 0", "amount >= -1"))
        assert said(one, "dlq replay", "--yes")[0] == 0
    options = {
        "kafka.bootstrap.servers": orders.bootstrap, "subscribe": f"{orders.topic}-clean", "includeHeaders": "true",
    }  # fmt: skip
    rows = orders.spark.read.format("moldau").options(**options).load()
    marks = [bytes(one.value) for row in rows.collect() for one in row.headers if one.key == MARK]
    assert len(set(marks)) == len(marks) == 2
    assert sorted(json.loads(row.value)["id"] for row in once(rows).collect()) == [0, 1]


def test_dead_letters_of_a_folder_that_began_anew_are_written_though_the_table_knows_an_earlier_replay(
    orders: Orders,
) -> None:
    def bury_and_replay(number: int) -> None:
        orders.declare(more_sinks=SECOND)
        orders.write({"id": number, "amount": -1})
        assert orders.run() is Ended.DONE
        orders.declare(rule="amount >= -1", more_sinks=SECOND)
        assert said(orders, "dlq replay", "--yes")[0] == 0

    bury_and_replay(100)
    for name in ("state", "dead"):
        shutil.rmtree(orders.folder / name)
    assert said(orders, "reset", "--to", "latest", "--yes")[0] == 0
    bury_and_replay(101)
    assert orders.ids() == seconds(orders) == [100, 101]


def test_dead_letters_of_books_that_were_set_aside_are_none_of_the_new_ones(orders: Orders) -> None:
    orders.write({"id": 100, "amount": -1})
    assert orders.run() is Ended.DONE
    orders.declare(rule="amount >= -1", more_sinks=SECOND)
    assert said(orders, "dlq replay", "--yes")[0] == 0
    (orders.folder / "state" / "books").rename(orders.folder / "state" / "aside")
    assert said(orders, "reset", "--to", "latest", "--yes")[0] == 0
    orders.declare(more_sinks=SECOND)
    orders.write({"id": 101, "amount": -1})
    assert orders.run() is Ended.DONE
    pipeline = orders.declare(rule="amount >= -1", more_sinks=SECOND)
    assert [one.records for one in Replays(pipeline, orders.runner().folder).waiting()] == [1]
    assert said(orders, "dlq replay", "--yes")[0] == 0
    assert orders.ids() == [100, 101]


def test_a_backfill_whose_records_expired_is_given_up(orders: Orders) -> None:
    orders.file.write_text(orders.file.read_text().replace("max_records: 40", "start: latest, max_records: 40"))
    orders.orders(range(4))
    assert orders.run() is Ended.DONE
    orders.orders(range(4, 8))
    assert orders.run() is Ended.DONE
    shutil.move(orders.folder / "second", orders.folder / "aside")
    (orders.folder / "second").write_text("in the way of a table")
    assert said(orders, "backfill", "--yes")[0] == 1
    (orders.folder / "second").unlink()
    shutil.move(orders.folder / "aside", orders.folder / "second")
    found = lags(load(orders.file, {}), orders.runner().folder)
    ends = [TopicPartition(one.topic, one.partition, one.end) for one in found if one.end]
    admin = AdminClient({"bootstrap.servers": orders.bootstrap})
    for done in admin.delete_records(ends).values():
        done.result(PATIENCE_S)
    code, text = said(orders, "backfill", "--yes")
    assert (code, "backfill 0 was cut off before" in text, "moldau pipeline abandon" in text) == (1, True, True), text
    assert said(orders, "abandon", "--yes")[0] == 0
    assert orders.ids() == list(range(4, 8))
    assert said(orders, "backfill", "--dry-run")[0] == 0
    check_books(orders)
