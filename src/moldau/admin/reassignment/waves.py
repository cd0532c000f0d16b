"""How far each partition of a plan is, and which moves begin next: a bounded number at once, in all and per broker.

Pure values. Used by ``carrying.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from moldau.client.admin import Reassignment
from moldau.model import TopicPartition

GONE, MOVING, FINISHED, WAITING, OTHERWISE = "gone", "moving", "done", "waiting", "otherwise"
CHANGING_DIRECTORY, UNKNOWN = "changing directory", "unknown"


class ObservedPartition(NamedTuple):
    """What the cluster says of a partition."""

    replicas: Sequence[int]
    leader: int
    isr: Sequence[int] = ()
    offline: Sequence[int] = ()
    """Replicas whose broker, or whose log directory there, is away."""


class MoveLimits(NamedTuple):
    """How many moves may be under way at once."""

    total: int
    per_broker: int


Plan = Mapping[TopicPartition, Sequence[int]]


def stand(
    goal: Plan, origin: Plan, shown: Mapping[TopicPartition, ObservedPartition], moving: Collection[TopicPartition]
) -> dict[TopicPartition, str]:
    """How far each partition is: gone, moving, done, waiting, or otherwise than the plan knows.

    A move that was called off leaves the old replicas in another order (of 2,1 that were to become 1,4 are left 1,2),
    as Kafka's controller does; nobody else has moved such a partition.
    """
    out = {}
    for p, wanted in goal.items():
        now = shown.get(p)
        if now is None:
            out[p] = GONE
        elif p in moving:
            out[p] = MOVING
        elif list(now.replicas) == list(wanted):
            out[p] = FINISHED
        else:
            out[p] = WAITING if set(now.replicas) in (set(origin[p]), set(wanted)) else OTHERWISE
    return out


def with_directories(
    states: Mapping[TopicPartition, str], misplaced: Mapping[TopicPartition, str], *, has_ended: bool
) -> dict[TopicPartition, str]:
    """The states, where ``misplaced`` (see ``directories.misplaced``) are not in the log directories of the plan: what
    has its brokers is not done before it has those, too, and otherwise once nobody carries the plan out any more."""
    words = {"moving": CHANGING_DIRECTORY, "unknown": UNKNOWN, "otherwise": OTHERWISE if has_ended else WAITING}
    return {p: words[misplaced[p]] if state == FINISHED and p in misplaced else state for p, state in states.items()}


def next_moves(
    waiting: Sequence[TopicPartition],
    goal: Plan,
    shown: Mapping[TopicPartition, ObservedPartition],
    moving: Mapping[TopicPartition, Reassignment],
    limits: MoveLimits,
) -> list[TopicPartition]:
    """The moves that may begin now, in the plan's order. A broker takes part that gets a replica, or is copied from.

    What copies nothing, such as another order of the same replicas, begins at once.
    """
    busy: Counter[int] = Counter()
    for p, one in moving.items():
        busy.update(one.adding)
        if p in shown and one.adding:
            busy[shown[p].leader] += 1
    count = sum(bool(one.adding) for one in moving.values())
    begin = []
    for p in waiting:
        new = [r for r in goal[p] if r not in shown[p].replicas]
        if new:
            brokers = {*new, shown[p].leader}
            full = any(busy[b] >= limits.per_broker for b in brokers)
            if count >= limits.total or full:
                continue
            busy.update(brokers)
            count += 1
        begin.append(p)
    return begin
