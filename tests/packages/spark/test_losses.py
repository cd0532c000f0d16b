"""Records that are lost, and a query's word on them: where the user looks, with what, where and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from moldau.model import TopicPartition
from moldau.spark.losses import DataLossError, listener, losses_of, skipped
from moldau.spark.options import parse
from moldau.spark.pool import FeedPool
from moldau.spark.readers import BatchReader
from moldau.spark.start import EARLIEST
from moldau.spark.tasks import read_range
from moldau.spark.testing import MemoryCluster, MemoryFeed, MicroBatches, values
from tests.packages.spark.orders import BASE, stream_reader
from tests.packages.spark.progress import progress_event, query_progress


def query_of(cluster: MemoryCluster, **given: str) -> MicroBatches:
    return MicroBatches(lambda: stream_reader(cluster, **given))


def test_what_a_batch_skips_stands_in_its_end_offset_and_no_longer_in_the_next(cluster):
    query = query_of(cluster, onDataLoss="skip")
    log = cluster.log("orders")
    log.append(b"1", b"2")
    assert query.batch() == [b"1", b"2"]
    assert query.batch() is None
    log.append(b"3")
    log.append(b"4")
    log.expire(3)
    with pytest.warns(UserWarning, match="orders-0: the log now begins after the position"):
        assert query.batch() == [b"4"]
    said = "the log now begins after the position: older records expired (position 2, found 3)"
    assert skipped(query.log[-1]) == {"orders-0": said}
    assert losses_of(query_progress(json.dumps(query.log[-1]), None, batch_id=3)) == [f"orders-0: {said}"]
    with pytest.warns(UserWarning, match=r"query q, batch 3: records lost, going on: orders-0: .*position 2, found 3"):
        listener().onQueryProgress(progress_event(json.dumps(query.log[-1]), None, batch_id=3))
    assert query.batch() is None, "what was skipped is no news the next time"
    query.restart()
    assert query.batch() is None
    log.append(b"5")
    assert query.batch() == [b"5"]
    assert skipped(query.log[-1]) == {}


@pytest.mark.parametrize("offset", [None, "", "17", "[]", "{", '{"#skipped": 3}', '{"a":{"0":1}}'])
def test_offsets_of_other_sources_say_nothing_of_losses(offset):
    assert skipped(offset) == {}


def test_records_that_expire_while_a_batch_is_read_are_told_with_the_next_one(cluster):
    query = query_of(cluster, onDataLoss="skip")
    log = cluster.log("orders")
    log.append(b"1", b"2")
    log.append(b"3")
    assert query.plan()
    cluster.before("fetch", lambda: log.expire(2))
    with pytest.warns(UserWarning, match="orders-0, offsets 0 to 2"):
        assert query.run() == [b"3"]
    log.append(b"4")
    with pytest.warns(UserWarning, match="may have expired while it was read"):
        assert query.batch() == [b"4"]
    assert "position 0, found 2" in skipped(query.log[-1])["orders-0"]


@pytest.mark.parametrize("step", ["ends", "offsets", "topics"])
def test_a_topic_that_is_deleted_while_a_batch_is_planned_is_a_named_loss(cluster, step):
    cluster.create("other")
    for given in ({"onDataLoss": "fail"}, {"onDataLoss": "skip"}):
        query = query_of(cluster, subscribe="orders,other", **given)
        cluster.log("orders").append(b"1")
        cluster.log("other").append(b"a")
        assert query.batch() == [b"1", b"a"]
        cluster.log("orders").append(b"2")
        cluster.log("other").append(b"b")
        cluster.before(step, lambda: cluster.delete("orders"))
        if given["onDataLoss"] == "fail":
            with pytest.raises(DataLossError, match="orders-0: the partition is gone"):
                query.batch() and query.batch()
        else:
            with (
                pytest.warns(UserWarning, match="orders-0: the partition is gone"),
                pytest.warns(UserWarning, match="orders-1: the partition is gone"),
            ):
                found = [query.batch(), query.batch()]
            assert [b"b"] in found
            cluster.create("orders", 2)
            cluster.log("orders").append(b"new")
            query.reader._topics = None  # a second later
            assert query.batch() == [b"new"]
        cluster.ids.pop("orders", None)
        cluster.logs.clear()
        cluster.create("orders", 2)
        cluster.create("other")


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_topic_that_nobody_knows_when_its_batch_is_handed_out_is_a_named_loss(cluster, policy):
    """Also one that is there: a broker that was just started knows none of those that are new. The checkpoint has the
    batch's end already, so what is left out of it now nobody reads."""
    query = query_of(cluster, onDataLoss=policy)
    cluster.log("orders").append(b"1", b"2")
    reader, start = query.reader, query.reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end["orders"] == {"0": 2, "1": 0}
    reader._topics = None  # a second later
    ids = dict(cluster.ids)
    cluster.before("topics", cluster.ids.clear)
    if policy == "fail":
        with pytest.raises(DataLossError, match=r"orders-0: the partition is gone \(position 0, found 0\)"):
            reader.partitions(start, end)
        cluster.ids.update(ids)
        reader._topics = None
        assert values(reader, reader.partitions(start, end)) == [b"1", b"2"], (
            "as it was planned, once somebody knows it"
        )
    else:
        with (
            pytest.warns(UserWarning, match="orders-0: the partition is gone"),
            pytest.warns(UserWarning, match="orders-1: the partition is gone"),
        ):
            assert reader.partitions(start, end) == []


