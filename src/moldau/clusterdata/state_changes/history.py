"""The history of one partition, read off state-change logs: who led when, who was in sync, and why it changed.

A change is known by its leader epoch and its partition epoch; where a line has no partition epoch, by its leader, its
ISR and what the same node told before. The controller's line tells when it was decided, and under which controller
epoch; where no controller's line is at hand (Apache Kafka's KRaft controllers write none), the first broker that tells
of it does. Reasons are Moldau's own where its JSON lines are at hand; else they are seen from the change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from moldau.clusterdata.state_changes.eras import Event
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

NO_LEADER = -1

Reasons = Mapping[tuple[int, int | None, tuple[int, ...]], str]
"""Leader epoch, partition epoch (None where it is not told) and ISR -> why they came about."""


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

    def __init__(self, event: Event, at: int) -> None:
        self.at = at
        self.time = event.time
        self.event = event
        self.partition_epoch = event.partition_epoch
        self.seen: dict[int, str] = {}

    def fits(self, event: Event) -> bool:
        """Whether the event may tell of this change: what it does not tell is no difference."""
        return (
            (self.event.leader, self.event.leader_epoch) == (event.leader, event.leader_epoch)
            and (self.event.isr is None or event.isr is None or self.event.isr == event.isr)
            and (
                self.partition_epoch is None
                or event.partition_epoch is None
                or self.partition_epoch == event.partition_epoch
            )
        )

    def told_by(self, event: Event) -> None:
        """Take in another line about it."""
        if event.role == "Controller" and self.event.role != "Controller":
            isr = self.event.isr if event.isr is None else event.isr
            self.event, self.time = event._replace(isr=isr), event.time
        elif self.event.isr is None and event.isr is not None:
            self.event = event
        if self.partition_epoch is None:
            self.partition_epoch = event.partition_epoch
        if event.node is not None:
            self.seen.setdefault(event.node, event.time)


class _Steps:
    """The changes that were told of so far, in each leader epoch in the order in which they were found."""

    def __init__(self) -> None:
        self.of: dict[int, list[_Step]] = {}
        self._exact: dict[tuple[int, int | None], list[_Step]] = {}
        """Leader epoch and partition epoch -> the steps of them; under None those whose partition epoch is not told."""
        self._last: dict[tuple[str | None, int | None, int], int] = {}
        """Where the step is that each node told of last in a leader epoch: it tells of no earlier one after it."""

    def hear(self, event: Event) -> None:
        """Find the step that the event tells of, or begin one."""
        assert event.leader_epoch is not None
        steps = self.of.setdefault(event.leader_epoch, [])
        teller = (event.role, event.node, event.leader_epoch)
        step = self._found(steps, event, self._last.get(teller, 0))
        if step is None:
            step = _Step(event, len(steps))
            steps.append(step)
            self._exact.setdefault((event.leader_epoch, step.partition_epoch), []).append(step)
        elif step.partition_epoch is None is not event.partition_epoch:
            self._exact[event.leader_epoch, None].remove(step)
            self._exact.setdefault((event.leader_epoch, event.partition_epoch), []).append(step)
        step.told_by(event)
        self._last[teller] = step.at

    def _found(self, steps: list[_Step], event: Event, last: int) -> _Step | None:
        assert event.leader_epoch is not None
        if event.partition_epoch is None:
            return next((steps[at] for at in range(last, len(steps)) if steps[at].fits(event)), None)
        exact = self._exact.get((event.leader_epoch, event.partition_epoch), [])
        vague = self._exact.get((event.leader_epoch, None), [])
        return next((one for some in (exact, vague) for one in some if one.fits(event)), None)

    def ordered(self) -> Iterator[_Step]:
        """By leader epoch, and within one by partition epoch; where some have none, by time."""
        for _, steps in sorted(self.of.items()):
            if all(one.partition_epoch is not None for one in steps):
                yield from sorted(steps, key=lambda one: (one.partition_epoch or 0, one.time))
            else:
                yield from sorted(steps, key=lambda one: one.time)


def changes(events: Iterable[Event], of: TopicPartition, reasons: Reasons | None = None) -> list[Change]:
    """The changes of a partition, in the order of leader epochs and partition epochs or times."""
    steps = _Steps()
    replicas: tuple[int, ...] = ()
    for event in events:
        if (of.topic, of.partition) not in event.partitions:
            continue
        if event.replicas is not None and event.event != "replica state":
            replicas = event.replicas
        if event.leader is None or event.leader_epoch is None or event.event == "refused":
            continue
        steps.hear(event)
    return list(_told(steps.ordered(), replicas, reasons or {}))


_OfEpoch = Mapping[int, list[tuple[int | None, tuple[int, ...], str]]]
"""Leader epoch -> partition epoch, ISR and reason of each decision in it."""


def _by_epoch(reasons: Reasons) -> _OfEpoch:
    found: dict[int, list[tuple[int | None, tuple[int, ...], str]]] = {}
    for (leader_epoch, epoch, isr), why in reasons.items():
        found.setdefault(leader_epoch, []).append((epoch, isr, why))
    return found


def _told(steps: Iterable[_Step], replicas: tuple[int, ...], told: Reasons) -> Iterator[Change]:
    reasons = _by_epoch(told)
    before: Event | None = None
    for step in steps:
        now = step.event._replace(partition_epoch=step.partition_epoch)
        assert now.leader is not None
        assert now.leader_epoch is not None
        known = _reason(now, reasons)
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


def _reason(now: Event, reasons: _OfEpoch) -> str | None:
    """The reason of this decision; None where it is not told, or where several decisions could be meant."""
    assert now.leader_epoch is not None
    isr = now.isr or ()
    found = {
        (epoch, why)
        for epoch, in_sync, why in reasons.get(now.leader_epoch, ())
        if (in_sync == isr or (now.isr is None and epoch is not None))
        and (epoch == now.partition_epoch or None in (epoch, now.partition_epoch))
    }
    exact = [why for epoch, why in found if epoch is not None and epoch == now.partition_epoch]
    return exact[0] if exact else found.pop()[1] if len(found) == 1 else None


def _unclean(before: Event, now: Event) -> str:
    """What is known of an election whose winner was not in the ISR that was told last."""
    if before.partition_epoch is None or now.partition_epoch is None:
        return (
            f"not known: perhaps an unclean election, broker {now.leader} was not in sync when these logs last told,"
            " and without partition epochs nobody knows what they left out"
        )
    if now.partition_epoch - before.partition_epoch != 1:
        return (
            f"not known: decisions between partition epoch {before.partition_epoch} and {now.partition_epoch}"
            " are not in these logs"
        )
    return f"unclean election: broker {now.leader} was not in sync"


def _end_of_a_move(before: Event, now: Event) -> str | None:
    """The reason of one decision that takes from the ISR and adds to it, which nothing does but the end of a move."""
    was, isr = set(before.isr or ()), set(now.isr or ())
    epochs = before.partition_epoch, now.partition_epoch
    is_next = epochs[0] is not None and epochs[1] is not None and epochs[1] - epochs[0] == 1
    if not (is_next and was - isr and isr - was):
        return None
    gone = ", ".join(map(str, sorted(was - isr)))
    return f"reassignment completed: broker {gone} is no replica any more"


def _why(before: Event | None, now: Event, replicas: tuple[int, ...]) -> str:
    """What a change looks like."""
    if before is None:
        return "created" if now.leader_epoch == 0 else "first that these logs tell"
    if now.leader == NO_LEADER:
        return f"offline: broker {before.leader} left, and nobody in sync is alive"
    was, isr = before.isr or (), now.isr or ()
    if now.leader != before.leader:
        if was and now.leader not in was and before.leader != NO_LEADER:
            return _unclean(before, now)
        if before.leader == NO_LEADER:
            return f"online again: broker {now.leader} is alive"
        if isr and before.leader not in isr:
            return _end_of_a_move(before, now) or f"broker {before.leader} left"
        if replicas and now.leader == replicas[0]:
            return f"preferred election: broker {now.leader} is the first replica"
        return "election"
    if was and isr and set(was) != set(isr):
        left, came = sorted(set(was) - set(isr)), sorted(set(isr) - set(was))
        if (ended := _end_of_a_move(before, now)) is not None:
            return ended
        words = [f"broker {one} fell out of sync" for one in left] + [f"broker {one} is in sync again" for one in came]
        return ", ".join(words)
    return "leader epoch raised" if now.leader_epoch != before.leader_epoch else "state changed"


def told_reasons(lines: Iterable[bytes], of: TopicPartition) -> dict[tuple[int, int | None, tuple[int, ...]], str]:
    """Reasons out of Moldau's JSON lines."""
    found: dict[tuple[int, int | None, tuple[int, ...]], str] = {}
    for line in lines:
        if b'"why"' not in line or of.topic.encode() not in line:
            continue
        try:
            fact = json.loads(line)
            if (fact["topic"], fact["partition"]) == (of.topic, of.partition):
                found[fact["leaderEpoch"], fact.get("partitionEpoch"), tuple(fact["isr"])] = str(fact["why"])
        except (ValueError, KeyError, TypeError):
            continue  # a line that was cut off
    return found


IN_ASCII = str.maketrans("█▒·", "#+.")
"""The marks of ``bar`` for terminals that have no others."""


def bar(isr: tuple[int, ...] | None, leader: int, replicas: Iterable[int]) -> str:
    """The replicas of a partition, a mark each: leading, in sync, or neither."""
    marks = ("?" if isr is None else "█" if one == leader else "▒" if one in isr else "·" for one in replicas)
    return "".join(marks)
