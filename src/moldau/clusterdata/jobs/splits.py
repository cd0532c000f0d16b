"""What must never be in the state-change logs of a cluster: two leaders of a partition in one epoch, two controllers in
one epoch, an epoch that goes back, an in-sync replica that is none of the partition's replicas.

A topic that was deleted and made anew begins again at epoch 0: where a controller says that a partition is no more, or
is new, or a broker makes a partition of a topic with another id, what was told before is forgotten. A ZooKeeper
controller ends a move under one leader epoch and takes those that are no replicas any more out of the ISR under the
next: in that one they may be in sync.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from moldau.clusterdata.columns import Column
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.jobs.timeline import Heard, events, plan
from moldau.clusterdata.state_changes.eras import Event

__all__ = ["COLUMNS", "plan", "rows"]

TWO_LEADERS = "two leaders in one epoch"
TWO_CONTROLLERS = "two controllers in one epoch"
EPOCH_BACK = "a leader epoch went back"
ISR_OUTSIDE = "in sync, but not among the replicas"
COLUMNS = (
    Column("finding", "string", f"{TWO_LEADERS}; {TWO_CONTROLLERS}; {EPOCH_BACK}; {ISR_OUTSIDE}."),
    Column("time", "string", "The time of the line that shows it."),
    Column("topic", "string", "The topic; null of controllers."),
    Column("partition", "int", "The number of the partition; null of controllers."),
    Column("epoch", "int", "The epoch in which it was so."),
    Column("nodes", "array<int>", "The two leaders or controllers, the node whose epoch went back, the replicas."),
    Column("told_by", "array<int>", "The nodes that wrote the lines."),
    Column("detail", "string", "What the lines say."),
)
_MADE = re.compile(r"Creating new partition ([\w.-]+)-\d+ with topic id ([\w-]{22})")
_OWN = frozenset({"leader", "follower", "LeaderAndIsr", "partition"})
"""Lines by which a node says what a partition is for itself; what it hears of others may be late."""

Row = tuple[object, ...]
Key = tuple[str, int]


class _Known:
    """What logs told so far."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int, int], dict[int, Event]] = {}
        self.controllers: dict[int, dict[int, Event]] = {}
        self.epochs: dict[tuple[str, int, str | None, int | None], int] = {}
        self.newest: dict[int, int] = {}
        """Node -> the greatest epoch of a controller of which it had a LeaderAndIsr request."""
        self.ids: dict[str, str] = {}
        self.told: set[Key] = set()
        self.members: dict[Key, dict[int, set[int]]] = {}
        """The replicas of a partition in each leader epoch of which lines tell them."""

    def forget(self, topic: str, number: int | None = None) -> None:
        """What was told of a topic, or of one partition of it."""
        if number is not None and (topic, number) not in self.told:
            return  # new ones are many, and most of them are the first of their name
        for key in [key for key in self.leaders if key[0] == topic and number in (None, key[1])]:
            del self.leaders[key]
        for one in [one for one in self.epochs if one[0] == topic and number in (None, one[1])]:
            del self.epochs[one]
        for which in [which for which in self.members if which[0] == topic and number in (None, which[1])]:
            del self.members[which]
        self.told = {which for which in self.told if which[0] != topic or number not in (None, which[1])}


def rows(files: Sequence[Sequence[str]], options: JobOptions, heard: Heard | None = None) -> Iterator[Row]:
    """A row of ``COLUMNS`` for each finding, once, by the time of the line that shows it."""
    return findings(events(files, heard), options.topics)


def findings(lines: Iterator[Event], topics: Sequence[str] = ()) -> Iterator[Row]:
    """A row of ``COLUMNS`` for each finding in entries that are ordered by time."""
    known = _Known()
    for event in lines:
        made = _MADE.search(event.text)
        if made is not None and known.ids.setdefault(made[1], made[2]) != made[2]:
            known.forget(made[1])
            known.ids[made[1]] = made[2]
        yield from _controllers(known, event)
        if event.event == "refused":
            continue
        for topic, number in event.partitions:
            if topics and topic not in topics:
                continue
            if event.state in ("NonExistentPartition", "NewPartition"):
                known.forget(topic, number)
            else:
                known.told.add((topic, number))
                yield from _partition(known, event, (topic, number))


def _controllers(known: _Known, event: Event) -> Iterator[Row]:
    if event.controller is None or event.controller_epoch is None:
        return
    held = known.controllers.setdefault(event.controller_epoch, {})
    if event.controller in held:
        return
    for other, first in held.items():
        detail = f"controller {other} since {first.time}, controller {event.controller} at {event.time}"
        yield (TWO_CONTROLLERS, event.time, None, None, event.controller_epoch, [other, event.controller],
               _tellers(first, event), detail)  # fmt: skip
    held[event.controller] = event


def _partition(known: _Known, event: Event, key: Key) -> Iterator[Row]:
    epoch, leader = event.leader_epoch, event.leader
    if event.replicas is not None and epoch is not None:
        known.members.setdefault(key, {}).setdefault(epoch, set()).update(event.replicas)
    if outside := _outside(known, event, key):
        yield (ISR_OUTSIDE, event.time, *key, epoch, outside, _tellers(event),
               f"ISR {_list(event.isr or ())}, replicas {_list(event.replicas or ())}")  # fmt: skip
    if epoch is None or leader is None:
        return
    if leader >= 0:
        held = known.leaders.setdefault((*key, epoch), {})
        if leader not in held:
            for other, first in held.items():
                detail = f"leader {other} since {first.time}, leader {leader} at {event.time}"
                yield TWO_LEADERS, event.time, *key, epoch, [other, leader], _tellers(first, event), detail
            held[leader] = event
    if event.event in _OWN and event.node is not None and not _is_late(known, event):
        who = (*key, event.role, event.node)
        before = known.epochs.get(who)
        if before is not None and epoch < before:
            yield (EPOCH_BACK, event.time, *key, epoch, [event.node], _tellers(event),
                   f"leader epoch {epoch} after {before}")  # fmt: skip
        known.epochs[who] = epoch


def _is_late(known: _Known, event: Event) -> bool:
    """Whether it is a request of a controller that is none any more: a broker writes it down, and then refuses it."""
    if event.event != "LeaderAndIsr" or event.node is None or event.controller_epoch is None:
        return False
    newest = known.newest[event.node] = max(known.newest.get(event.node, -1), event.controller_epoch)
    return event.controller_epoch < newest


def _outside(known: _Known, event: Event, key: Key) -> list[int]:
    """Who is in sync and neither a replica nor was one in the leader epoch before, or under another line of this."""
    if event.isr is None or event.replicas is None:
        return []
    members = known.members.get(key, {})
    epochs = () if event.leader_epoch is None else (event.leader_epoch, event.leader_epoch - 1)
    return sorted(set(event.isr).difference(event.replicas, *(members.get(epoch, ()) for epoch in epochs)))


def _tellers(*of: Event) -> list[int]:
    return sorted({event.node for event in of if event.node is not None})


def _list(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "none"
