"""The changes of every partition, merged from the state-change logs of all nodes."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.state_changes.eras import Event, parse
from moldau.clusterdata.state_changes.history import changes
from moldau.clusterdata.state_changes.merging import merge
from moldau.clusterdata.state_changes.sources import LogSource
from moldau.clusterdata.state_changes.twins import completed, is_twin, logs_and_twins, timed, told
from moldau.model import TopicPartition

COLUMNS = (
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("time", "string", "When it changed, by the clock of whoever told of it first."),
    Column("leader", "int", "The leader; -1 is nobody."),
    Column("leader_epoch", "int", "The leader epoch."),
    Column("isr", "array<int>", "The in-sync replicas; null where no line tells them."),
    Column("replicas", "array<int>", "The assigned replicas, as told up to then; empty where no line had."),
    Column("controller", "int", "The controller that decided it; null where no line tells."),
    Column("controller_epoch", "int", "The epoch of that controller."),
    Column("why", "string", "Why it came about: as Moldau's JSON lines say, else seen from the change."),
    Column("seen_by", "array<int>", "The nodes whose logs tell of it, in the order of time."),
)


def plan(options: JobOptions) -> Sequence[tuple[tuple[str, ...], ...]]:
    """One task: what a partition's history is, all logs tell together. Each of its parts are the files of one log
    and of its twin."""
    return [tuple(tuple(one) for one in logs_and_twins(options.paths))]


class Heard:
    """What was read of logs: how many entries, of which topics, how many lines were neither an entry nor the stack
    trace of one, and which packed files cannot be unpacked to their end, with the reason."""

    def __init__(self) -> None:
        self.entries = self.unread_lines = 0
        self.topics: set[str] = set()
        self.damaged: dict[str, str] = {}

    def miss(self, error: OSError) -> None:
        """A packed file is read as far as it can be unpacked."""
        self.damaged.setdefault(str(error.filename), str(error.strerror))

    def note(self, event: Event | None, entry: bytes) -> None:
        if event is None:
            self.unread_lines += sum(not _TRACE.match(line) for line in entry.split(b"\n"))
            return
        self.entries += 1
        self.topics.update(topic for topic, _ in event.partitions)
        if event.more:
            self.unread_lines += sum(not _TRACE.match(line) for line in event.more.encode().split(b"\n"))

    def note_twin(self, event: Event | None) -> None:
        """A JSON line of a log of which there is nothing else."""
        if event is None:
            self.unread_lines += 1
            return
        self.entries += 1
        self.topics.update(topic for topic, _ in event.partitions)


_TRACE = re.compile(rb"\s|$|Caused by: |[\w.$]+(?:Exception|Error|Throwable)\b")
"""How a line of a stack trace begins."""


def events(files: Sequence[Sequence[str]], heard: Heard | None = None) -> Iterator[Event]:
    """The entries of all logs by time, also of those of which there are JSON lines alone; those without a time are left
    out. ``heard`` is told of each, and of packed files that are damaged: without it they are an OSError."""
    alone = [timed(_twins(one, (), heard)) for one in files if all(map(is_twin, one))]
    return heapq.merge(_lines(files, heard), *alone, key=attrgetter("time")) if alone else _lines(files, heard)


def _lines(files: Sequence[Sequence[str]], heard: Heard | None) -> Iterator[Event]:
    """The entries of logs, without what twins say."""
    damaged = None if heard is None else heard.miss
    texts = [[path for path in one if not is_twin(path)] for one in files]
    for entries in merge([LogSource(one, damaged=damaged) for one in texts if one]):
        for entry in entries:
            event = parse(entry)
            if heard is not None:
                heard.note(event, entry)
            if event is not None:
                yield event


def _twins(files: Sequence[str], topics: Sequence[str], heard: Heard | None) -> Iterator[Event]:
    """What the JSON lines among the files of one log say of partitions."""
    if heard is None:
        return told(files, topics, _raised)
    return told(files, topics, heard.miss, heard.note_twin if all(map(is_twin, files)) else None)


def _raised(error: OSError) -> None:
    raise error


def rows(
    files: Sequence[Sequence[str]], options: JobOptions, heard: Heard | None = None
) -> Iterator[tuple[object, ...]]:
    """A row of ``COLUMNS`` for each change of each partition."""
    lines = _by_partition(_lines(files, heard), options.topics)
    twins = _by_partition((event for one in files for event in _twins(one, options.topics, heard)), options.topics)
    for partition in sorted({*lines, *twins}):
        for one in changes(completed(lines.get(partition, ()), twins.get(partition, ())), partition):
            yield (
                *partition, one.time, one.leader, one.leader_epoch, None if one.isr is None else list(one.isr),
                list(one.replicas), one.controller, one.controller_epoch, one.why, [node for node, _ in one.seen],
            )  # fmt: skip


def _by_partition(events: Iterable[Event], topics: Sequence[str]) -> dict[TopicPartition, list[Event]]:
    of: dict[TopicPartition, list[Event]] = {}
    for event in events:
        for topic, number in event.partitions:
            if not topics or topic in topics:
                of.setdefault(TopicPartition(topic, number), []).append(event)
    return of
