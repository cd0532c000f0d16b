"""What Spark calls to read: a reader of batches, a reader of streams, and one that says why a stream is refused.

Shells around ``planner.py`` and ``offsets.py`` (what to read) and ``tasks.py`` (reading it). Spark runs them in
several places: a process on the driver plans, another holds a stream's reader, and workers call ``read`` on a fresh
copy; so no state set while planning is relied upon elsewhere.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from moldau.spark import options as opt
from moldau.spark.given import OptionError
from moldau.spark.tasks import OpenFeed, TaskPartition, open_feed, packed, read_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.model import TopicPartition
    from moldau.spark.losses import Loss
    from moldau.spark.offsets import Positions, Range

StreamOffset = dict[str, dict[str, int] | dict[str, str]]

_TOPICS_MAX_AGE_MS = 1000
_WEIGHTS_MAX_AGE_MS = 10_000
_UNKNOWN_WEIGHT = 1024.0


class BatchReader(DataSourceReader):
    """``spark.read.format("moldau")``: offsets are fixed once, when the query is planned."""

    def __init__(self, options: opt.Options, open_feed: OpenFeed = open_feed) -> None:
        self.options, self._open = options, open_feed

    def partitions(self) -> list[InputPartition]:
        from moldau.spark.offsets import Range, find_losses, split
        from moldau.spark.planner import Planner
        from moldau.spark.start import EARLIEST, LATEST

        plan = Planner(self.options, self._open)
        try:
            there = plan.existing()
            start = plan.resolve(self.options.start, there, "startingOffsets")
            end = plan.resolve(self.options.end, there, "endingOffsets")
            earliest, latest = plan.edge(EARLIEST, there), plan.edge(LATEST, there)
            _check_order(start, end)
            plan.report(find_losses(start, earliest, latest))
            ranges = [
                Range(partition, there.id_of(partition), max(at, earliest.offsets[partition]),
                      min(end.offsets[partition], latest.offsets[partition]))
                for partition, at in sorted(start.offsets.items())
                if partition in earliest.offsets and partition in latest.offsets and partition in end.offsets
            ]  # fmt: skip
            return [TaskPartition(task) for task in split(ranges, self.options.limits)]
        finally:
            plan.line.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TaskPartition):  # PySpark's one task where we have planned none: nothing to read
            return iter(())
        return read_ranges(self.options, partition.tasks, self._open)


def _check_order(start: Positions, end: Positions) -> None:
    """OptionError when a partition is to be read from behind where it is to be read to, as Spark's connector has it."""
    for partition, at in sorted(start.offsets.items()):
        last = end.offsets.get(partition, at)
        if at > last:
            why = f"{partition} is to be read up to {last}, which is before that"
            raise OptionError("startingOffsets", str(at), why)


