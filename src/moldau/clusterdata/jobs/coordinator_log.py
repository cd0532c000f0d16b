"""Topics in which coordinators keep what they know, read from segments: one replica of each partition, batch by batch.

Of several brokers' replicas of a partition the one that goes furthest is read, to its end. Damage is told where it
stands, and reading goes on behind it. Read next: ``offsets.py`` and ``transactions.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.segments import ListedSegment, scan, segments
from moldau.model.named import NamedTuple
from moldau.wire.batch import HEADER_SIZE, BatchHeader, Record, records_of
from moldau.wire.compression import BatchError, decompress


class DecodedBatch(NamedTuple):
    """A batch and its records."""

    header: BatchHeader
    records: list[Record]


class UnreadRecord(NamedTuple):
    """What could not be read: the reason names the file and the place."""

    reason: str


def plan(options: JobOptions, topic: str) -> Sequence[tuple[ListedSegment, ...]]:
    """A task for each partition of a topic: the segments of one replica. FileNotFoundError names a folder that is
    none."""
    of: dict[int, dict[str, dict[str, ListedSegment]]] = {}
    for path in options.paths:
        for one in segments(path, (topic,)):
            of.setdefault(one.partition, {}).setdefault(one.directory, {})[one.path] = one
    return [
        max((tuple(replica.values()) for _, replica in sorted(of[number].items())), key=end_of) for number in sorted(of)
    ]


def end_of(replica: Sequence[ListedSegment]) -> int:
    """The offset after the last batch of a replica."""
    for segment in reversed(replica):
        end = -1
        try:
            for found in scan(segment.path, checksums=False):
                if found.header is not None and found.header.magic == 2:
                    end = max(end, found.header.next_offset)
        except OSError:
            continue
        if end >= 0:
            return end
    return -1


def batches(replica: Sequence[ListedSegment]) -> Iterator[DecodedBatch | UnreadRecord]:
    """All that stands in a replica, in its order."""
    for segment in replica:
        try:
            for found in scan(segment.path):
                header = found.header
                if header is None or found.reason is not None:
                    yield UnreadRecord(f"{segment.path}, byte {found.position}: {found.reason}")
                    continue
                try:
                    records = list(records_of(header, decompress(header.codec, found.data[HEADER_SIZE:])))
                except BatchError as error:
                    yield UnreadRecord(f"{segment.path}, byte {found.position}: {error}")
                    continue
                yield DecodedBatch(header, records)
        except OSError as error:
            yield UnreadRecord(f"{segment.path}: {error.strerror}")
