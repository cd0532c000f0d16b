"""Backfills and replays of dead letters beside what a pipeline reads itself: each record once, whatever is between."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from foreign import create_topic, wait_led
from kafka_peer import wait_until
from pyspark.sql import SparkSession
from test_pipeline import Orders
from test_pipeline_unfinished import check_books, said

from moldau.pipeline.backfill import BackfillError, Backfills
from moldau.pipeline.begun import HalfWritten
from moldau.pipeline.books import BookLine
from moldau.pipeline.positions import lags
from moldau.pipeline.reading import load
from moldau.pipeline.replays import Replays, TakenMeanwhile
from moldau.pipeline.running import Ended

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def orders(spark: SparkSession, bootstrap_servers: str, tmp_path: Path, fresh: Callable[[str], str]) -> Orders:
    return Orders(spark, bootstrap_servers, tmp_path, fresh("orders"))


def backfills(orders: Orders) -> Backfills:
    return Backfills(load(orders.file, {}), orders.runner().folder)


def source(orders: Orders, more: str) -> None:
    """Have the file's source say more, and batches be of four records."""
    orders.file.write_text(orders.file.read_text().replace("max_records: 40", f"{more}, max_records: 4"))


def cut_off(orders: Orders) -> None:
    """A backfill of what was not read that ends with its first batch."""

    def die(line: BookLine) -> None:
        raise RuntimeError("dead after a batch")

    found = backfills(orders)
    with pytest.raises(RuntimeError, match="dead after a batch"):
        found.carry_out(orders.spark, found.wanted("earliest", None), modules=None, on_line=die)


def add_partition(orders: Orders) -> None:
    """Give the topic a third partition."""
    admin = AdminClient({"bootstrap.servers": orders.bootstrap})
    for made in admin.create_partitions([NewPartitions(orders.topic, 3)]).values():
        made.result(120)
    wait_led(orders.bootstrap, orders.topic, 3)


def make_anew(orders: Orders) -> None:
    """Delete the topic, and make another one of its name."""
    admin = AdminClient({"bootstrap.servers": orders.bootstrap})
    for gone in admin.delete_topics([orders.topic]).values():
        gone.result(120)

    def made() -> bool:
        try:
            create_topic(orders.bootstrap, orders.topic, 2, 3)
        except Exception:  # it is not gone yet, as each client says in its own words
            return False
        return True

    wait_until(made, "the topic to be made anew")


def test_what_a_pipeline_will_read_that_has_not_read_yet_is_refused(orders: Orders) -> None:
    """One that paused before its first batch was written, and one that never ran and is backfilled of a topic alone."""
    orders.orders(range(10))
    refused = "10 of these offsets the pipeline has read, or will"
    code, text = said(orders, "backfill", "--to", "latest", "--topic", orders.topic, "--yes")
    assert (code, refused in text) == (1, True), text
    orders.declare(on_error="pause", rule="amount < 5")
    assert orders.run() is Ended.PAUSED
    code, text = said(orders, "backfill", "--to", "latest", "--yes")
    assert (code, refused in text) == (1, True), text
    orders.declare()
    orders.run()
    assert orders.ids() == list(range(10))
    check_books(orders)


def test_a_pipeline_that_was_reset_and_has_not_run_well_since_is_not_read_ahead_of(orders: Orders) -> None:
    """The books end with a batch of the checkpoint before, which read on from elsewhere."""
    source(orders, "start: latest")
    orders.orders(range(10))
    orders.run()
    orders.orders(range(10, 14))
    orders.run()
    assert orders.ids() == [10, 11, 12, 13]
    assert said(orders, "reset", "--to", "earliest", "--yes")[0] == 0
    assert sum(one.size for one in backfills(orders).wanted("earliest", "latest").again) == 14
    text = orders.file.read_text()
    orders.file.write_text(text.replace("on_error: dlq", "on_error: pause").replace("amount >= 0", "amount < 0"))
    assert orders.run() is Ended.PAUSED
    assert sum(one.size for one in backfills(orders).wanted("earliest", "latest").again) == 14


def test_what_was_read_while_somebody_was_asked_is_not_read_again(orders: Orders) -> None:
    """A command looks, asks, and has the pipeline to itself only then."""
    source(orders, "start: latest")
    orders.orders(range(10))
    orders.write({"id": 50, "amount": -1})
    orders.run()
    orders.orders(range(11, 12))
    orders.run()
    found, line = backfills(orders), orders.lines.append
    wanted = found.wanted("earliest", None)
    found.carry_out(orders.spark, wanted, modules=None, on_line=line)
    with pytest.raises(BackfillError, match="read more since this was looked at: nothing was done"):
        found.carry_out(orders.spark, wanted, modules=None, on_line=line)
    orders.declare(rule="amount > -5")
    replays = Replays(load(orders.file, {}), orders.runner().folder)
    waiting = replays.waiting()
    replays.replay(orders.spark, waiting, modules=None, on_line=line)
    with pytest.raises(TakenMeanwhile, match="1 dead letter was taken up by another replay since"):
        replays.replay(orders.spark, waiting, modules=None, on_line=line)
    assert orders.ids() == [*range(10), 11, 50]
    check_books(orders)