def test_a_topic_that_is_deleted_before_its_task_runs_is_stepped_over_or_stops(cluster):
    for policy in ("fail", "skip"):
        options = parse({**BASE, "onDataLoss": policy}, "batch")
        cluster.log("orders").append(b"1")
        reader = BatchReader(options, cluster.open)
        parts = reader.partitions()
        cluster.delete("orders")
        if policy == "fail":
            with pytest.raises(DataLossError, match="orders-0, offsets 0 to 1"):
                values(reader, parts)
        else:
            with pytest.warns(UserWarning, match="orders-0, offsets 0 to 1"):
                assert values(reader, parts) == []
        cluster.create("orders", 2)


def test_a_batch_whose_topic_vanishes_while_it_is_planned_says_so(cluster):
    cluster.log("orders").append(b"1")
    cluster.before("ends", lambda: cluster.delete("orders"))
    with pytest.raises(DataLossError, match="orders-0: the partition is gone"):
        BatchReader(parse(BASE, "batch"), cluster.open).partitions()


def test_a_partition_whose_beginning_nobody_knows_is_not_left_out_of_a_batch_in_silence(cluster, monkeypatch):
    """Its leader may have moved between two questions: the one that is asked says that it has no such partition."""
    cluster.log("orders").append(b"1")
    cluster.log("orders", 1).append(b"2")
    offsets = MemoryFeed.offsets

    def without_one(feed: MemoryFeed, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        found = offsets(feed, asked)
        return {one: at for one, at in found.items() if one.partition == 1 or set(asked.values()) != {EARLIEST}}

    given = {"startingOffsets": '{"orders":{"0":0,"1":0}}'}
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFeed, "offsets", without_one)
        with pytest.raises(DataLossError, match="orders-0: the partition is gone"):
            BatchReader(parse({**BASE, **given}, "batch"), cluster.open).partitions()
        with pytest.raises(DataLossError, match="orders-0: the partition is gone"):
            query_of(cluster, **given).batch()
    assert query_of(cluster, **given).batch() == [b"1", b"2"]


def test_a_log_that_was_cut_off_and_has_grown_past_the_position_is_noticed(cluster):
    """An unclean election: numbers alone cannot tell, the leader epoch can (KIP-320)."""
    query = query_of(cluster)
    log = cluster.log("orders")
    for number in range(4):
        log.append(b"%d" % number)
    assert query.batch() == [b"0", b"1", b"2", b"3"]
    log.cut(2, elect=True)
    for number in range(3):
        log.append(b"other %d" % number)
    with pytest.raises(DataLossError, match=r"orders-0: the log was cut off before the position.*position 4, found 2"):
        query.batch()
    again = query_of(cluster, onDataLoss="skip")
    again.log, again.finished = query.log, query.finished
    again.restart()
    with pytest.warns(UserWarning, match="has grown past it"):
        assert again.batch() == [b"other 0", b"other 1", b"other 2"]
    log.append(b"next")
    assert again.batch() == [b"next"]


def test_a_clean_election_is_no_loss(cluster):
    query = query_of(cluster)
    log = cluster.log("orders")
    log.append(b"1")
    assert query.batch() == [b"1"]
    log.cut(1, elect=True)
    log.append(b"2")
    assert query.batch() == [b"2"]
    assert query.log[-1]["#leaderEpochs"] == {"orders-0": 1, "orders-1": 0}


def test_a_first_position_that_is_pinned_tells_of_what_expired_before_the_first_batch_ran(cluster, tmp_path):
    query = query_of(cluster, initialOffsetsLocation=str(tmp_path / "first.json"))
    log = cluster.log("orders")
    log.append(b"1")
    log.append(b"2")
    assert query.plan()
    log.expire(1)
    query.restart()
    with pytest.raises(DataLossError, match="older records expired"):
        query.run()


def test_a_group_that_was_shown_later_positions_tells_of_a_restored_checkpoint(cluster):
    query = query_of(cluster, publishGroup="shown")
    log = cluster.log("orders")
    log.append(b"1")
    assert query.batch() == [b"1"]
    query.reader.commit(query.log[0])
    log.append(b"2")
    assert query.batch() == [b"2"]
    query.reader.commit(query.log[1])
    del query.log[1:]
    query.finished = 1
    query.restart()
    with pytest.warns(UserWarning, match=r"begins before what group shown was shown: orders-0 1 \(shown 2\)"):
        assert query.batch() == [b"2"]


