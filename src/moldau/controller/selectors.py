"""Who leads: pure arithmetic from (assigned, ISR, live) to an election or a named refusal. Nothing else is looked at.

The five selectors of Kafka's ZooKeeper controller (NoOp, Offline, Reassigned, Preferred, ControlledShutdown), and
``elect``, the one of KRaft mode, which adds eligible leader replicas (KIP-966). Which of them decides, and what an
election does to a partition's record, is in ``change.py``. Candidates are tried in the order of ``assigned``: its first
is the preferred replica.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from moldau.image.partition import NO_LEADER
from moldau.model.named import NamedTuple

Live = Callable[[int], bool]
"""Whether a broker may lead now: registered, unfenced, not shutting down, its disk online."""


class ElectionResult(NamedTuple):
    """A leader and the ISR that it starts with. ``unclean``: it may lack committed records (C11: counted, logged)."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


class Refusal(Enum):
    """Why nobody was elected."""

    NOBODY_LIVE = "no assigned replica is live"
    NO_LIVE_ISR = "no in-sync replica is live, and unclean election is not enabled"
    NOT_IN_ISR = "the replica asked for is not in the ISR"
    NOT_LIVE = "the replica asked for is not live"
    ALREADY_LEADS = "the replica asked for leads already"
    NONE_LEFT = "no other in-sync replica is live and staying"


class Candidates(NamedTuple):
    """What else ``elect`` may draw on: who leads now, eligible leader replicas, the last known leader.

    empty: replicas that hold nothing yet; leading, they would lose everything, so that not even unclean they may.
    """

    current: int = NO_LEADER
    elr: Collection[int] = ()
    last_known: Sequence[int] = ()
    empty: Collection[int] = ()


_NOBODY = Candidates()


def no_op(leader: int, isr: Sequence[int]) -> ElectionResult:
    """Leave things as they are."""
    return ElectionResult(leader, tuple(isr))


def elect_offline(
    assigned: Sequence[int], isr: Collection[int], live: Live, *, unclean: bool
) -> ElectionResult | Refusal:
    """For a partition whose leader died: a live ISR member; else, if allowed, any live replica, alone in the ISR."""
    for replica in assigned:
        if replica in isr and live(replica):
            return ElectionResult(replica, tuple(r for r in isr if live(r)))
    if unclean:
        for replica in assigned:
            if live(replica):
                return ElectionResult(replica, (replica,), unclean=True)
    if not any(live(replica) for replica in assigned):
        return Refusal.NOBODY_LIVE
    return Refusal.NO_LIVE_ISR


def elect_reassigned(target: Sequence[int], isr: Sequence[int], live: Live) -> ElectionResult | Refusal:
    """For a partition whose leader is not among its new replicas: the first of them that is live and in sync."""
    for replica in target:
        if replica in isr and live(replica):
            return ElectionResult(replica, tuple(isr))
    return Refusal.NO_LIVE_ISR


def elect_preferred(
    assigned: Sequence[int], isr: Sequence[int], live: Live, *, current: int
) -> ElectionResult | Refusal:
    """The first assigned replica, if it is live and in sync and does not lead already. Never unclean (C11)."""
    first = assigned[0]
    if first == current:
        return Refusal.ALREADY_LEADS
    if first not in isr:
        return Refusal.NOT_IN_ISR
    if not live(first):
        return Refusal.NOT_LIVE
    return ElectionResult(first, tuple(isr))


def elect_for_shutdown(
    assigned: Sequence[int], isr: Collection[int], live: Live, *, leaving: Collection[int]
) -> ElectionResult | Refusal:
    """For a partition led by a broker that wants to go: a live ISR member that stays. Who leaves, leaves the ISR."""
    for replica in assigned:
        if replica in isr and live(replica) and replica not in leaving:
            return ElectionResult(replica, tuple(r for r in isr if r not in leaving))
    return Refusal.NONE_LEFT


def elect(
    assigned: Sequence[int], isr: Sequence[int], live: Live, *, unclean: bool, among: Candidates = _NOBODY
) -> ElectionResult | Refusal:
    """The leader of a partition in KRaft mode, and its ISR.

    In this order: the current leader while it qualifies; the first assigned replica in the ISR; when the ISR is
    empty, the first in the ELR, then the last known leader (unclean: it may have lost its tail); when allowed, any
    live replica.
    """

    def qualifies(replica: int) -> bool:
        return live(replica) and (replica in isr or (not isr and replica in among.elr))

    chosen = among.current if qualifies(among.current) else next(filter(qualifies, assigned), None)
    if chosen is not None:
        return ElectionResult(chosen, tuple(isr) if isr else (chosen,))
    if not isr and not among.elr and len(among.last_known) == 1:
        last = among.last_known[0]
        if last in assigned and live(last):
            return ElectionResult(last, (last,), unclean=True)
    if unclean:
        anyone = next((r for r in assigned if live(r) and r not in among.empty), None)
        if anyone is not None:
            return ElectionResult(anyone, (anyone,), unclean=True)
    return Refusal.NO_LIVE_ISR if any(map(live, assigned)) else Refusal.NOBODY_LIVE
