"""Plans a read: which partitions, from where to where, in how many tasks, and whether records were lost meanwhile.

Pure arithmetic over facts that a ``Feed`` gave; whether to fail or to go on is the reader's choice, by ``onDataLoss``.
Offsets are next-to-read, as in Spark. A stream's offset is JSON like Spark's own, ``{"topic":{"0":23}}``, plus topic
ids under a key no topic can have: a topic made anew is not mistaken for a log that went backwards (KIP-516).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from moldau.model import NO_UUID, TopicPartition, uuid_bytes, uuid_text
from moldau.spark.feed import Feed, KnownTopic
from moldau.spark.given import OptionError
from moldau.spark.losses import Loss, LossKind
from moldau.spark.options import Subscription, TriggerLimits, java_pattern
from moldau.spark.start import EARLIEST, LATEST, Ago, AtTime, AtTimes, Earliest, Explicit, Latest, OfGroup, Start

IDS_KEY, EPOCHS_KEY = "#topicIds", "#leaderEpochs"
Offsets = Mapping[TopicPartition, int]
_NOWHERE: Offsets = {}


class Positions(NamedTuple):
    """Offsets of partitions, the ids of their topics (NO_UUID: not known), and the leader epochs they are of (KIP-320).

    A leader of an epoch has every record that was read under it or before, unless an unclean election lost some.
    """

    offsets: Offsets
    topic_ids: Mapping[str, bytes]
    epochs: Mapping[TopicPartition, int] = {}

    def id_of(self, partition: TopicPartition) -> bytes:
        return self.topic_ids.get(partition.topic, NO_UUID)


class Range(NamedTuple):
    """The offsets [start, end) of one partition: one Spark task."""

    partition: TopicPartition
    topic_id: bytes
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def encode(positions: Positions) -> dict[str, dict[str, int] | dict[str, str]]:
    """The stream offset of these positions, always in the same order, since Spark compares its text."""
    found: dict[str, dict[str, int] | dict[str, str]] = {}
    for partition in sorted(positions.offsets):
        by_partition: dict[str, int] = found.setdefault(partition.topic, {})  # type: ignore[assignment]
        by_partition[str(partition.partition)] = positions.offsets[partition]
    ids = {topic: uuid_text(positions.topic_ids.get(topic, NO_UUID)) for topic in found}
    known = {topic: text for topic, text in ids.items() if text != uuid_text(NO_UUID)}
    if known:
        found[IDS_KEY] = known
    epochs = {
        str(partition): positions.epochs[partition]
        for partition in sorted(positions.offsets)
        if partition in positions.epochs
    }
    if epochs:
        found[EPOCHS_KEY] = epochs
    return found


def decode(offset: Mapping[str, Mapping[str, int | str]]) -> Positions:
    """The positions in a stream offset; an offset that Spark's own connector wrote is read too (it has no ids)."""
    ids = {topic: uuid_bytes(str(text)) for topic, text in offset.get(IDS_KEY, {}).items()}
    offsets = {
        TopicPartition(topic, int(partition)): int(at)
        for topic, by_partition in offset.items()
        if not topic.startswith("#")
        for partition, at in by_partition.items()
    }
    epochs = {_partition(name): int(epoch) for name, epoch in offset.get(EPOCHS_KEY, {}).items()}
    return Positions(offsets, ids, epochs)


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def select(subscription: Subscription, topics: Mapping[str, KnownTopic]) -> dict[TopicPartition, bytes]:
    """The partitions a subscription names among ``topics``, with their topic's id; a missing topic is simply absent."""
    if subscription.partitions:
        return {
            each: topics[each.topic].topic_id
            for each in subscription.partitions
            if each.topic in topics and each.partition in topics[each.topic].partitions
        }
    if subscription.pattern is not None:
        matches = java_pattern(subscription.pattern).search  # unanchored, as Spark's
        names = [name for name, topic in topics.items() if not topic.internal and matches(name)]
    else:
        names = [name for name in subscription.topics if name in topics]
    return {TopicPartition(name, each): topics[name].topic_id for name in names for each in topics[name].partitions}


