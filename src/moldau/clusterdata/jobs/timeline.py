"""The changes of every partition, merged from the state-change logs of all nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs.wish import Wish
from moldau.clusterdata.state_changes.eras import Event, parse
from moldau.clusterdata.state_changes.history import changes
from moldau.clusterdata.state_changes.merging import logs, merge
from moldau.clusterdata.state_changes.sources import Source
from moldau.model import TopicPartition

COLUMNS = (
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("time", "string", "When it changed, by the clock of whoever told of it first."),
    Column("leader", "int", "The leader; -1 is nobody."),
    Column("leader_epoch", "int", "The leader epoch."),
    Column("isr", "array<int>", "The in-sync replicas; null where no line tells them."),
    Column("replicas", "array<int>", "The assigned replicas, as last told."),
    Column("controller", "int", "The controller that decided it; null where no line tells."),
    Column("controller_epoch", "int", "The epoch of that controller."),
    Column("why", "string", "Why it came about, seen from the change."),
    Column("seen_by", "array<int>", "The nodes whose logs tell of it, in the order of time."),
)


def plan(wish: Wish) -> Sequence[tuple[tuple[str, ...], ...]]:
    """One task: what a partition's history is, all logs tell together. Each of its parts are the files of one log."""
    return [tuple(tuple(one) for one in logs(wish.paths))]


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


_TRACE = re.compile(rb"\s|$|Caused by: |[\w.$]+(?:Exception|Error|Throwable)\b")
"""How a line of a stack trace begins."""


def events(files: Sequence[Sequence[str]], heard: Heard | None = None) -> Iterator[Event]:
    """The entries of all logs by time; ``heard`` is told of each, and of packed files that are damaged: without it
    they are an OSError."""
    damaged = None if heard is None else heard.miss
    for entries in merge([Source(one, damaged=damaged) for one in files]):
        for entry in entries:
            event = parse(entry)
            if heard is not None:
                heard.note(event, entry)
            if event is not None:
                yield event


def rows(files: Sequence[Sequence[str]], wish: Wish, heard: Heard | None = None) -> Iterator[tuple[object, ...]]:
    """A row of ``COLUMNS`` for each change of each partition."""
    of: dict[TopicPartition, list[Event]] = {}
    for event in events(files, heard):
        for topic, number in event.partitions:
            if not wish.topics or topic in wish.topics:
                of.setdefault(TopicPartition(topic, number), []).append(event)
    for partition in sorted(of):
        for one in changes(of[partition], partition):
            yield (
                *partition, one.time, one.leader, one.leader_epoch, None if one.isr is None else list(one.isr),
                list(one.replicas), one.controller, one.controller_epoch, one.why, [node for node, _ in one.seen],
            )  # fmt: skip
