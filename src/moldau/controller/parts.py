"""Decisions that concern more partitions than one step of the loop should hold: cut into parts, asked one by one.

A broker that goes is taken out of ISRs and leads part by part (in ZooKeeper mode not when it has died: LI-3 is one
decision there), each a decision of its own on the newest state; only then is what was asked decided, on the few
partitions that are left. So every batch is true by itself: nobody is fenced who is in an ISR (C2), and a controller
that dies in between leaves a broker to its successor that is still to be fenced. What a part changes is
``failures.py``'s; the driver asks for the next one (``Decision.then``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from moldau.controller import failures
from moldau.controller.change import LeaderEligibility
from moldau.controller.facts import Decision, DecisionContext
from moldau.controller.replies import Moved
from moldau.controller.requests import RemainingPartitions
from moldau.image.partition import NO_LEADER, Key
from moldau.model.value import replace

Request = Any  # Any: a request of any of the classes that the ledger's table of deciders names


def in_parts(
    context: DecisionContext, request: Request, ids: Iterable[int], *, lost_tail: bool = False
) -> Decision | None:
    """The first part of a request that brokers ``ids`` should go, if it needs several; the request comes again after
    them.

    None needs several in ZooKeeper mode: brokers hear of a death whole there, in one request of each kind (LI-3).
    """
    if context.settings.zookeeper_mode:
        return None
    first = departure(context, ids, request, lost_tail=lost_tail)
    return None if first is None else change_remaining(context, first)


def under_way(context: DecisionContext, ids: Iterable[int]) -> bool:
    """Whether brokers are being taken out of their partitions already."""
    return context.soft_state.leaving.issuperset(ids)


def ending(context: DecisionContext, ids: Iterable[int]) -> bool:
    """Whether it is under way already that brokers end: not when they only shut down, or lost a directory."""
    return context.soft_state.ending.issuperset(ids)


def departure(
    context: DecisionContext, ids: Iterable[int], then: Request, *, lost_tail: bool = False
) -> RemainingPartitions | None:
    """The parts in which brokers leave, None when there are so few partitions that no parts are needed. ``then`` comes
    after them."""
    gone = sorted(set(ids))
    return _leaving(context, gone, failures.concerned(context, gone, lost_tail=lost_tail), then, lost_tail=lost_tail)


def shutdown(context: DecisionContext, broker_id: int, then: Request) -> RemainingPartitions | None:
    """The parts in which a broker's partitions get other leaders before it stops; None when no parts are needed."""
    first = departure(context, [broker_id], then)
    return None if first is None else replace(first, shutting_down=True)


def lost_directories(
    context: DecisionContext, broker_id: int, offline: Iterable[bytes], then: Request
) -> RemainingPartitions | None:
    """The parts in which the replicas in directories that failed leave; None when they need no parts."""
    return _leaving(context, [broker_id], failures.in_directories(context, broker_id, offline), then)


def _leaving(
    context: DecisionContext, gone: list[int], keys: Collection[Key], then: Request, *, lost_tail: bool = False
) -> RemainingPartitions | None:
    if context.parts_done or len(keys) <= context.settings.partitions_at_once:
        return None
    leaving = tuple((id, context.image.brokers[id].epoch) for id in gone)
    return RemainingPartitions(keys=tuple(keys), leaving=leaving, lost_tail=lost_tail, then=then)


def arrival(context: DecisionContext) -> RemainingPartitions | None:
    """The parts in which leaderless partitions are looked at again; None when they need no parts."""
    keys = context.image.index.led.get(NO_LEADER, ())
    return RemainingPartitions(keys=tuple(keys)) if len(keys) > context.settings.partitions_at_once else None


def change_remaining(context: DecisionContext, request: RemainingPartitions) -> Decision:
    """One part. It is dropped, and with it the rest, when the broker that was to go has registered anew."""
    end = request.at + context.settings.partitions_at_once
    leaving = frozenset(id for id, epoch in request.leaving if not context.stale(id, epoch))
    if request.leaving and not leaving:
        return Decision([], None, then=replace(request, at=len(request.keys)))
    keys = [key for key in request.keys[request.at : end] if context.image.partition(*key) is not None]
    if leaving:
        keys = failures.still_concerned(context, leaving, keys, lost_tail=request.lost_tail)
    lost_tail = leaving if request.lost_tail else frozenset()
    eligibility = LeaderEligibility(context, leaving=leaving, lost_tail=lost_tail, shutting_down=request.shutting_down)
    records = failures.changes(eligibility, keys)
    sessions = {}
    for id in sorted(leaving):
        session = context.soft_state.sessions.get(id)
        if records and session is not None and session.shutdown_offset >= 0:  # who may go waits until this is known too
            sessions[id] = session._replace(shutdown_offset=context.facts.next_offset + len(records) - 1)
    return Decision(records, None, sessions, then=replace(request, at=end))


NOTHING_MORE = Moved(count=0)
"""The reply to parts that nobody waits for."""