def names(subscription: Subscription, partition: TopicPartition) -> bool:
    """Whether a subscription is to a partition, wherever that is."""
    if subscription.partitions:
        return partition in subscription.partitions
    if subscription.pattern is not None:
        return java_pattern(subscription.pattern).search(partition.topic) is not None
    return partition.topic in subscription.topics


def missing(subscription: Subscription, found: Collection[TopicPartition]) -> list[str]:
    """The topics and partitions a subscription names that are not there; a pattern names none."""
    if subscription.partitions:
        return [str(each) for each in subscription.partitions if each not in found]
    there = {each.topic for each in found}
    return [each for each in subscription.topics if each not in there]


def resolve(
    start: Start, partitions: Collection[TopicPartition], feed: Feed, when: Moment
) -> dict[TopicPartition, int]:
    """The offsets a position comes to now. OptionError when it names other partitions, or a time without records."""
    match start:
        case Earliest():
            return dict(feed.offsets(dict.fromkeys(partitions, EARLIEST)))
        case Latest():
            return dict(feed.offsets(dict.fromkeys(partitions, LATEST)))
        case Explicit(offsets):
            _same_partitions(when.option, offsets, partitions)
            special = {partition: at for partition, at in offsets.items() if at < 0}
            return {**offsets, **(feed.offsets(special) if special else {})}
        case AtTime(timestamp_ms):
            return _at_times(dict.fromkeys(partitions, timestamp_ms), feed, when)
        case AtTimes(timestamps_ms):
            _same_partitions(when.option, timestamps_ms, partitions)
            return _at_times(timestamps_ms, feed, when)
        case Ago(duration_ms):
            moment = max(0, when.now_ms - duration_ms)
            return _at_times(dict.fromkeys(partitions, moment), feed, when._replace(latest_on_no_match=True))
        case OfGroup(group_id):
            committed = feed.committed(group_id, partitions)
            rest = [each for each in partitions if each not in committed]
            return {**committed, **(feed.offsets(dict.fromkeys(rest, EARLIEST)) if rest else {})}


class Moment(NamedTuple):
    """When, and for which option, a position is resolved; what a time after the last record means."""

    option: str
    now_ms: int
    latest_on_no_match: bool


def _at_times(timestamps_ms: Offsets, feed: Feed, when: Moment) -> dict[TopicPartition, int]:
    found = dict(feed.offsets(timestamps_ms))
    none = [partition for partition in timestamps_ms if found.get(partition, LATEST) < 0]
    if none and not when.latest_on_no_match:
        partition = none[0]
        raise OptionError(
            when.option,
            str(timestamps_ms[partition]),
            f"{partition} has no record from then on; startingOffsetsByTimestampStrategy=latest starts at its end",
        )
    if none:
        found.update(feed.offsets(dict.fromkeys(none, LATEST)))
    return found


