"""How much was written to each replica in each span of time, from the headers of its batches.

The time of a batch is its greatest timestamp: by default that of the producer's clock. What retention or compaction
has taken is not counted, so that the sum over time is what the replica holds on disk today.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.segments import ListedSegment, scan, segments

COLUMNS = (
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("broker", "int", "The broker of the replica."),
    Column("directory", "string", "The log directory."),
    Column("from_ms", "bigint", "The beginning of the span; null of batches without a time, and of damaged bytes."),
    Column("bytes", "bigint", "The bytes of its batches, as they lie on disk."),
    Column("records", "bigint", "The records that they say they have."),
    Column("batches", "bigint", "How many batches they are."),
    Column("damaged", "bigint", "Of the bytes: those that are no batch."),
)


def plan(options: JobOptions) -> Sequence[tuple[ListedSegment, ...]]:
    """A task for each replica: its segments. FileNotFoundError names a folder that is none."""
    of: dict[tuple[str, str, int], dict[str, ListedSegment]] = {}
    for path in options.paths:
        for one in segments(path, options.topics):
            of.setdefault((one.directory, one.topic, one.partition), {})[one.path] = one
    return [tuple(found.values()) for _, found in sorted(of.items())]


def rows(task: Sequence[ListedSegment], options: JobOptions) -> Iterator[tuple[object, ...]]:
    """A row of ``COLUMNS`` for each span in which something was written; the spans in their order."""
    spans: dict[int | None, list[int]] = {}
    for segment in task:
        try:
            for found in scan(segment.path, checksums=False):
                header = found.header
                at = None
                if header is not None and header.magic == 2 and header.max_timestamp >= 0:
                    at = header.max_timestamp - header.max_timestamp % options.every_ms
                sums = spans.setdefault(at, [0, 0, 0, 0])
                sums[0] += found.size
                if header is None:
                    sums[3] += found.size
                else:
                    sums[1] += max(header.count, 0) if header.magic == 2 else 0
                    sums[2] += 1
        except OSError:  # deleted by retention since the plan was made
            continue
    first = task[0]
    for at in sorted(spans, key=lambda at: -1 if at is None else at):
        yield first.topic, first.partition, first.broker, first.directory, at, *spans[at]
