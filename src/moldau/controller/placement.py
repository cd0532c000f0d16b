"""Where replicas of new partitions go: striped over racks and brokers from a rolled start; checks of given assignments.

The striped placer: racks take turns, brokers in a rack take turns at leading and at following, and everything is
shuffled once every broker has had a turn. No leader on a fenced broker; fenced brokers only when the others do not
suffice. Source of the scheme: KIP-36 and Kafka's KRaft placer, which has one turn for leading and following, so that
with as many racks as brokers in each the same few brokers lead again and again; here turns are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller.facts import Problem, SeededRng
from moldau.image import Broker, Image
from moldau.model import Code


class _Ring:
    """Brokers in a circle. A round takes each at most once, from a start that moves on with each round."""

    __slots__ = ("brokers", "follows", "leads", "pass_number", "start", "taken")

    def __init__(self, brokers: list[int], rng: SeededRng) -> None:
        self.brokers = brokers
        self.leads = self.follows = rng.below(len(brokers)) if brokers else 0
        self.pass_number = -1
        self.start = 0
        self.taken = 0

    def next(self, pass_number: int, *, leading: bool = False) -> int | None:
        """The next broker of this round, or None when all have been. ``leading``: the first is to lead."""
        if self.pass_number != pass_number:
            self.pass_number = pass_number
            self.taken = 0
            if leading:
                self.start = self.leads
                self.leads += 1
            else:
                self.start = self.follows
                self.follows += 1
        if self.taken >= len(self.brokers):
            return None
        broker = self.brokers[(self.start + self.taken) % len(self.brokers)]
        self.taken += 1
        return broker


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, unfenced: list[int], fenced: list[int], rng: SeededRng) -> None:
        self.fenced = _Ring(fenced, rng)
        self.unfenced = _Ring(unfenced, rng)

    def next(self, pass_number: int) -> int | None:
        broker = self.unfenced.next(pass_number)
        return self.fenced.next(pass_number) if broker is None else broker


class Placer:
    """Hands out replica lists, one partition after the other."""

    def __init__(self, brokers: Sequence[Broker], rng: SeededRng) -> None:
        """``brokers``: those that are not on their way out."""
        self._rng = rng
        by_rack: dict[str | None, list[Broker]] = {}
        for broker in sorted(brokers):
            by_rack.setdefault(broker.rack, []).append(broker)
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [
            _Rack([b.id for b in by_rack[n] if not b.fenced], [b.id for b in by_rack[n] if b.fenced], rng)
            for n in names
        ]
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._offset = rng.below(len(self._racks)) if self._racks else 0
        self._round = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Replicas of the next partition. The factor must be at least 1, and at most the number of brokers."""
        if self._round and self._round % self._unfenced == 0:
            self._shuffle()
        self._offset %= len(self._racks)
        first_rack, leader = self._first()
        replicas = [leader]
        rack = self._offset
        waiting: int | None = first_rack
        while len(replicas) < replication_factor:
            broker = None
            if rack == waiting:
                waiting = None  # the first rack has given the leader: skip its turn once
            else:
                broker = self._racks[rack].next(self._round)
            rack = (rack + 1) % len(self._racks)
            if broker is not None:
                replicas.append(broker)
        self._round += 1
        self._offset += 1
        return tuple(replicas)

    def _first(self) -> tuple[int, int]:
        """The rack whose turn it is, or the next that has an unfenced broker, and that broker."""
        for step in range(len(self._racks)):
            rack = (self._offset + step) % len(self._racks)
            leader = self._racks[rack].unfenced.next(self._round, leading=True)
            if leader is not None:
                return rack, leader
        raise AssertionError("no unfenced broker: the caller checks")

    def _shuffle(self) -> None:
        self._rng.shuffle(self._racks)
        for rack in self._racks:
            self._rng.shuffle(rack.unfenced.brokers)
            self._rng.shuffle(rack.fenced.brokers)


def place_on(image: Image, factor: int, rng: SeededRng) -> Placer | Problem:
    """Who hands out replicas of new partitions, or INVALID_REPLICATION_FACTOR in words."""
    brokers = [b for b in image.brokers.values() if not b.in_controlled_shutdown and b.takes_replicas]
    why = None
    if factor <= 0:
        why = f"Invalid replication factor {factor}: the replication factor must be positive."
    elif not any(not broker.fenced for broker in brokers):
        why = "All brokers are currently fenced."
    elif factor > len(brokers):
        why = (
            f"The target replication factor of {factor} cannot be reached because only {len(brokers)} broker(s) "
            "are registered."
        )
    if why is not None:
        return Problem(Code.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): {why}")
    return Placer(brokers, rng)


def place(image: Image, count: int, factor: int, rng: SeededRng) -> list[tuple[int, ...]] | Problem:
    """Replicas for ``count`` new partitions, or INVALID_REPLICATION_FACTOR in words."""
    placer = place_on(image, factor, rng)
    return placer if isinstance(placer, Problem) else [placer.place(factor) for _ in range(count)]


def bad_assignment(image: Image, replicas: Sequence[int], factor: int | None = None) -> Problem | None:
    """What is wrong with a manual assignment; ``factor``: how many replicas the other partitions have."""
    why = None
    if not replicas:
        why = "The manual partition assignment includes an empty replica list."
    elif len(set(replicas)) != len(replicas):
        twice = next(r for r in sorted(replicas) if list(replicas).count(r) > 1)
        why = f"The manual partition assignment includes the broker {twice} more than once."
    elif not all(r in image.brokers for r in replicas):
        unknown = next(r for r in sorted(replicas) if r not in image.brokers)
        why = f"The manual partition assignment includes broker {unknown}, but no such broker is registered."
    elif factor is not None and len(replicas) != factor:
        why = (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )
    return None if why is None else Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
