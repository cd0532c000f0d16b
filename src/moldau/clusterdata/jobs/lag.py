"""How far behind commits were when they were made: the committed offset against the end of the log at that time.

The end of a log at a time is that after the last batch whose greatest timestamp, or that of a batch before it, is no
later. Timestamps are the producers' unless the topic says otherwise, so clocks that differ make a lag that is off by
what is written meanwhile. Commits that compaction has taken are no longer told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs.coordinator_log import end_of
from moldau.clusterdata.jobs.offsets import entries
from moldau.clusterdata.jobs.offsets import plan as offset_plan
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.segments import ListedSegment, scan, segments
from moldau.groups.records import OffsetRecord
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

COLUMNS = (
    Column("group", "string", "The group."),
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("commit_ms", "bigint", "When the commit was made, by the coordinator's clock."),
    Column("committed", "bigint", "The offset that was committed."),
    Column("log_end", "bigint", "The end of the partition at that time; null when no replica of it is there."),
    Column("lag", "bigint", "The records in between; null without an end, 0 when the commit is ahead of it."),
    Column("log_offset", "bigint", "The offset of the commit in __consumer_offsets."),
)


class CommitsToRead(NamedTuple):
    """A partition of __consumer_offsets, and the log of each partition that commits may be about."""

    commits: tuple[ListedSegment, ...]
    logs: dict[TopicPartition, tuple[ListedSegment, ...]]


def plan(options: JobOptions) -> Sequence[CommitsToRead]:
    """A task for each partition of __consumer_offsets."""
    of: dict[TopicPartition, dict[str, dict[str, ListedSegment]]] = {}
    for path in options.paths:
        for one in segments(path, options.topics):
            key = TopicPartition(one.topic, one.partition)
            of.setdefault(key, {}).setdefault(one.directory, {})[one.path] = one
    logs: dict[TopicPartition, tuple[ListedSegment, ...]] = {}
    for key, replicas in of.items():
        held = [tuple(one.values()) for _, one in sorted(replicas.items())]
        logs[key] = held[0] if len(held) == 1 else max(held, key=end_of)
    return [CommitsToRead(tuple(replica), logs) for replica in offset_plan(options)]


def rows(task: CommitsToRead, options: JobOptions) -> Iterator[tuple[object, ...]]:
    """A row of ``COLUMNS`` for each commit that is still in the log, in their order."""
    ends: dict[TopicPartition, tuple[list[int], list[int]] | None] = {}
    for entry in entries(task.commits):
        record = entry.record
        if not isinstance(record, OffsetRecord) or record.value is None:
            continue
        key = TopicPartition(record.topic, record.partition)
        if (options.groups and record.group_id not in options.groups) or (
            options.topics and key.topic not in options.topics
        ):
            continue
        if key not in ends:
            log = task.logs.get(key)
            ends[key] = None if log is None else _ends(log)
        known = ends[key]
        value, end, lag = record.value, None, None
        if known is not None:
            times, offsets = known
            end = offsets[bisect_right(times, value.commit_ms)]
            lag = max(end - value.offset, 0)
        yield record.group_id, *key, value.commit_ms, value.offset, end, lag, entry.log_offset


def _ends(log: Sequence[ListedSegment]) -> tuple[list[int], list[int]]:
    """Times that only grow, and the end of the log before the first and from each of them on."""
    times: list[int] = []
    offsets = [log[0].base]
    for segment in log:
        try:
            for found in scan(segment.path, checksums=False):
                header = found.header
                if header is None or header.magic != 2:
                    continue
                times.append(max(header.max_timestamp, times[-1] if times else -1))
                offsets.append(header.next_offset)
        except OSError:  # deleted by retention since the plan was made
            continue
    return times, offsets
