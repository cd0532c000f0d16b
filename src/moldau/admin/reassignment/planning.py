"""Who should hold what: drain, add and replace brokers, change replication factors, balance. As few moves as will do.

Pure values: no I/O, no randomness. What holds for each plan: replicas stay where they are unless they must go; nobody
is twice in a partition; new replicas are on live brokers only; a partition is in no fewer racks than before, and no
rack holds more of its replicas, where another is left for them; and a plan made of a plan's result moves nothing.
Partitions that no live broker holds a replica of cannot be copied from anywhere, and stay. Read next:
``levelling.py``, ``summary.py``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from moldau.admin.plans import Plan
from moldau.admin.reassignment.levelling import Leveller
from moldau.model import TopicPartition
from moldau.model.counted import counted

GOALS = ("racks", "replicas", "disk", "leaders")
"""What can be balanced, in the order in which it is done."""
TOLERANCE = 0.1
"""Brokers within this of the average are balanced by bytes."""
SWAP_LEAVES = 0.8
"""What a swap of two replicas may leave of the gap between two brokers' bytes."""


class Impossible(ValueError):
    """There is no such plan; the text says why."""


class PlanBuilder:
    """A plan in the making.

    Args:
        current: the replicas of each partition today.
        racks: the live brokers, and their racks.
        sizes: bytes of each partition; those that are missing count as empty.
    """

    def __init__(
        self,
        current: Mapping[TopicPartition, Sequence[int]],
        racks: Mapping[int, str | None],
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._first = {p: tuple(replicas) for p, replicas in sorted(current.items())}
        self._now: Plan = {p: list(replicas) for p, replicas in self._first.items()}
        self._racks = dict(sorted(racks.items()))
        self._targets = set(self._racks)
        self._sizes = dict(sizes or {})
        self.stuck = [p for p, replicas in self._now.items() if not any(r in self._racks for r in replicas)]
        """Partitions without a live replica: no plan moves them."""
        self._movable = sorted(self._now.keys() - set(self.stuck))
        self._count()

    def result(self) -> Plan:
        """All partitions as they should be."""
        return {p: list(replicas) for p, replicas in self._now.items()}

    def changes(self) -> Plan:
        """The partitions of which that is otherwise than today, in whatever way."""
        return {p: list(replicas) for p, replicas in self._now.items() if tuple(replicas) != self._first[p]}

    @property
    def targets(self) -> frozenset[int]:
        """The brokers that may hold replicas: those that live, but for what is drained or replaced."""
        return frozenset(self._targets)

    # ---- what can be wished

    def drain(self, brokers: Collection[int]) -> None:
        """Take every replica off these brokers, dead or alive."""
        self._targets -= set(brokers)
        for p in self._movable:
            for at, replica in enumerate(self._now[p]):
                if replica in brokers:
                    self._put(p, at, self._best(p, replica, first=at == 0))

    def replace(self, old: int, new: int) -> None:
        """Give one broker's replicas to another; those that it has already, or that would crowd its rack, to others."""
        if new not in self._racks:
            raise Impossible(f"broker {new} is not alive; alive are {_listed(self._racks)}")
        self._targets.discard(old)
        for p in self._movable:
            if old in self._now[p]:
                at = self._now[p].index(old)
                best = self._best(p, old, first=at == 0)
                suits = self._crowding(p, old, new) <= self._crowding(p, old, best) or self._racks[
                    new
                ] not in self._full(p, old)
                self._put(p, at, new if suits and new not in self._now[p] else best)

    def add(self, brokers: Collection[int]) -> None:
        """Give these brokers their share of replicas; nothing moves between the others."""
        missing = set(brokers) - set(self._racks)
        if missing:
            raise Impossible(f"not alive: broker {_listed(missing)}; alive are {_listed(self._racks)}")
        self._leveller(brokers).level()

    def set_rf(self, factor: int) -> None:
        """Give every partition so many replicas. The first stays first; dead and crowded brokers' replicas go first."""
        if factor > len(self._targets):
            alive = counted(len(self._targets), "is", "are")
            raise Impossible(f"{factor} replicas need as many brokers, and {alive} alive")
        for p in self._movable:
            replicas = self._now[p]
            while len(replicas) > factor:
                self._put(p, replicas.index(self._least_needed(p)), None)
            while len(replicas) < factor:
                self._put(p, len(replicas), self._best(p, None, first=False))

    def balance(self, goals: Collection[str], tolerance: float = TOLERANCE) -> None:
        """Even out what is named of ``GOALS``; a later one does not undo an earlier one."""
        for goal in GOALS:
            if goal in goals:
                if goal == "racks":
                    self._widen()
                elif goal == "replicas":
                    self._leveller(None).level()
                elif goal == "disk":
                    self._level_bytes(tolerance, keep_counts="replicas" in goals)
                else:
                    leads = _Leads(self._now, self._first, self._targets)
                    items = [p for p in self._movable if self._now[p]]
                    Leveller(leads, items, self._targets, key=lambda p: p).level()

    # ---- racks

    def _crowding(self, p: TopicPartition, old: int | None, new: int | None) -> int:
        """How far the partition would be from an even spread over racks: the sum of the squares of its numbers of
        replicas in each. Of as many replicas, the smaller sum is in more racks, or loses fewer of them with one rack.
        """
        counts = Counter(self._racks.get(r) for r in [*self._now[p], new] if r is not None and r != old)
        return sum(count * count for count in counts.values())

    def _full(self, p: TopicPartition, giver: int) -> set[str | None]:
        """The racks that take no replica from ``giver``: those that would hold more than its rack does then, or more
        than they held at first while one that holds fewer has a broker left.

        Of replicas in racks a, a, b the first is not for b while there is c: that is as even as before, but whoever
        evens racks out would have to copy it once more, to c.
        """
        counts = [self._racks.get(r) for r in self._now[p] if r != giver]
        own = self._racks.get(giver)
        left = counts.count(own)
        full = {rack for rack in counts if counts.count(rack) > left}
        if growing := {rack for rack in counts if rack != own} - full:
            held = [self._racks.get(r) for r in self._first[p]]
            room = self._room()
            least = min((counts.count(rack) for rack in room if room[rack] > self._taken(p, rack)), default=left)
            full |= {rack for rack in growing if held.count(rack) <= counts.count(rack) > least}
        return full

    def _room(self) -> Counter[str | None]:
        """How many brokers of each rack may hold replicas."""
        return Counter(self._racks[broker] for broker in self._targets)

    def _taken(self, p: TopicPartition, rack: str | None) -> int:
        """How many of a rack's brokers that may hold replicas hold one of the partition."""
        return sum(r in self._targets and self._racks[r] == rack for r in self._now[p])

    def _widen(self) -> None:
        """Move replicas from racks that hold two more of a partition than another could; no more than that takes."""
        room = self._room()
        for p in self._sound():
            replicas = self._now[p]
            while crowded := self._crowded(replicas, room):
                old = max(crowded, key=lambda r: (self._first[p].count(r) == 0, r != replicas[0], self._held[r], -r))
                self._put(p, replicas.index(old), self._best(p, old, first=old == replicas[0]))

    def _crowded(self, replicas: Sequence[int], room: Mapping[str | None, int]) -> list[int]:
        """The replicas in the rack that holds most of these replicas, if another has room for one and holds two
        less."""
        counts = Counter(self._racks[r] for r in replicas)
        fullest = max(counts, key=lambda rack: (counts[rack], rack or ""), default=None)
        if counts[fullest] < 2:
            return []
        taken = Counter(self._racks[r] for r in replicas if r in self._targets)
        least = min((counts[rack] for rack in room if room[rack] > taken[rack]), default=counts[fullest])
        return [r for r in replicas if self._racks[r] == fullest] if counts[fullest] - least >= 2 else []

    # ---- moves

    def takers(self, p: TopicPartition, giver: int) -> list[int]:
        """Who may take a replica from ``giver`` without making the partition's spread over racks worse, or crowding a
        rack while another is left."""
        replicas, full = self._now[p], self._full(p, giver)
        return [b for b in self._takers if b not in replicas and self._racks[b] not in full]

    def holders(self, p: TopicPartition) -> list[int]:
        return self._now[p]

    def at_first(self, p: TopicPartition) -> tuple[int, ...]:
        return self._first[p]

    def move(self, p: TopicPartition, giver: int, taker: int) -> None:
        self._put(p, self._now[p].index(giver), taker)

    def _leveller(self, takers: Collection[int] | None) -> Leveller[TopicPartition]:
        self._takers = sorted(self._targets if takers is None else takers)
        sound = self._sound()
        others = Counter(r for p in self._now.keys() - set(sound) for r in self._now[p])
        return Leveller(
            self, sound, self._targets, takers=takers, fixed=others, key=lambda p: (self._sizes.get(p, 0), p)
        )

    def _sound(self) -> list[TopicPartition]:
        """Partitions of which all replicas live. The others have to be drained first: in what rack a dead one is, and
        when it comes back, nobody knows."""
        return [p for p in self._movable if all(r in self._racks for r in self._now[p])]

    def _best(self, p: TopicPartition, leaving: int | None, *, first: bool) -> int:
        """Who should hold a replica instead of ``leaving``: the best rack, fewest replicas, fewest leads."""
        able = [b for b in self._targets if b not in self._now[p]]
        if not able:
            has = counted(len(self._now[p]), "replica")
            brokers, are = counted(len(self._targets), "broker"), "is" if len(self._targets) == 1 else "are"
            raise Impossible(f"{p} has {has}, and there {are} {brokers} to hold them")
        others = Counter(self._racks.get(r) for r in self._now[p] if r != leaving)
        return min(able, key=lambda b: (others[self._racks[b]], self._held[b], first and self._leads[b], b))

    def _least_needed(self, p: TopicPartition) -> int:
        """Which replica the partition can spare: a dead one, one that shares its rack, one of a full broker."""
        first = next(r for r in self._now[p] if r in self._racks)
        spare = [r for r in self._now[p] if r != first]
        return min(spare, key=lambda r: (r in self._racks, self._crowding(p, r, None), -self._held.get(r, 0), r))

    def _put(self, p: TopicPartition, at: int, broker: int | None) -> None:
        """Put a broker in a partition's list of replicas, instead of the one at that place or at its end."""
        replicas = self._now[p]
        before = list(replicas)
        replicas[at : at + 1] = [] if broker is None else [broker]
        for sign, told in ((-1, before), (1, replicas)):
            for replica in told:
                if replica in self._held:
                    self._held[replica] += sign
            if told and told[0] in self._leads:
                self._leads[told[0]] += sign

    def _count(self) -> None:
        self._held = dict.fromkeys(self._racks, 0)
        self._leads = dict.fromkeys(self._racks, 0)
        for replicas in self._now.values():
            for replica in replicas:
                if replica in self._held:
                    self._held[replica] += 1
            if replicas and replicas[0] in self._leads:
                self._leads[replicas[0]] += 1

    # ---- bytes

    def _level_bytes(self, tolerance: float, *, keep_counts: bool) -> None:
        """Move from brokers with many bytes to those with few, while one is further from the average than allowed.

        Each move takes the replica that brings the two closest to each other, so that few are needed. Where all are to
        keep the number of their replicas, a large one is swapped for a small one.
        """
        self._takers = sorted(self._targets)
        sound = self._sound()
        on = {b: {p for p in sound if b in self._now[p]} for b in self._takers}
        load = {b: sum(self._sizes.get(p, 0) for p, held in self._now.items() if b in held) for b in self._takers}
        mean = sum(load.values()) / max(len(load), 1)
        bytes_on = _Bytes(on, load, self._sizes, (mean * (1 - tolerance), mean * (1 + tolerance)))
        moves = _Pairs(lambda giver, taker, gap: self._move_by_bytes(bytes_on, giver, taker, gap, keep_counts))
        swaps = _Pairs(lambda giver, taker, gap: self._swap_by_bytes(bytes_on, giver, taker, gap))
        while True:
            step = moves.first(bytes_on) or (swaps.first(bytes_on) if keep_counts else ())
            if not step:
                return
            for p, giver, taker in step:
                self.move(p, giver, taker)
                bytes_on.moved(p, giver, taker, self._now[p])

    def _move_by_bytes(self, bytes_on: _Bytes, giver: int, taker: int, gap: int, keep_counts: bool) -> tuple[Step, ...]:
        """The replica whose move brings two brokers closest to each other."""
        if keep_counts and self._held[giver] <= self._held[taker]:
            return ()
        able = ((abs(gap - 2 * size), p) for size, p in self._able(bytes_on, giver, taker) if 0 < size < gap)
        best = min(able, default=None)
        return () if best is None else ((best[1], giver, taker),)

    def _swap_by_bytes(self, bytes_on: _Bytes, giver: int, taker: int, gap: int) -> tuple[Step, ...]:
        """The two moves that bring two brokers closest to each other and leave both with as many replicas as they have.
        What would make their gap less than a fifth smaller is not worth two copies."""
        small = sorted(self._able(bytes_on, taker, giver))
        found = []
        for size, p in self._able(bytes_on, giver, taker):
            at = bisect_left(small, size - gap / 2, key=lambda one: one[0])
            for back, q in small[max(at - 1, 0) : at + 1]:
                left = abs(gap - 2 * (size - back))
                if p != q and left <= gap * SWAP_LEAVES:
                    found.append((left, size + back, p, q))
        if not found:
            return ()
        _, _, p, q = min(found)
        return (p, giver, taker), (q, taker, giver)

    def _able(self, bytes_on: _Bytes, giver: int, taker: int) -> list[tuple[int, TopicPartition]]:
        """Size and partition of what the one may give to the other."""
        return [(self._sizes.get(p, 0), p) for p in bytes_on.on[giver] if taker in self.takers(p, giver)]


Step = tuple[TopicPartition, int, int]
"""A move of a replica: partition, from, to."""


@dataclass(frozen=True)
class _Bytes:
    """What lies on the brokers while their bytes are evened out. ``allowed``: the least and the most that is even."""

    on: dict[int, set[TopicPartition]]
    load: dict[int, int]
    sizes: Mapping[TopicPartition, int]
    allowed: tuple[float, float]
    changes: Counter[int] = field(default_factory=Counter)
    """How often something of a broker's partitions has changed."""

    def uneven(self) -> Iterator[tuple[int, int, int]]:
        """Brokers of which one has too much or the other too little, and the bytes between them: fullest first, each
        with the emptiest first."""
        low, high = self.allowed
        for giver in sorted(self.load, key=lambda b: (-self.load[b], b)):
            for taker in sorted(self.load, key=lambda b: (self.load[b], b)):
                gap = self.load[giver] - self.load[taker]
                if gap <= 0 or (self.load[giver] <= high and self.load[taker] >= low):
                    break  # nobody after this one is emptier
                yield giver, taker, gap

    def moved(self, p: TopicPartition, giver: int, taker: int, replicas: Sequence[int]) -> None:
        """A replica has moved, and these hold the partition now: who may take one of them from whom is new."""
        self.on[giver].discard(p)
        self.on[taker].add(p)
        self.load[giver] -= self.sizes.get(p, 0)
        self.load[taker] += self.sizes.get(p, 0)
        self.changes.update({giver, *replicas})


class _Pairs:
    """Pairs of brokers between which something is looked for; those that had nothing are looked at again only when a
    partition of one of them has changed."""

    def __init__(self, find: Callable[[int, int, int], tuple[Step, ...]]) -> None:
        self._find = find
        self._nothing: dict[tuple[int, int], tuple[int, int]] = {}

    def first(self, bytes_on: _Bytes) -> tuple[Step, ...]:
        """What is found between the first brokers that have something."""
        for giver, taker, gap in bytes_on.uneven():
            state = bytes_on.changes[giver], bytes_on.changes[taker]
            if self._nothing.get((giver, taker)) == state:
                continue
            if found := self._find(giver, taker, gap):
                return found
            self._nothing[giver, taker] = state
        return ()


class _Leads:
    """The first replicas, for levelling: any other replica of a partition may become its first. No data moves."""

    def __init__(self, now: Plan, first: Mapping[TopicPartition, Sequence[int]], live: Collection[int]) -> None:
        self._now, self._first, self._live = now, first, live

    def holders(self, p: TopicPartition) -> list[int]:
        return self._now[p][:1]

    def at_first(self, p: TopicPartition) -> Sequence[int]:
        return self._first[p][:1]

    def takers(self, p: TopicPartition, giver: int) -> list[int]:
        return [r for r in self._now[p] if r != giver and r in self._live]

    def move(self, p: TopicPartition, giver: int, taker: int) -> None:
        replicas = self._now[p]
        replicas.remove(taker)
        replicas.insert(0, taker)


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))
