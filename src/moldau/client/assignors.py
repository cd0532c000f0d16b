"""How the partitions of subscribed topics are shared out among the members of a consumer group. Pure functions.

The leader of a group runs the one that all members offered. Names and rules are Kafka's: ``range`` (per topic, in
member order), ``roundrobin`` (all partitions in turn), ``cooperative-sticky`` (balanced; members keep what they have; a
partition that changes hands is given out only after its owner let go of it, KIP-429).
Read next: membership.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle

from moldau.model import TopicPartition
from moldau.model.named import NamedTuple


class Subscription(NamedTuple):
    """What one member asks for and holds. ``generation`` is the one it held that in, -1 when it does not say."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    instance_id: str | None = None


Members = Mapping[str, Subscription]
Counts = Mapping[str, int]
Shares = dict[str, list[TopicPartition]]


def _in_order(members: Members) -> list[str]:
    """Static members by their instance ids first, so that a restart does not reshuffle; the others by member id."""
    return sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or "", m))


def range_(members: Members, counts: Counts) -> Shares:
    """Topic by topic: neighbouring partitions to each subscriber, one more to the first ones."""
    shares: Shares = {member: [] for member in members}
    order = _in_order(members)
    for topic in sorted({t for s in members.values() for t in s.topics}):
        takers = [m for m in order if topic in members[m].topics]
        each, more = divmod(counts.get(topic, 0), len(takers))
        start = 0
        for i, member in enumerate(takers):
            end = start + each + (1 if i < more else 0)
            shares[member] += [TopicPartition(topic, index) for index in range(start, end)]
            start = end
    return shares


def roundrobin(members: Members, counts: Counts) -> Shares:
    """All partitions in order, each to the next member that subscribes to its topic."""
    shares: Shares = {member: [] for member in members}
    turn = cycle(_in_order(members))
    for partition in _all(members, counts):
        member = next(turn)
        while partition.topic not in members[member].topics:
            member = next(turn)
        shares[member].append(partition)
    return shares


def cooperative_sticky(members: Members, counts: Counts) -> Shares:
    """Balanced shares that change as little as can be, without what another member must let go of first."""
    everything = _all(members, counts)
    holders = _holders(members, set(everything))
    shares = _keep(members, everything, holders)
    _give_out(members, shares, everything)
    _even_out(members, shares)
    return {member: sorted(p for p in share if holders.get(p, member) == member) for member, share in shares.items()}


def _all(members: Members, counts: Counts) -> list[TopicPartition]:
    topics = sorted({t for s in members.values() for t in s.topics})
    return [TopicPartition(topic, index) for topic in topics for index in range(counts.get(topic, 0))]


def _holders(members: Members, everything: set[TopicPartition]) -> dict[TopicPartition, str]:
    """Who holds what: of two that claim a partition the one with the later generation, nobody if they are the same."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member, subscription in members.items():
        for partition in subscription.owned & everything:
            claims.setdefault(partition, []).append((subscription.generation, member))
    holders = {}
    for partition, claimed in claims.items():
        claimed.sort()
        if len(claimed) == 1 or claimed[-1][0] > claimed[-2][0]:
            holders[partition] = claimed[-1][1]
    return holders


def _keep(members: Members, everything: list[TopicPartition], holders: Mapping[TopicPartition, str]) -> Shares:
    """Members keep what they hold and still want."""
    shares: Shares = {member: [] for member in members}
    for partition in everything:
        holder = holders.get(partition)
        if holder is not None and partition.topic in members[holder].topics:
            shares[holder].append(partition)
    return shares


def _give_out(members: Members, shares: Shares, everything: list[TopicPartition]) -> None:
    """Free partitions to whoever has least."""
    taken = {p for share in shares.values() for p in share}
    order = _in_order(members)
    for partition in everything:
        if partition not in taken:
            takers = [m for m in order if partition.topic in members[m].topics]
            shares[min(takers, key=lambda m: len(shares[m]))].append(partition)


def _even_out(members: Members, shares: Shares) -> None:
    """Move partitions from the fullest to emptier subscribers until no move makes things more even."""
    order = _in_order(members)
    moved = True
    while moved:
        moved = False
        for poor in sorted(order, key=lambda m: len(shares[m])):
            for rich in sorted(order, key=lambda m: -len(shares[m])):
                if len(shares[rich]) <= len(shares[poor]) + 1:
                    break
                fitting = [p for p in shares[rich] if p.topic in members[poor].topics]
                if fitting:
                    shares[rich].remove(fitting[-1])
                    shares[poor].append(fitting[-1])
                    moved = True
                    break
            if moved:
                break


ASSIGNORS: Mapping[str, Callable[[Members, Counts], Shares]] = {
    "range": range_,
    "roundrobin": roundrobin,
    "cooperative-sticky": cooperative_sticky,
}
COOPERATIVE = frozenset({"cooperative-sticky"})
