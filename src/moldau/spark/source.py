"""The Spark data source ``moldau``: topics as batch and streaming DataFrames, without a jar.

Shell around ``offsets.py`` (what to read) and ``decode.py`` (bytes to Arrow). Spark runs it in three places: a process
on the driver plans, another holds a stream's reader, and workers call ``read`` on a fresh copy; so everything a task
needs is in its partition and in the options, and no state set while planning is relied upon elsewhere.
Read next: options.py (what may be asked), pin.py (the first-batch trap), client_feed.py (the connection).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from moldau.spark import options as opt
from moldau.spark import rows
from moldau.spark.given import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from moldau.spark.feed import Feed, Slice
    from moldau.spark.offsets import Positions, Range
    from moldau.spark.start import Start

T = TypeVar("T")
OpenFeed = Callable[[opt.Options], "Feed"]
StreamOffset = dict[str, Any]

FETCH_BYTES = 8 << 20
_SAMPLE_BYTES = 1 << 16
_TOPICS_MAX_AGE_MS = 1000


class MoldauSource(DataSource):
    """``format("moldau")``: any Kafka-compatible cluster, read with Moldau's own client.

    Without ``kafka.bootstrap.servers`` it is the cluster of MOLDAU_BOOTSTRAP, as on the command line.
    """

    @classmethod
    def name(cls) -> str:
        return "moldau"

    def schema(self) -> StructType:
        return rows.schema(opt.columns(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(_warned(opt.parse(self._given(), "batch")))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return StreamReader(_warned(opt.parse(self._given(), "stream")))
        except OptionError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.spark import sink

        if overwrite:
            raise OptionError("mode", "overwrite", "a topic is only appended to: use mode append")
        options = sink.parse(self._given())
        sink.check_columns(schema, options)
        return sink.BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from moldau.spark import sink

        options = sink.parse(self._given())
        sink.check_columns(schema, options)
        return sink.StreamWriter(options)

    def _given(self) -> dict[str, str]:
        given = dict(self.options)
        if "MOLDAU_BOOTSTRAP" in os.environ:
            given.setdefault("kafka.bootstrap.servers", os.environ["MOLDAU_BOOTSTRAP"])
        return given


def _warned(options: opt.Options) -> opt.Options:
    for text in options.warnings:
        warnings.warn(text, stacklevel=3)
    return options


def _open_feed(options: opt.Options) -> Feed:
    from moldau.spark.client_feed import open_feed

    return open_feed(options)


class TaskPartition(InputPartition):
    """One task: a range of one partition."""

    def __init__(self, task: Range) -> None:
        super().__init__(task)
        self.task = task


class Line:
    """A feed that is opened when first asked, and opened again when the cluster could not answer.

    Never pickled: ``__reduce__`` of its owners leaves it out.
    """

    def __init__(self, options: opt.Options, open_feed: OpenFeed) -> None:
        self._options, self._open = options, open_feed
        self._feed: Feed | None = None

    def ask(self, question: Callable[[Feed], T]) -> T:
        """The answer; retried ``fetchOffset.numRetries`` times when the cluster does not answer."""
        from moldau.spark.feed import Unreachable

        for left in range(self._options.fetch_retries, -1, -1):
            try:
                if self._feed is None:
                    self._feed = self._open(self._options)
                return question(self._feed)
            except (OSError, Unreachable):
                self.close()
                if not left:
                    raise
                time.sleep(self._options.fetch_retry_interval_ms / 1000)
        raise AssertionError("unreachable: the last try returns or raises")

    def close(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


class Planner:
    """Asks a cluster what the options mean now; the part that batch and stream share."""

    def __init__(self, options: opt.Options, open_feed: OpenFeed) -> None:
        self.options = options
        self.line = Line(options, open_feed)

    def partitions(self) -> Positions:
        """The subscribed partitions that exist (their offsets are all 0) and the ids of their topics."""
        from moldau.spark.offsets import Positions, select

        subscription = self.options.subscription
        names = set(subscription.topics) | {each.topic for each in subscription.partitions}
        topics = self.line.ask(lambda feed: feed.topics(names or None))
        found = select(subscription, topics)
        return Positions(dict.fromkeys(found, 0), {source.topic: id for source, id in found.items()})

    def existing(self) -> Positions:
        """As ``partitions``; OptionError when a subscribed topic is not there."""
        from moldau.spark.offsets import missing

        found = self.partitions()
        absent = missing(self.options.subscription, found.offsets)
        if absent:
            name, _, value = str(self.options.subscription).partition(" ")
            raise OptionError(name, value, f"not in the cluster: {', '.join(absent)}")
        return found

    def resolve(self, start: Start, there: Positions, option: str) -> Positions:
        """The offsets that ``start`` comes to now, for the partitions ``there``."""
        from moldau.spark.offsets import Moment, Positions, resolve

        ending = option.startswith("ending")  # an end without a matching record is the log's end, as in Spark
        when = Moment(option, time.time_ns() // 1_000_000, self.options.latest_on_no_match or ending)
        return Positions(self.line.ask(lambda feed: resolve(start, there.offsets, feed, when)), there.topic_ids)

    def edge(self, which: int, there: Positions) -> Positions:
        """Earliest (-2) or latest (-1) of the partitions ``there``."""
        from moldau.spark.offsets import Positions

        asked = dict.fromkeys(there.offsets, which)
        return Positions(self.line.ask(lambda feed: feed.offsets(asked)), there.topic_ids)

    def report(self, losses: list[Any]) -> None:
        """Stop, or say what is lost and go on, as ``onDataLoss`` has it."""
        from moldau.spark.offsets import DataLossError

        if losses and self.options.on_data_loss == "fail":
            raise DataLossError(losses)
        for loss in losses:
            warnings.warn(f"records lost, going on: {loss}", stacklevel=2)


class BatchReader(DataSourceReader):
    """``spark.read.format("moldau")``: offsets are fixed once, when the query is planned."""

    def __init__(self, options: opt.Options, open_feed: OpenFeed = _open_feed) -> None:
        self.options, self._open = options, open_feed

    def partitions(self) -> list[InputPartition]:
        from moldau.spark.offsets import Range, find_losses, split
        from moldau.spark.start import EARLIEST, LATEST

        plan = Planner(self.options, self._open)
        try:
            there = plan.existing()
            start = plan.resolve(self.options.start, there, "startingOffsets")
            end = plan.resolve(self.options.end, there, "endingOffsets")
            earliest, latest = plan.edge(EARLIEST, there), plan.edge(LATEST, there)
            plan.report(find_losses(start, earliest, latest))
            ranges = [
                Range(source, there.id_of(source), max(at, earliest.offsets[source]),
                      min(end.offsets[source], latest.offsets[source]))
                for source, at in sorted(start.offsets.items())
            ]  # fmt: skip
            return [TaskPartition(task) for task in split(ranges, self.options.limits)]
        finally:
            plan.line.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TaskPartition):  # PySpark's one task where we have planned none: nothing to read
            return iter(())
        return read_range(self.options, partition.task, self._open)


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

    def __init__(self, options: opt.Options, open_feed: OpenFeed = _open_feed) -> None:
        self.options, self._open = options, open_feed
        self._plan = Planner(options, open_feed)
        self._topics: tuple[int, Positions] | None = None
        self._last_batch_ms = _now_ms()
        self._target: Positions | None = None

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
        return encode(pinned(location, str(self.options.subscription), ask))

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
        return encode(self._plan.edge(LATEST, there)) if there.offsets else None

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        from moldau.spark.offsets import Positions, begin_at, decode, encode, find_losses
        from moldau.spark.start import EARLIEST, LATEST

        before = decode(start)
        there = self._there(fresh=False)
        end = self._capped(before, self._plan.edge(LATEST, there))
        if end.offsets == before.offsets and end.topic_ids == before.topic_ids:
            return start
        there = self._there(fresh=True)
        latest, earliest = self._plan.edge(LATEST, there), self._plan.edge(EARLIEST, there)
        self._plan.report(find_losses(before, earliest, latest))
        end = self._capped(before, latest)
        begin = begin_at(before, earliest, end)
        if not isinstance(limit, ReadAllAvailable):
            limited = self._limited(begin, end)
            if limited is None:
                return start
            end = limited
        ids = {**before.topic_ids, **end.topic_ids}
        end = Positions(end.offsets, ids)
        self._last_batch_ms = _now_ms()
        found = encode(end)
        return start if found == start else found

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        from moldau.spark.offsets import Range, begin_at, decode, find_losses, split
        from moldau.spark.start import EARLIEST

        if start == end:
            return []
        before, after = decode(start), decode(end)
        there = self._there(fresh=False)
        gone = [source for source in after.offsets if source not in there.offsets]
        self._plan.report(
            [f"{source}: the partition is gone, its part of this batch cannot be read" for source in gone]
        )
        earliest = self._plan.edge(EARLIEST, there)
        self._plan.report(find_losses(before, earliest, after))  # a batch that is run again may have lost records since
        begin = begin_at(before, earliest, after)
        ranges = [
            Range(source, after.id_of(source), begin[source], last)
            for source, last in sorted(after.offsets.items())
            if source not in gone
        ]
        return [TaskPartition(task) for task in split(ranges, self.options.limits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return read_range(self.options, partition.task, self._open)

    def commit(self, end: StreamOffset) -> None:
        """Spark is done with all before ``end``; shown to group tools when ``publishGroup`` asks for it."""
        from moldau.spark.offsets import decode

        group_id = self.options.publish_group
        if group_id is not None:
            self._plan.line.ask(lambda feed: feed.commit(group_id, decode(end).offsets))

    def stop(self) -> None:
        self._plan.line.close()

    def _there(self, *, fresh: bool) -> Positions:
        """The subscribed partitions; up to a second old unless ``fresh``: idle streams ask 100 times a second."""
        now_ms = _now_ms()
        if self._topics is None or fresh or now_ms - self._topics[0] > _TOPICS_MAX_AGE_MS:
            self._topics = now_ms, self._plan.partitions()
        return self._topics[1]

    def _capped(self, before: Positions, latest: Positions) -> Positions:
        """``latest``, no further than the end that was fixed for Trigger.AvailableNow, and never behind ``before``."""
        from moldau.spark.offsets import Positions, recreated

        if self._target is None:
            return latest
        target = self._target
        ends: dict[Any, int] = {}
        for source, last in latest.offsets.items():
            if source in target.offsets and not recreated(target, latest, source):
                ends[source] = max(min(last, target.offsets[source]), min(last, before.offsets.get(source, 0)))
            elif source in before.offsets and not recreated(before, latest, source):
                ends[source] = min(last, before.offsets[source])
        return Positions(ends, {source.topic: latest.id_of(source) for source in ends})

    def _limited(self, begin: Mapping[Any, int], end: Positions) -> Positions | None:
        """The end that the limits allow; None to wait for more records."""
        from moldau.spark.offsets import limit_weight, too_few

        limits = self.options.limits
        waited_ms = limits.max_delay_ms if self._target is not None else _now_ms() - self._last_batch_ms
        if too_few(limits, begin, end.offsets, waited_ms):
            return None
        offsets = dict(end.offsets)
        if limits.max_offsets is not None:
            offsets = limit_weight(limits.max_offsets, begin, offsets, {})
        if limits.max_bytes is not None:
            offsets = limit_weight(limits.max_bytes, begin, offsets, self._bytes_per_offset(begin, end))
        return end._replace(offsets=offsets)

    def _bytes_per_offset(self, begin: Mapping[Any, int], end: Positions) -> dict[Any, float]:
        """How large records are, from a small fetch where each backlog begins."""
        from moldau.spark.decode import next_offset
        from moldau.spark.feed import OffsetLost
        from moldau.wire.batch import headers

        found: dict[Any, float] = {}
        for source, last in end.offsets.items():
            at = begin[source]
            if last <= at:
                continue
            try:
                sample = self._plan.line.ask(
                    lambda feed, source=source, at=at: feed.fetch(source, end.id_of(source), at, _SAMPLE_BYTES)  # type: ignore[misc]
                ).records
            except OffsetLost:
                continue  # the task that reads it will say so
            first = next((header.base_offset for _, header in headers(sample)), at)
            count = next_offset(sample, at) - first
            if count > 0:
                found[source] = len(sample) / count
        return found


def read_range(options: opt.Options, task: Range, open_feed: OpenFeed = _open_feed) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow batches, fetched as Spark takes them.

    DataLossError when they are gone and ``onDataLoss`` is fail; TimeoutError when no batch arrived for
    ``kafkaConsumer.pollTimeoutMs``.
    """
    from moldau.spark.decode import Decoder, next_offset
    from moldau.spark.feed import OffsetLost
    from moldau.spark.offsets import DataLossError

    decoder = Decoder(task.source, options.columns, options.check_crcs)
    max_bytes = options.numbers.get("max.partition.fetch.bytes", FETCH_BYTES)
    line = Line(options, open_feed)
    at, alive_ms = task.start, _now_ms()

    def slices(feed: Feed) -> Iterator[Slice]:
        return feed.slices(task.source, task.topic_id, range(at, task.end), max_bytes)

    try:
        while at < task.end:
            try:
                for got in line.ask(slices):
                    yield from decoder.decode(got.records, at, task.end, got.aborted)
                    at, alive_ms = next_offset(got.records, at), _now_ms()
            except OffsetLost as lost:
                if options.on_data_loss == "fail":
                    raise DataLossError([f"{task.source}, offsets {at} to {task.end}: {lost}"]) from lost
                earliest = line.ask(lambda feed: feed.offsets({task.source: -2}))[task.source]
                if not at < earliest < task.end:
                    return
                at = earliest
            if at < task.end and _now_ms() - alive_ms > options.poll_timeout_ms:
                raise TimeoutError(
                    f"{task.source}: no records from offset {at} for {options.poll_timeout_ms} ms, though all up to "
                    f"{task.end} was there when the batch was planned"
                )
    finally:
        line.close()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