def _same_partitions(option: str, named: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    absent, unknown = sorted(set(partitions) - set(named)), sorted(set(named) - set(partitions))
    if absent or unknown:
        parts = [f"{word} {', '.join(map(str, group))}" for word, group in
                 (("it lacks", absent), ("it has the unknown", unknown)) if group]  # fmt: skip
        raise OptionError(
            option, ", ".join(map(str, sorted(named))), f"every partition must be named: {'; '.join(parts)}"
        )


def find_losses(
    position: Positions, earliest: Positions, latest: Positions, diverged: Offsets = _NOWHERE
) -> list[Loss]:  # fmt: skip
    """What was lost between ``position`` and what the cluster holds now, partition by partition.

    ``diverged``: where the records that had been read end, in logs that were cut off before the position.
    """
    losses: list[Loss] = []
    for partition in sorted(set(position.offsets) | set(latest.offsets)):
        at, end = position.offsets.get(partition), latest.offsets.get(partition)
        begin = earliest.offsets.get(partition, 0)
        if end is None or partition not in earliest.offsets:  # it went while it was asked for
            losses.append(Loss(LossKind.PARTITION_GONE, partition, at or 0, 0))
        elif at is None:
            if begin > 0:
                losses.append(Loss(LossKind.NEW_PARTITION_CUT, partition, 0, begin))
        elif recreated(position, latest, partition):
            losses.append(Loss(LossKind.TOPIC_RECREATED, partition, at, begin))
        elif end < at:
            losses.append(Loss(LossKind.LOG_WENT_BACK, partition, at, end))
        elif diverged.get(partition, at) < at:
            losses.append(Loss(LossKind.LOG_DIVERGED, partition, at, diverged[partition]))
        elif begin > at:
            losses.append(Loss(LossKind.RECORDS_EXPIRED, partition, at, begin))
    return losses


def recreated(before: Positions, after: Positions, partition: TopicPartition) -> bool:
    """Whether the partition belongs to another topic of the same name; unknown ids say no."""
    old, new = before.id_of(partition), after.id_of(partition)
    return NO_UUID not in (old, new) and old != new


def begin_at(
    position: Positions, earliest: Positions, end: Positions, diverged: Offsets = _NOWHERE
) -> dict[TopicPartition, int]:  # fmt: skip
    """Where to read each partition of ``end`` from: on from ``position``, or from the earliest record there.

    New partitions and topics made anew begin at their earliest record. Expired records are stepped over; a log that was
    cut off before the position yields nothing (its range ends where it begins), one that has grown past it again is
    read from where it was cut.
    """
    found: dict[TopicPartition, int] = {}
    for partition, last in end.offsets.items():
        first = earliest.offsets.get(partition, 0)
        at = position.offsets.get(partition)
        if at is None or recreated(position, end, partition):
            at = first
        at = min(at, diverged.get(partition, at))
        found[partition] = min(max(at, first), max(last, first))
    return found


def limit_weight(
    limit: float, start: Offsets, end: Offsets, weights: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """The end offsets that take at most about ``limit`` of weight, shared among partitions by their backlog.

    ``weights``: of one offset, per partition (1 to count offsets, bytes per offset to count bytes). Spark's rule: a
    share below one offset is rounded up, so that a small partition never starves, and any other is rounded down.
    """
    backlog = {partition: last - start[partition] for partition, last in end.items() if last > start[partition]}
    total = sum(size * weights.get(partition, 1.0) for partition, size in backlog.items())
    if total <= limit:
        return dict(end)
    found = dict(end)
    for partition, size in backlog.items():
        share = limit * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[partition] = min(start[partition] + step, end[partition])
    return found


def too_few(limits: TriggerLimits, start: Offsets, end: Offsets, waited_ms: int) -> bool:
    """Whether to wait for more: fewer offsets than ``minOffsetsPerTrigger``, and ``maxTriggerDelay`` not yet over."""
    if limits.min_offsets is None or waited_ms >= limits.max_delay_ms:
        return False
    return sum(max(0, last - start[partition]) for partition, last in end.items()) < limits.min_offsets


def split(ranges: Iterable[Range], limits: TriggerLimits) -> list[Range]:
    """The ranges as Spark tasks: none empty, none above ``maxRecordsPerPartition``, about ``minPartitions`` of them.

    Larger ranges are cut into more parts; small ones are left whole, so that the number is approximate, as in Spark.
    """
    tasks = [each for each in ranges if each.size > 0]
    if limits.max_records_per_partition is not None:
        most = limits.max_records_per_partition
        tasks = [part for each in tasks for part in _cut(each, math.ceil(each.size / most))]
    wanted = limits.min_partitions
    if wanted is None or len(tasks) >= wanted:
        return tasks
    total = sum(each.size for each in tasks)
    small = [each for each in tasks if each.size * wanted <= total]  # a fair share or less stays whole
    large_total = total - sum(each.size for each in small)
    parts = wanted - len(small)
    return [
        part
        for each in tasks
        for part in _cut(each, 1 if each in small else max(1, round(each.size / large_total * parts)))
    ]


def _cut(whole: Range, count: int) -> list[Range]:
    """``count`` parts of nearly equal size, none empty."""
    count = min(count, whole.size)
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole._replace(start=first, end=last) for first, last in itertools.pairwise(edges)]