def test_what_an_abandoned_backfill_left_is_read_by_the_next_one(orders: Orders) -> None:
    source(orders, "start: latest")
    orders.orders(range(12))
    orders.run()
    orders.orders(range(12, 14))
    orders.run()
    cut_off(orders)
    code, text = said(orders, "reset", "--to", "earliest", "--dry-run")
    assert (code, "the next `backfill` reads the rest of it" in text) == (0, True), text
    assert said(orders, "abandon", "--yes")[0] == 0
    code, text = said(orders, "backfill", "--yes")
    assert code == 0, text
    assert orders.ids() == list(range(14))
    assert said(orders, "backfill", "--dry-run") == (0, "0 offsets would be read, 0 of them again\n")
    check_books(orders)


def test_partitions_that_come_while_a_backfill_is_cut_off_or_a_first_run_is_to_come_hold_up_neither(
    orders: Orders,
) -> None:
    orders.orders(range(12))
    orders.write(b"garbage")
    source(orders, "on_loss: fail")
    ends = {str(one.partition): one.end for one in lags(load(orders.file, {}), orders.runner().folder)}
    found = backfills(orders)

    def die(line: BookLine) -> None:
        raise RuntimeError("dead after a batch")

    wanted = found.wanted("earliest", json.dumps({orders.topic: ends}))
    with pytest.raises(RuntimeError, match="dead after a batch"):
        found.carry_out(orders.spark, wanted, modules=None, on_line=die)
    add_partition(orders)
    orders.orders(range(12, 24))
    backfills(orders).finish(orders.spark, modules=None, on_line=orders.lines.append)
    assert orders.ids() == list(range(12))
    check_books(orders)  # the stream has written nothing yet
    assert [one.records for one in Replays(load(orders.file, {}), orders.runner().folder).waiting()] == [1]
    orders.run()
    assert orders.ids() == list(range(24))
    check_books(orders)


def test_what_a_topic_that_was_made_anew_has_was_not_read_before(orders: Orders) -> None:
    """Its offsets are those of other records: what was read of the topic before says nothing of them."""
    source(orders, "start: latest, on_loss: skip")
    orders.orders(range(20))
    orders.run()
    orders.orders(range(20, 22))
    orders.run()
    make_anew(orders)
    orders.orders(range(100, 106))
    assert sum(one.size for one in backfills(orders).wanted("earliest", "latest").again) == 6
    orders.run()
    assert orders.ids() == [20, 21, *range(100, 106)]
    wanted = backfills(orders).wanted("earliest", "latest")
    assert (wanted.size, sum(one.size for one in wanted.again)) == (6, 6)
    assert backfills(orders).wanted("earliest", None).size == 0


@pytest.mark.parametrize("on_loss", ["fail", "skip"])
def test_the_rest_of_a_backfill_is_not_read_from_a_topic_that_was_made_anew(orders: Orders, on_loss: str) -> None:
    """Other records, which the stream reads itself, were written for the offsets that had been planned."""
    source(orders, f"start: latest, on_loss: {on_loss}")
    orders.orders(range(12))
    orders.run()
    orders.orders(range(12, 14))
    orders.run()
    cut_off(orders)
    there = orders.ids()
    make_anew(orders)
    orders.orders(range(100, 130))
    with pytest.raises(HalfWritten, match=r"deleted and made anew since the backfill was planned.*abandon FILE"):
        backfills(orders).finish(orders.spark, modules=None, on_line=orders.lines.append)
    assert orders.ids() == there
    assert said(orders, "abandon", "--yes")[0] == 0
    check_books(orders)


def test_records_that_expire_before_a_backfill_comes_to_them_are_named_as_lost(orders: Orders) -> None:
    """They were called offsets that held no record, as in topics with compaction."""
    source(orders, "start: latest, on_loss: skip")
    orders.orders(range(24))
    orders.run()
    orders.orders(range(24, 26))
    orders.run()
    cut_off(orders)
    admin = AdminClient({"bootstrap.servers": orders.bootstrap})
    ends = {one.partition: one.end for one in lags(load(orders.file, {}), orders.runner().folder)}
    for cut in admin.delete_records([TopicPartition(orders.topic, at, end) for at, end in ends.items()]).values():
        cut.result(120)
    backfills(orders).finish(orders.spark, modules=None, on_line=orders.lines.append)
    code, text = said(orders, "status", "--verify")
    assert (code, "were lost before they were read" in text, "held no record" in text) == (0, True, False), text