class RefusedReader(DataSourceStreamReader):
    """Stands for a stream whose options are refused, and says so when it is asked where it begins.

    An error in ``streamReader`` itself would reach the user as PySpark's UnboundLocalError, its text only further up.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> StreamOffset:
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        raise self._error

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("moldau")``: one object on the driver plans all batches; copies of it read."""

    def __init__(self, options: opt.Options, open_feed: OpenFeed = open_feed) -> None:
        from moldau.spark.planner import Planner

        self.options, self._open = options, open_feed
        self._plan = Planner(options, open_feed)
        self._topics: tuple[int, Positions] | None = None
        self._last_batch_ms: int | None = None
        self._target: Positions | None = None
        self._planned: tuple[StreamOffset, StreamOffset, Positions] | None = None
        self._reading: list[Range] = []
        self._unsaid: list[Loss] = []
        self._weights: dict[TopicPartition, tuple[int, float]] = {}
        self._shown_compared = options.publish_group is None

    def __reduce__(self) -> tuple[type[StreamReader], tuple[opt.Options, OpenFeed]]:
        return StreamReader, (self.options, self._open)

    def initialOffset(self) -> StreamOffset:
        from moldau.spark.offsets import encode
        from moldau.spark.pin import pinned

        def ask() -> Positions:
            return self._plan.resolve(self.options.start, self._plan.existing(), "startingOffsets")

        location = self.options.initial_offsets_location
        if location is None:
            return encode(ask())
        return encode(pinned(location, str(self.options.subscription), ask, self.options.location_settings))

    def getDefaultReadLimit(self) -> ReadLimit:
        """One limit for Spark to hand back; the others are applied beside it, since Spark has no composite here."""
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        from moldau.spark.start import LATEST

        self._target = self._plan.edge(LATEST, self._plan.partitions())

    def reportLatestOffset(self) -> StreamOffset | None:
        from moldau.spark.offsets import encode
        from moldau.spark.start import LATEST

        there = self._there(fresh=False)
        return encode(self._plan.edge(LATEST, there)._replace(epochs={})) if there.offsets else None

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """The end of the next batch, of at most ``limit``; ``start`` while there is nothing to read.

        The cluster is asked once while there is nothing new, three times when there is. What is lost between ``start``
        and the logs' first offsets is reported, and written into the offset that is returned.
        """
        from moldau.spark import losses
        from moldau.spark.offsets import Positions, begin_at, decode, encode, find_losses
        from moldau.spark.start import EARLIEST, LATEST

        before = decode(start)
        self._compare_with_shown(before)
        known = self._there(fresh=False)
        self._look_at_last_batch(known)
        log_ends = self._plan.edge(LATEST, known)
        if _same_place(self._capped(before, log_ends), before):
            return start

        present = self._there(fresh=True)
        if not _same_place(present, known):
            log_ends = self._plan.edge(LATEST, present)
        log_starts = self._plan.edge(EARLIEST, present)
        diverged = self._plan.diverged(before, log_ends)
        lost = self._plan.told(find_losses(before, log_starts, log_ends, diverged))
        self._plan.report(lost)

        available = self._capped(before, log_ends)
        batch_end: Positions | None = available
        if not isinstance(limit, ReadAllAvailable):
            batch_end = self._limited(begin_at(before, log_starts, available, diverged), available)
        if batch_end is None:
            return start
        end = Positions(batch_end.offsets, {**before.topic_ids, **batch_end.topic_ids}, log_ends.epochs)
        self._last_batch_ms = _now_ms()
        if _same_place(end, before):
            return start
        answer: StreamOffset = encode(end)
        if said := losses.mark([*self._unsaid, *lost]):
            answer[losses.SKIPPED_KEY] = said
        self._unsaid = []
        self._planned = start, answer, log_starts
        return answer

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        from moldau.spark.losses import Loss, LossKind
        from moldau.spark.offsets import Range, begin_at, decode, find_losses, split
        from moldau.spark.start import EARLIEST

        if start == end:
            return []
        before, after = decode(start), decode(end)
        there = self._there(fresh=False)
        planned, self._planned = self._planned, None
        if planned is not None and planned[:2] == (start, end):
            earliest = planned[2]
        else:  # a batch that is run again may have lost records since
            earliest = self._plan.edge(EARLIEST, there)
        gone = [
            partition
            for partition in after.offsets
            if partition not in there.offsets or partition not in earliest.offsets
        ]
        known = {partition: at for partition, at in after.offsets.items() if partition not in gone}
        diverged = self._plan.diverged(before, after)
        lost = [Loss(LossKind.PARTITION_GONE, partition, before.offsets.get(partition, 0), 0) for partition in gone]
        if planned is None or planned[:2] != (start, end):
            lost += find_losses(
                before._replace(offsets={s: at for s, at in before.offsets.items() if s in known}),
                earliest, after._replace(offsets=known), diverged,
            )  # fmt: skip
        self._plan.report(self._plan.told(lost))
        begin = begin_at(before, earliest, after._replace(offsets=known), diverged)
        ranges = [
            Range(partition, after.id_of(partition), begin[partition], last)
            for partition, last in sorted(known.items())
        ]
        self._reading = ranges
        limits = self.options.limits
        tasks = split(ranges, limits)
        if limits.min_partitions is None and limits.max_records_per_partition is None:
            return [*packed(tasks)]
        return [TaskPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return read_ranges(self.options, partition.tasks, self._open)

    def commit(self, end: StreamOffset) -> None:
        """Spark is done with all before ``end``; shown to group tools when ``publishGroup`` asks for it.

        That is for showing only: a group that refuses, or whose coordinator is away, never stops the query.
        """
        from moldau.spark.offsets import decode

        group_id = self.options.publish_group
        if group_id is None:
            return
        try:
            self._plan.line.ask(lambda feed: feed.commit(group_id, decode(end).offsets))
        except Exception as error:
            warnings.warn(f"positions were not published to group {group_id}: {error}", stacklevel=2)

    def stop(self) -> None:
        self._plan.line.close()

    def _there(self, *, fresh: bool) -> Positions:
        """The subscribed partitions; up to a second old unless ``fresh``: idle streams ask 100 times a second."""
        now_ms = _now_ms()
        if self._topics is None or fresh or now_ms - self._topics[0] > _TOPICS_MAX_AGE_MS:
            self._topics = now_ms, self._plan.partitions()
        return self._topics[1]

    def _compare_with_shown(self, before: Positions) -> None:
        """Once after a start: a group that was shown later positions tells of a checkpoint that is new, or restored."""
        if self._shown_compared:
            return
        self._shown_compared = True
        group_id = str(self.options.publish_group)
        try:
            shown = self._plan.line.ask(lambda feed: feed.committed(group_id, list(before.offsets)))
        except Exception as error:  # for showing only, as ``commit``
            warnings.warn(f"positions shown to group {group_id} could not be read: {error}", stacklevel=2)
            return
        ahead = {partition: at for partition, at in shown.items() if at > before.offsets.get(partition, at)}
        if ahead:
            told = ", ".join(
                f"{partition} {before.offsets[partition]} (shown {at})" for partition, at in sorted(ahead.items())
            )
            warnings.warn(
                f"this query begins before what group {group_id} was shown: {told}. Its checkpoint is new or an older "
                "copy; what lies between is read again, and a sink that is told by batch numbers may skip new rows",
                stacklevel=2,
            )

    def _look_at_last_batch(self, there: Positions) -> None:
        """Note what tasks of the batch that just ended may have stepped over: no word of it comes back from them."""
        from moldau.spark.losses import Loss, LossKind, warn
        from moldau.spark.start import EARLIEST

        reading, self._reading = self._reading, []
        if self.options.on_data_loss == "fail" or not any(task.size > 0 for task in reading):
            return  # a task that missed a record would have failed
        earliest = self._plan.edge(EARLIEST, there).offsets
        for task in reading:
            if task.size > 0 and (begin := earliest.get(task.partition, 0)) > task.start:
                loss = Loss(LossKind.EXPIRED_MEANWHILE, task.partition, task.start, min(begin, task.end))
                warn(loss)
                self._unsaid.append(loss)

    def _capped(self, before: Positions, latest: Positions) -> Positions:
        """``latest``, no further than the end that was fixed for Trigger.AvailableNow, and never behind ``before``."""
        from moldau.spark.offsets import Positions, recreated

        if self._target is None:
            return latest
        target = self._target
        ends: dict[TopicPartition, int] = {}
        for partition, last in latest.offsets.items():
            if partition in target.offsets and not recreated(target, latest, partition):
                ends[partition] = max(min(last, target.offsets[partition]), min(last, before.offsets.get(partition, 0)))
            elif partition in before.offsets and not recreated(before, latest, partition):
                ends[partition] = min(last, before.offsets[partition])
        return Positions(ends, {partition.topic: latest.id_of(partition) for partition in ends})

    def _limited(self, begin: Mapping[TopicPartition, int], end: Positions) -> Positions | None:
        """The end that the limits allow; None to wait for more records. The first batch waits for none, as in Spark."""
        from moldau.spark.offsets import limit_weight, too_few

        limits = self.options.limits
        waits = self._target is None and self._last_batch_ms is not None
        waited_ms = _now_ms() - (self._last_batch_ms or 0) if waits else limits.max_delay_ms
        if too_few(limits, begin, end.offsets, waited_ms):
            return None
        offsets = dict(end.offsets)
        if limits.max_offsets is not None:
            offsets = limit_weight(limits.max_offsets, begin, offsets, {})
        backlog = sum(max(0, last - begin[partition]) for partition, last in offsets.items())
        if limits.max_bytes is not None and backlog > limits.unweighed:
            offsets = limit_weight(limits.max_bytes, begin, offsets, self._bytes_per_offset(begin, end))
        return end._replace(offsets=offsets)

    def _bytes_per_offset(self, begin: Mapping[TopicPartition, int], end: Positions) -> dict[TopicPartition, float]:
        """How large records are where each backlog begins, judged every few seconds.

        A partition of which nothing is known counts as the largest does, so that it cannot take more than its share.
        """
        from moldau.spark.feed import PartitionOffset

        now_ms = _now_ms()
        wanted = [partition for partition, last in end.offsets.items() if last > begin[partition]]
        stale = {
            partition: PartitionOffset(end.id_of(partition), begin[partition])
            for partition in wanted
            if now_ms - self._weights.get(partition, (-_WEIGHTS_MAX_AGE_MS, 0.0))[0] >= _WEIGHTS_MAX_AGE_MS
        }
        judged = self._plan.line.ask(lambda feed: feed.sample(stale)) if stale else {}
        self._weights.update({partition: (now_ms, size) for partition, size in judged.items()})
        known = {partition: self._weights[partition][1] for partition in wanted if partition in self._weights}
        unknown = max(known.values(), default=_UNKNOWN_WEIGHT)
        return {partition: known.get(partition, unknown) for partition in wanted}


def _same_place(one: Positions, other: Positions) -> bool:
    """Whether they are the same offsets of the same topics, whatever is known of leader epochs."""
    return one.offsets == other.offsets and all(
        one.topic_ids.get(partition.topic) == other.topic_ids.get(partition.topic) for partition in one.offsets
    )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
