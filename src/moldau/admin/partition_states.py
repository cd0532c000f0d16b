"""Partitions as commands show them: who leads, who is in sync, and in one word what is wrong.

Read next: topic.py, doctor.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.client.admin import Reassignment
    from moldau.client.view import Topic
    from moldau.model import TopicPartition

OK, OFFLINE, UNDER_MIN, AT_MIN, UNDER = "ok", "offline", "under-min-isr", "at-min-isr", "under-replicated"
WORST_FIRST = (OFFLINE, UNDER_MIN, AT_MIN, UNDER, OK)


class PartitionHealth(NamedTuple):
    """One partition; ``factor`` is how many replicas it is to have, without those that a move is adding."""

    topic: str
    partition: int
    leader: int
    epoch: int
    replicas: list[int]
    isr: list[int]
    adding: list[int]
    removing: list[int]
    factor: int
    min_isr: int

    @property
    def state(self) -> str:
        """The worst there is to say of it. One that has all its replicas in sync is well, whatever its minimum."""
        if self.leader < 0:
            return OFFLINE
        if len(self.isr) < self.min_isr:
            return UNDER_MIN
        if len(self.isr) >= self.factor:
            return OK
        return AT_MIN if len(self.isr) == self.min_isr else UNDER

    def row(self) -> dict[str, object]:
        """Its fields for a table."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": self.leader if self.leader >= 0 else None,
            "epoch": self.epoch,
            "replicas": self.replicas,
            "in_sync": self.isr,
            "state": self.state,
            "adding": self.adding,
            "removing": self.removing,
        }


FILTERS: dict[str, Callable[[PartitionHealth], bool]] = {
    "offline": lambda one: one.leader < 0,
    "under_replicated": lambda one: len(one.isr) < one.factor,
    "under_min_isr": lambda one: one.leader < 0 or len(one.isr) < one.min_isr,
    "at_min_isr": lambda one: len(one.isr) == one.min_isr,
    "moving": lambda one: bool(one.adding or one.removing),
}
"""What partitions can be looked for by, as Kafka's topic tool means it."""


def states(
    topics: Iterable[Topic],
    alive: Iterable[int],
    min_isr: Mapping[str, int],
    moves: Mapping[TopicPartition, Reassignment],
) -> list[PartitionHealth]:
    """All partitions of these topics, in order. A leader that is not alive leads nothing."""
    living = set(alive)
    by_place = {(place.topic, place.partition): move for place, move in moves.items()}
    found = []
    for topic in topics:
        needed = min_isr.get(topic.name, 1)
        for number in sorted(topic.partitions):
            part = topic.partitions[number]
            move = by_place.get((topic.name, number))
            adding, removing = (move.adding, move.removing) if move is not None else ([], [])
            leader = part.leader if part.leader in living else -1
            factor = len(part.replicas) - len(set(adding) & set(part.replicas))
            found.append(
                PartitionHealth(
                    topic.name,
                    number,
                    leader,
                    part.leader_epoch,
                    part.replicas,
                    part.isr,
                    adding,
                    removing,
                    factor,
                    needed,
                )
            )
    return found


def worst(found: Iterable[PartitionHealth]) -> str:
    """The worst state of partitions."""
    seen = {one.state for one in found}
    return next((state for state in WORST_FIRST if state in seen), OK)
