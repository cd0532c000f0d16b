"""What a plan costs and what it brings: replicas and bytes that move, how long that takes, how even it is afterwards.

Pure values; the numbers go out as tables or JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from moldau.model import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]


@dataclass
class BrokerLoad:
    """What one broker has, and will have."""

    broker: int
    rack: str | None
    alive: bool
    replicas: int = 0
    replicas_after: int = 0
    leaders: int = 0
    leaders_after: int = 0
    bytes: int = 0
    bytes_after: int = 0
    moves_in: int = 0
    moves_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    """What others copy from it, as the leader."""


@dataclass
class Imbalance:
    """How uneven one thing is, in per cent: (most - least) / average. Over live brokers, and afterwards over those of
    them that are to hold replicas.
    """

    what: str
    before: float
    after: float


@dataclass
class Summary:
    """A plan in numbers."""

    partitions: int
    replicas_to_move: int
    bytes_to_move: int
    leaders_to_change: int
    too_few_racks: int
    too_few_racks_after: int
    seconds: float | None
    brokers: list[BrokerLoad]
    skew: list[Imbalance]

    def as_json(self) -> dict[str, object]:
        """The summary as ``json.dumps`` takes it."""
        return asdict(self)


def summarize(
    before: Assignment,
    after: Assignment,
    racks: Mapping[int, str | None],
    *,
    sizes: Mapping[TopicPartition, int],
    leaders: Mapping[TopicPartition, int],
    rate: int | None = None,
    targets: Collection[int] | None = None,
) -> Summary:
    """What it costs to get from one assignment to the other.

    Args:
        before, after: of the same partitions.
        racks: live brokers and their racks.
        sizes: bytes of each partition.
        leaders: who leads now, and is copied from.
        rate: bytes a second that a broker may spend, in and out.
        targets: the brokers that are to be even afterwards; all live ones when None.
    """
    ids = sorted({*racks, *(r for held in (*before.values(), *after.values()) for r in held)})
    loads = {id: BrokerLoad(id, racks.get(id), id in racks) for id in ids}
    changed = 0
    for p, wanted in after.items():
        held, size = before[p], sizes.get(p, 0)
        changed += tuple(held) != tuple(wanted)
        _count(loads, (held, wanted), size)
        for _ in set(wanted) - set(held):
            if leaders.get(p) in loads:
                loads[leaders[p]].bytes_out += size
    live = [loads[id] for id in racks]
    left = live if targets is None else [loads[id] for id in racks if id in targets]
    return Summary(
        partitions=changed,
        replicas_to_move=sum(one.moves_in for one in loads.values()),
        bytes_to_move=sum(one.bytes_in for one in loads.values()),
        leaders_to_change=sum(list(before[p][:1]) != list(after[p][:1]) for p in after),
        too_few_racks=_narrow(before, racks),
        too_few_racks_after=_narrow(after, racks),
        seconds=None if rate is None else max((max(b.bytes_in, b.bytes_out) / rate for b in loads.values()), default=0),
        brokers=list(loads.values()),
        skew=[
            Imbalance("replicas", _skew(b.replicas for b in live), _skew(b.replicas_after for b in left)),
            Imbalance("leaders", _skew(b.leaders for b in live), _skew(b.leaders_after for b in left)),
            Imbalance("bytes", _skew(b.bytes for b in live), _skew(b.bytes_after for b in left)),
        ],
    )


def _count(loads: Mapping[int, BrokerLoad], replicas: tuple[Sequence[int], Sequence[int]], size: int) -> None:
    """Add one partition to what its brokers have, and will have."""
    held, wanted = replicas
    for at, replica in enumerate(held):
        one = loads[replica]
        one.replicas += 1
        one.leaders += at == 0
        one.bytes += size
        one.moves_out += replica not in wanted
    for at, replica in enumerate(wanted):
        one = loads[replica]
        one.replicas_after += 1
        one.leaders_after += at == 0
        one.bytes_after += size
        one.moves_in += replica not in held
        one.bytes_in += size if replica not in held else 0


def _narrow(assignment: Assignment, racks: Mapping[int, str | None]) -> int:
    """Partitions that are in fewer racks than they could be."""
    there = len(set(racks.values()))
    return sum(len({racks.get(r) for r in held}) < min(len(held), there) for held in assignment.values())


def _skew(counts: Iterable[int]) -> float:
    numbers: Collection[int] = list(counts)
    total = sum(numbers)
    return 0.0 if not total else round(100 * (max(numbers) - min(numbers)) * len(numbers) / total, 1)