def test_showing_positions_stops_no_query(cluster):
    query = query_of(cluster, publishGroup="shown", **{"fetchOffset.numRetries": "0"})
    cluster.log("orders").append(b"1")
    query.batch()

    def refuse() -> None:
        raise RuntimeError("the group has members")

    cluster.before("commit", refuse)
    with pytest.warns(UserWarning, match="not published to group shown: the group has members"):
        query.reader.commit(query.log[0])


def test_a_compacted_tail_ends_a_range(cluster):
    log = cluster.log("orders")
    for number in range(4):
        log.append(b"%d" % number)
    reader = BatchReader(parse(BASE, "batch"), cluster.open)
    parts = reader.partitions()
    log.compact(0, 1)
    with pytest.warns(UserWarning, match="no record is left from offset 2 to 4"):
        assert values(reader, parts) == [b"0", b"1"]


def test_a_log_that_gives_nothing_and_ends_before_the_range_times_out(cluster):
    log = cluster.log("orders")
    log.append(b"1")
    options = parse({**BASE, "kafkaConsumer.pollTimeoutMs": "20"}, "batch")
    reader = BatchReader(options, cluster.open)
    (part,) = reader.partitions()
    log.cut(0)
    log.end = 0
    with pytest.raises(TimeoutError, match="no records from offset 0 for 20 ms"):
        values(reader, [part])


def test_a_read_is_tried_again_for_as_long_as_a_poll_may_take(cluster):
    log = cluster.log("orders")
    log.append(b"1")
    log.append(b"2")
    reader = BatchReader(parse({**BASE, "fetchOffset.numRetries": "0"}, "batch"), cluster.open)
    parts: list[Any] = reader.partitions()
    cluster.failures = 5
    with pytest.warns(UserWarning, match="reading on from offset 0 after fetch"):
        assert values(reader, parts) == [b"1", b"2"]
    options = parse({**BASE, "kafkaConsumer.pollTimeoutMs": "10"}, "batch")
    cluster.failures = 1 << 60
    with (
        pytest.warns(UserWarning, match="reading on from offset 0 after fetch"),
        pytest.raises(ConnectionRefusedError),
    ):
        list(read_range(options, parts[0].tasks[0], cluster.open))


def test_a_worker_keeps_its_feed_from_task_to_task_until_it_is_idle_for_too_long(cluster):
    now = [0]
    pool = FeedPool(lambda: now[0])
    cluster.log("orders").append(b"1")
    options = parse({**BASE, "kafka.connections.max.idle.ms": "1000"}, "batch")
    part: Any = BatchReader(options, cluster.open).partitions()[0]
    before = cluster.opened

    def read() -> int:
        list(read_range(options, part.tasks[0], cluster.open, pool))
        return cluster.opened - before

    assert [read(), read(), read()] == [1, 1, 1]
    now[0] = 1001
    assert read() == 2
    cluster.asked.clear()
    left = read_range(options, part.tasks[0], cluster.open, pool)
    next(left)
    del left
    assert cluster.asked[-1] == "close", "what was left in the middle is not used again"
    assert read() == 3
    other = parse({**BASE, "kafka.client.rack": "a"}, "batch")
    list(read_range(other, part.tasks[0], cluster.open, pool))
    assert cluster.opened - before == 4, "other options, another connection"


def test_a_batch_costs_the_driver_three_questions_and_none_while_it_is_handed_out(cluster):
    query = query_of(cluster)
    cluster.log("orders").append(b"1")
    query.batch()
    cluster.log("orders").append(b"2")
    cluster.asked.clear()
    assert query.plan(ReadAllAvailable())
    assert query.start is not None
    query.reader.partitions(query.start, query.log[-1])
    assert cluster.asked == ["ends", "topics", "offsets"]


def test_sizes_of_records_are_asked_of_all_partitions_at_once_and_not_every_time(cluster):
    for number in range(2):
        for _ in range(50):
            cluster.log("orders", number).append(bytes(1000))
    query = query_of(cluster, maxBytesPerTrigger="10k")
    for _ in range(4):
        assert 0 < len(query.batch() or []) <= 12
    assert cluster.asked.count("sample") == 1


def test_a_partition_of_unknown_size_takes_no_more_than_the_largest(cluster):
    for number in range(2):
        for _ in range(50):
            cluster.log("orders", number).append(bytes(10_000))
    query = query_of(cluster, maxBytesPerTrigger="100k")
    sample = cluster.open().sample

    def half(asked):
        return {source: size for source, size in sample(asked).items() if source.partition == 0}

    feed = cluster.open()
    feed.sample = half
    query.reader._plan.line._feed = feed
    assert sum(map(len, query.batch() or [])) <= 100 << 10
