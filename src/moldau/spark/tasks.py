"""One task: reads ranges of partitions as Arrow batches, in a worker, from a feed that the worker keeps.

Everything a task needs is in its partition and in the options. Read next: decode.py (bytes to Arrow), pool.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from moldau.spark import options as opt

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.feed import Feed, OffsetLost, Slice
    from moldau.spark.offsets import Range
    from moldau.spark.pool import FeedPool

OpenFeed = Callable[[opt.Options], "Feed"]

FETCH_BYTES = 8 << 20
PACKED_OFFSETS = 1000
_BARREN = 2


class TaskPartition(InputPartition):
    """One task: a range of one partition, or a few small ones one after the other."""

    def __init__(self, *tasks: Range) -> None:
        super().__init__(tasks)
        self.tasks = tasks


def packed(tasks: list[Range]) -> list[TaskPartition]:
    """Neighbouring small ranges together: a task costs Spark more than reading a few records does."""
    found: list[list[Range]] = []
    size = PACKED_OFFSETS
    for task in tasks:
        if size + task.size > PACKED_OFFSETS:
            found.append([])
            size = 0
        found[-1].append(task)
        size += task.size
    return [TaskPartition(*each) for each in found]


def open_feed(options: opt.Options) -> Feed:
    """A feed over the client."""
    from moldau.spark import client_feed

    return client_feed.open_feed(options)


def read_ranges(options: opt.Options, tasks: Iterable[Range], open_feed: OpenFeed) -> Iterator[pa.RecordBatch]:
    """As ``read_range``, one range after the other."""
    for task in tasks:
        yield from read_range(options, task, open_feed)


def read_range(
    options: opt.Options, task: Range, open_feed: OpenFeed = open_feed, pool: FeedPool | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow batches, fetched as Spark takes them.

    DataLossError when they are gone and ``onDataLoss`` is fail; TimeoutError, or what the connection said, when no
    batch arrived for ``kafkaConsumer.pollTimeoutMs``.
    """
    from moldau.spark.pool import POOL

    return _Task(options, task, open_feed, POOL if pool is None else pool).batches()


class _Task:
    """A range being read: ``at`` is the next offset, ``alive_ms`` when Spark last had something of it."""

    def __init__(self, options: opt.Options, task: Range, open_feed: OpenFeed, pool: FeedPool) -> None:
        from moldau.spark.decode import Decoder

        self.options, self.task, self._open, self._pool = options, task, open_feed, pool
        self.at, self.alive_ms = task.start, _now_ms()
        self._decoder = Decoder(task.partition, options.columns, options.check_crcs)
        self._feed: Feed | None = None
        self._barren = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Everything up to the range's end; the feed is kept only when nothing is left under way on it."""
        from moldau.spark.feed import FeedUnreachable, OffsetLost

        try:
            while self.at < self.task.end:
                try:
                    yield from self._slices()
                except OffsetLost as lost:
                    self._step_over(lost)
                except (OSError, FeedUnreachable) as error:
                    self._drop()
                    if _now_ms() - self.alive_ms > self.options.poll_timeout_ms:
                        raise
                    self._say_once(f"{self.task.partition}: reading on from offset {self.at} after {error}")
                    time.sleep(self.options.fetch_retry_interval_ms / 1000)
                    continue
                if self.at < self.task.end:
                    self._check_time()
            feed, self._feed = self._feed, None
            if feed is not None:
                self._pool.give(self.options, self._open, feed)
        finally:
            self._drop()

    def _slices(self) -> Iterator[pa.RecordBatch]:
        max_bytes = self.options.numbers.get("max.partition.fetch.bytes", FETCH_BYTES)
        if self._feed is None:
            self._feed = self._pool.take(self.options, self._open)
        task = self.task
        for got in self._feed.slices(task.partition, task.topic_id, range(self.at, task.end), max_bytes):
            if not got.records:
                if self._has_nothing(got):
                    return
                self._check_time()
                continue
            yield from self._decoder.decode(got.records, self.at, task.end, got.aborted, got.batches)
            self.at, self.alive_ms, self._barren = got.next_offset, _now_ms(), 0

    def _has_nothing(self, got: Slice) -> bool:
        """Whether no record is left in the range, by a leader that has all of it: compaction may remove a log's tail.

        Believed when it is said twice in a row.
        """
        self._barren = self._barren + 1 if got.end_offset >= self.task.end else 0
        if self._barren < _BARREN:
            return False
        self._say_once(f"{self.task.partition}: no record is left from offset {self.at} to {self.task.end}")
        self.at = self.task.end
        self._drop()  # the next fetch is under way
        return True

    def _step_over(self, lost: OffsetLost) -> None:
        """Stop, or go on from what is there, as ``onDataLoss`` has it."""
        from moldau.spark.losses import DataLossError, warn
        from moldau.spark.start import EARLIEST

        partition, end = self.task.partition, self.task.end
        if self.options.on_data_loss == "fail":
            raise DataLossError([f"{partition}, offsets {self.at} to {end}: {lost}"]) from lost
        if self._feed is None:
            self._feed = self._pool.take(self.options, self._open)
        earliest = self._feed.offsets({partition: EARLIEST}).get(partition, end)
        after = earliest if self.at < earliest < end else end
        warn(f"{partition}, offsets {self.at} to {after}: {lost}")
        self.at = after

    def _check_time(self) -> None:
        if _now_ms() - self.alive_ms > self.options.poll_timeout_ms:
            raise TimeoutError(
                f"{self.task.partition}: no records from offset {self.at} for {self.options.poll_timeout_ms} ms, "
                f"though all up to {self.task.end} was there when the batch was planned"
            )

    def _say_once(self, text: str) -> None:
        import warnings

        warnings.warn(text, stacklevel=2)

    def _drop(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
