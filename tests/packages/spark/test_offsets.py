"""Planning: positions, limits, splitting, and telling what was lost from what is merely new."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.model import TopicPartition
from moldau.spark.client_feed import open_feed
from moldau.spark.feed import KnownTopic
from moldau.spark.given import OptionError
from moldau.spark.losses import LossKind
from moldau.spark.offsets import (
    Moment,
    Positions,
    Range,
    begin_at,
    decode,
    encode,
    find_losses,
    limit_weight,
    missing,
    resolve,
    select,
    split,
    too_few,
)
from moldau.spark.options import Subscription, TriggerLimits, parse
from moldau.spark.planner import Planner
from moldau.spark.start import Ago, AtTime, AtTimes, Earliest, Explicit, Latest, OfGroup
from moldau.spark.testing import MemoryCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID, OTHER = b"i" * 16, b"o" * 16
sources = st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 12))
offsets = st.dictionaries(sources, st.integers(0, 1 << 40), min_size=1, max_size=8)


def at(**how: int) -> Positions:
    names = {"a0": A0, "a1": A1, "b0": B0}
    return Positions({names[name]: offset for name, offset in how.items()}, {"a": ID, "b": ID})


@given(offsets, st.booleans())
def test_a_stream_offset_survives_its_text(found, with_ids):
    before = Positions(found, {source.topic: source.topic.encode() * 16 for source in found} if with_ids else {})
    assert decode(json.loads(json.dumps(encode(before)))) == before
    shuffled = Positions(dict(reversed(list(found.items()))), before.topic_ids)
    assert json.dumps(encode(shuffled)) == json.dumps(encode(before))


def test_an_offset_that_sparks_own_connector_wrote_is_read():
    assert decode({"a": {"0": 23, "10": 5}}) == Positions({A0: 23, TopicPartition("a", 10): 5}, {})


def test_a_pattern_is_unanchored_and_never_takes_internal_topics():
    topics = {
        "orders": KnownTopic(ID, (0, 1)),
        "reorders": KnownTopic(ID, (0,)),
        "__order_state": KnownTopic(ID, (0,), True),
        "x": KnownTopic(ID, (0,)),
    }
    found = select(Subscription(pattern="order"), topics)
    assert {str(each) for each in found} == {"orders-0", "orders-1", "reorders-0"}
    assert select(Subscription(topics=("x", "nope")), topics) == {TopicPartition("x", 0): ID}
    assert missing(Subscription(topics=("x", "nope")), {TopicPartition("x", 0)}) == ["nope"]
    assigned = Subscription(partitions=(TopicPartition("orders", 1), TopicPartition("orders", 5)))
    assert list(select(assigned, topics)) == [TopicPartition("orders", 1)]
    assert missing(assigned, {TopicPartition("orders", 1)}) == ["orders-5"]


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.create("a", 2)
    cluster.log("a", 0).append(b"1", b"2", b"3", timestamp=1000)
    cluster.log("a", 0).append(b"4", timestamp=2000)
    cluster.log("a", 0).expire(3)
    return cluster


def test_positions_come_to_offsets(cluster):
    def asked(start, strategy=False):
        return resolve(start, (A0, A1), cluster.open(), Moment("startingOffsets", 2500, strategy))

    assert asked(Earliest()) == {A0: 3, A1: 0}
    assert asked(Latest()) == {A0: 4, A1: 0}
    assert asked(Explicit({A0: -1, A1: 7})) == {A0: 4, A1: 7}
    assert asked(Explicit({A0: 2, A1: -2})) == {A0: 2, A1: 0}
    assert asked(AtTime(1500), True) == {A0: 3, A1: 0}
    assert asked(AtTimes({A0: 5000, A1: 0}), True) == {A0: 4, A1: 0}
    assert asked(Ago(600)) == {A0: 3, A1: 0}
    cluster.groups["g"] = {A0: 1}
    assert asked(OfGroup("g")) == {A0: 1, A1: 0}
    with pytest.raises(OptionError, match=r"a-1 has no record from then on"):
        asked(AtTime(1500))


def test_explicit_offsets_must_name_every_partition(cluster):
    with pytest.raises(OptionError, match=r"it lacks a-1; it has the unknown b-0"):
        resolve(Explicit({A0: 1, B0: 2}), (A0, A1), cluster.open(), Moment("startingOffsets", 0, False))


def test_a_recreated_topic_is_told_from_a_log_that_went_back():
    again = Positions({A0: 10}, {"a": OTHER})
    assert [loss.kind for loss in find_losses(at(a0=50), at(a0=0), again)] == [LossKind.TOPIC_RECREATED]
    assert [loss.kind for loss in find_losses(at(a0=5), at(a0=0), again)] == [LossKind.TOPIC_RECREATED]
    assert [loss.kind for loss in find_losses(at(a0=50), at(a0=0), at(a0=10))] == [LossKind.LOG_WENT_BACK]
    unknown = Positions({A0: 50}, {})
    assert find_losses(unknown, at(a0=0), at(a0=60)) == []


def test_expired_gone_and_cut_partitions_are_losses_and_plain_new_ones_are_not():
    losses = find_losses(at(a0=5, b0=9), at(a0=8, a1=2), at(a0=20, a1=30))
    assert [(loss.partition, loss.kind, loss.position, loss.found) for loss in losses] == [
        (A0, LossKind.RECORDS_EXPIRED, 5, 8),
        (A1, LossKind.NEW_PARTITION_CUT, 0, 2),
        (B0, LossKind.PARTITION_GONE, 9, 0),
    ]
    assert find_losses(at(a0=5), at(a0=5, a1=0), at(a0=5, a1=7)) == []


def test_a_partition_that_is_not_subscribed_any_more_is_not_called_gone():
    losses = find_losses(at(a0=5, b0=9), at(), at())
    for how, kinds in (
        ({"subscribe": "a"}, [LossKind.PARTITION_GONE, LossKind.NOT_LISTED]),
        ({"subscribe": "b"}, [LossKind.NOT_LISTED, LossKind.PARTITION_GONE]),
        ({"subscribePattern": "[ab]"}, [LossKind.PARTITION_GONE] * 2),
        ({"subscribePattern": "a"}, [LossKind.PARTITION_GONE, LossKind.NOT_LISTED]),
        ({"assign": '{"a": [0, 1]}'}, [LossKind.PARTITION_GONE, LossKind.NOT_LISTED]),
    ):
        planner = Planner(
            parse({"kafka.bootstrap.servers": "h:1", "startingOffsets": "earliest", **how}, "stream"), open_feed
        )
        assert [loss.kind for loss in planner.told(losses)] == kinds


def test_reading_goes_on_from_the_position_or_from_what_is_left():
    again = Positions({A0: 10}, {"a": OTHER})
    assert begin_at(at(a0=5), at(a0=0), at(a0=9)) == {A0: 5}
    assert begin_at(at(a0=5), at(a0=7), at(a0=9)) == {A0: 7}
    assert begin_at(at(a0=5), at(a0=0), at(a0=3)) == {A0: 3}
    assert begin_at(at(a0=50), at(a0=1), again) == {A0: 1}
    assert begin_at(at(a0=5), at(a0=0, a1=2), at(a0=9, a1=8)) == {A0: 5, A1: 2}


backlogs = st.dictionaries(sources, st.tuples(st.integers(0, 1000), st.integers(0, 5000)), min_size=1, max_size=8)


@given(backlogs, st.integers(1, 10_000))
def test_a_limit_is_shared_by_backlog_and_starves_nobody(backlog, limit):
    start = {source: first for source, (first, _) in backlog.items()}
    end = {source: first + size for source, (first, size) in backlog.items()}
    found = limit_weight(limit, start, end, {})
    total = sum(size for _, size in backlog.values())
    if total <= limit:
        assert found == end
    for source, (first, size) in backlog.items():
        step = found[source] - first
        assert 0 <= step <= size
        assert step > 0 or size == 0
        if total > limit and size:
            share = limit * (size / total)
            assert step == min(size, math.ceil(share) if share < 1 else math.floor(share))
    assert sum(found[source] - start[source] for source in start) <= limit + len(backlog)


@given(backlogs, st.integers(1, 1_000_000), st.data())
def test_a_byte_limit_takes_no_more_than_its_bytes_and_one_record_each(backlog, limit, data):
    weights = {source: data.draw(st.floats(1, 2000)) for source in backlog}
    start = {source: first for source, (first, _) in backlog.items()}
    end = {source: first + size for source, (first, size) in backlog.items()}
    found = limit_weight(limit, start, end, weights)
    taken = sum((found[source] - start[source]) * weights[source] for source in start)
    assert taken <= limit + sum(weights.values()) + 1e-3
    assert all(found[source] > start[source] for source, (_, size) in backlog.items() if size)


def test_a_batch_waits_for_enough_offsets_but_not_forever():
    limits = TriggerLimits(min_offsets=10, max_delay_ms=1000)
    assert too_few(limits, {A0: 0}, {A0: 9}, 999)
    assert not too_few(limits, {A0: 0}, {A0: 10}, 0)
    assert not too_few(limits, {A0: 0}, {A0: 1}, 1000)
    assert not too_few(TriggerLimits(), {A0: 0}, {A0: 1}, 0)


sizes = st.lists(st.integers(-3, 500), min_size=1, max_size=8)


@given(sizes, st.none() | st.integers(1, 30), st.none() | st.integers(1, 100))
def test_splitting_covers_every_offset_once_in_order(each_size, min_partitions, max_records):
    ranges = [Range(TopicPartition("a", n), ID, 100, 100 + size) for n, size in enumerate(each_size)]
    limits = TriggerLimits(min_partitions=min_partitions, max_records_per_partition=max_records)
    tasks = split(ranges, limits)
    assert all(task.size > 0 for task in tasks)
    assert all(max_records is None or task.size <= max_records for task in tasks)
    for whole in ranges:
        parts = [(task.start, task.end) for task in tasks if task.partition == whole.partition]
        covered = [offset for first, last in parts for offset in range(first, last)]
        assert covered == list(range(whole.start, whole.end))
    big = sum(size for size in each_size if size > 0)
    if min_partitions is not None and max_records is None and big >= min_partitions * len(ranges):
        assert len(tasks) >= min_partitions - len(ranges)


def test_one_large_partition_is_split_and_small_ones_are_left_whole():
    ranges = [Range(A0, ID, 0, 1000), Range(A1, ID, 0, 10)]
    tasks = split(ranges, TriggerLimits(min_partitions=5))
    assert [task.size for task in tasks] == [250, 250, 250, 250, 10]
    assert split(ranges, TriggerLimits(min_partitions=2)) == ranges
