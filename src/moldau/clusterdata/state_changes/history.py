"""The history of one partition, read off state-change logs: who led when, who was in sync, and why it changed.

A change is known by its leader epoch and its ISR. The controller's line tells when it was decided, and under which
controller epoch; where no controller's line is at hand (Apache Kafka's KRaft controllers write none), the first broker
that tells of it does. Reasons are Moldau's own where its JSON lines are at hand; else they are seen from the change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from moldau.clusterdata.state_changes.eras import Event
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

NO_LEADER = -1

Reasons = Mapping[tuple[int, tuple[int, ...]], str]
"""Leader epoch and ISR -> why they came about."""


class Change(NamedTuple):
    """One step of a partition. ``seen`` are the nodes that told of it and when; ``controller`` decided it."""

    time: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...] | None
    controller: int | None
    controller_epoch: int | None
    why: str
    seen: tuple[tuple[int, str], ...] = ()
    replicas: tuple[int, ...] = ()


class _Step:
    """A change in the making."""

    def __init__(self, event: Event) -> None:
        self.time = event.time
        self.event = event
        self.seen: dict[int, str] = {}


def changes(events: Iterable[Event], of: TopicPartition, reasons: Reasons | None = None) -> list[Change]:
    """The changes of a partition, in the order of leader epochs and times."""
    steps: dict[tuple[int, int, tuple[int, ...] | None], _Step] = {}
    replicas: tuple[int, ...] = ()
    for event in events:
        if (of.topic, of.partition) not in event.partitions:
            continue
        if event.replicas is not None and event.event != "replica state":
            replicas = event.replicas
        if event.leader is None or event.leader_epoch is None or event.event == "refused":
            continue
        if event.isr is None:
            step = next((one for key, one in steps.items() if key[:2] == (event.leader_epoch, event.leader)), None)
            if step is None:
                step = steps[event.leader_epoch, event.leader, None] = _Step(event)
        else:
            unknown = steps.pop((event.leader_epoch, event.leader, None), None)
            step = steps.setdefault((event.leader_epoch, event.leader, event.isr), unknown or _Step(event))
        if event.role == "Controller" and step.event.role != "Controller":
            step.event, step.time = event, event.time
        elif step.event.isr is None and event.isr is not None:
            step.event = event
        if event.node is not None:
            step.seen.setdefault(event.node, event.time)
    ordered = sorted(steps.values(), key=lambda one: (one.event.leader_epoch or 0, one.time))
    return list(_told(ordered, replicas, reasons or {}))


def _told(steps: Iterable[_Step], replicas: tuple[int, ...], reasons: Reasons) -> Iterator[Change]:
    before: Event | None = None
    for step in steps:
        now = step.event
        assert now.leader is not None
        assert now.leader_epoch is not None
        known = reasons.get((now.leader_epoch, now.isr or ()))
        yield Change(
            step.time,
            now.leader,
            now.leader_epoch,
            now.isr,
            now.controller,
            now.controller_epoch,
            known or _why(before, now, replicas),
            tuple(sorted(step.seen.items(), key=lambda one: one[1])),
            replicas,
        )
        before = now


def _why(before: Event | None, now: Event, replicas: tuple[int, ...]) -> str:
    """What a change looks like."""
    if before is None:
        return "created" if now.leader_epoch == 0 else "first that these logs tell"
    if now.leader == NO_LEADER:
        return f"offline: broker {before.leader} left, and nobody in sync is alive"
    was, isr = before.isr or (), now.isr or ()
    if now.leader != before.leader:
        if was and now.leader not in was and before.leader != NO_LEADER:
            return f"unclean election: broker {now.leader} was not in sync"
        if before.leader == NO_LEADER:
            return f"online again: broker {now.leader} is alive"
        if isr and before.leader not in isr:
            return f"broker {before.leader} left"
        if replicas and now.leader == replicas[0]:
            return f"preferred election: broker {now.leader} is the first replica"
        return "election"
    if was and isr and set(was) != set(isr):
        left, came = sorted(set(was) - set(isr)), sorted(set(isr) - set(was))
        words = [f"broker {one} fell out of sync" for one in left] + [f"broker {one} is in sync again" for one in came]
        return ", ".join(words)
    return "leader epoch raised" if now.leader_epoch != before.leader_epoch else "state changed"


def told_reasons(lines: Iterable[bytes], of: TopicPartition) -> dict[tuple[int, tuple[int, ...]], str]:
    """Reasons out of Moldau's JSON lines."""
    found: dict[tuple[int, tuple[int, ...]], str] = {}
    for line in lines:
        if b'"why"' not in line or of.topic.encode() not in line:
            continue
        try:
            fact = json.loads(line)
            if (fact["topic"], fact["partition"]) == (of.topic, of.partition):
                found[fact["leaderEpoch"], tuple(fact["isr"])] = str(fact["why"])
        except (ValueError, KeyError, TypeError):
            continue  # a line that was cut off
    return found


IN_ASCII = str.maketrans("█▒·", "#+.")
"""The marks of ``bar`` for terminals that have no others."""


def bar(isr: tuple[int, ...] | None, leader: int, replicas: Iterable[int]) -> str:
    """The replicas of a partition, a mark each: leading, in sync, or neither."""
    marks = ("?" if isr is None else "█" if one == leader else "▒" if one in isr else "·" for one in replicas)
    return "".join(marks)
