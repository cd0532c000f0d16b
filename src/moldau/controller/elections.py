"""Elections on request and in the background: preferred, unclean, and the periodic rebalance of leaders (C11).

Who qualifies is decided in ``selectors.py``; what an election changes, in ``change.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from moldau.controller import failures
from moldau.controller.batched import Work, batched, looked_through
from moldau.controller.change import DesiredState, ElectionMode, LeaderEligibility, change
from moldau.controller.facts import FINE, Decision, DecisionContext, Problem
from moldau.controller.replies import LeadersElected, Moved, Refused
from moldau.controller.requests import (
    ElectionType,
    ElectLeaders,
    ElectUncleanLeaders,
    RaiseLeaderEpochs,
    RebalanceLeaders,
)
from moldau.image.partition import NO_LEADER, Key, Partition
from moldau.model import Code
from moldau.wire.records.metadata import PartitionChangeRecord
from moldau.wire.schema import Message

_PREFERRED = DesiredState(mode=ElectionMode.PREFERRED)
_UNCLEAN = DesiredState(mode=ElectionMode.UNCLEAN)


def elect_leaders(context: DecisionContext, request: ElectLeaders) -> Work:
    """Elect where asked; asked for all, say nothing of partitions that need no election."""
    if request.election_type not in tuple(ElectionType):
        return Decision([], Refused(Code.INVALID_REQUEST, f"Unknown election type {request.election_type}"))
    needed_only = request.partitions is None
    named = _needy(context, request.election_type) if request.partitions is None else request.partitions
    done: set[tuple[str, int]] = set()
    eligibility = LeaderEligibility(context)

    def elect(context: DecisionContext, name: tuple[str, int]) -> tuple[list[Message], tuple[str, int, Problem] | None]:
        nonlocal eligibility
        if name in done:
            return [], None
        done.add(name)
        eligibility = eligibility.at(context)
        records: list[Message] = []
        problem = _elect(eligibility, *name, request.election_type, records)
        return records, None if needed_only and problem.code is Code.ELECTION_NOT_NEEDED else (*name, problem)

    records, results = yield from batched(context, named, elect)
    return Decision(records, LeadersElected(partitions=tuple(results)))


def _needy(context: DecisionContext, election_type: int) -> Iterator[tuple[str, int]]:
    index, topics = context.image.index, context.image.topics
    keys = index.astray if election_type == ElectionType.PREFERRED else index.led.get(NO_LEADER, {})
    return ((topics[key[0]].name, key[1]) for key in tuple(keys) if key[0] in topics)


def _elect(
    eligibility: LeaderEligibility, topic: str, number: int, election_type: int, records: list[Message]
) -> Problem:
    found = eligibility.context.image.topic(topic)
    partition = None if found is None else found.partitions.get(number)
    if partition is None:
        return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{number}")
    if partition.topic_id in eligibility.context.soft_state.marked_for_deletion:
        return Problem(Code.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    if election_type == ElectionType.PREFERRED:
        needed, desired, failure = (
            partition.leader != partition.replicas[0], _PREFERRED, Code.PREFERRED_LEADER_NOT_AVAILABLE,
        )  # fmt: skip
    else:
        needed, desired, failure = partition.leader == NO_LEADER, _UNCLEAN, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not needed:
        return Problem(Code.ELECTION_NOT_NEEDED, "The partition has the leader asked for.")
    record = change(partition, topic, desired, eligibility)
    if record is None or record.leader < 0 or (desired is _PREFERRED and record.leader != partition.replicas[0]):
        return Problem(failure, "The replica asked for is not live and in sync.")
    records.append(record)
    return FINE


def rebalance_leaders(context: DecisionContext, request: RebalanceLeaders) -> Work:
    """For brokers that lead too few of the partitions that they should: give them back, at most so many in a pass."""
    if not context.settings.rebalance_enable:
        return Decision([], Moved(count=0))
    astray: dict[int, list[Key]] = {}
    preferred = (
        (key, partition.replicas[0])
        for key in tuple(context.image.index.astray)
        if (partition := context.image.partition(*key)) is not None
    )
    context, found = yield from looked_through(context, preferred)
    for key, id in found:
        astray.setdefault(id, []).append(key)
    imbalanced_ids = [id for id in sorted(astray) if imbalanced(context, id, len(astray[id]))]
    eligibility, most = LeaderEligibility(context), context.settings.max_elections
    count, more = 0, False

    def give_back(context: DecisionContext, key: Key) -> tuple[list[Message], None]:
        nonlocal eligibility, count, more
        eligibility = eligibility.at(context)
        partition = context.image.partition(*key)
        if partition is None or not _can_lead(eligibility, partition):
            return [], None
        if count >= most:
            more = True
            return [], None
        record = change(partition, context.image.topics[key[0]].name, _PREFERRED, eligibility)
        count += record is not None
        return [] if record is None else [record], None

    records, _ = yield from batched(context, chain.from_iterable(astray[id] for id in imbalanced_ids), give_back)
    return Decision(records, Moved(count=count, more=more))


def imbalanced(context: DecisionContext, broker_id: int, astray: int) -> bool:
    """Whether a broker's imbalance, the share of its preferred partitions led elsewhere, is above the limit."""
    return astray * 100 > context.settings.imbalance_percentage * context.image.index.preferred.get(broker_id, 0)


def _can_lead(eligibility: LeaderEligibility, partition: Partition) -> bool:
    first = partition.replicas[0]
    return first in partition.isr and eligibility.live(partition)(first)


def elect_unclean_leaders(context: DecisionContext, request: ElectUncleanLeaders) -> Work:
    """Give leaderless partitions whose topics allow an unclean election a leader. Each is looked at once: those that
    nobody can lead keep none of the others from it."""
    count = 0

    def elect(context: DecisionContext, key: Key) -> tuple[list[Message], None]:
        nonlocal count
        if context.image.partition(*key) is None or not context.unclean(context.image.topics[key[0]].name):
            return [], None
        records = failures.elect_leaderless(context, (key,))
        count += len(records)
        return records, None

    records, _ = yield from batched(context, tuple(context.image.index.led.get(NO_LEADER, ())), elect)
    return Decision(records, Moved(count=count))


def raise_leader_epochs(context: DecisionContext, request: RaiseLeaderEpochs) -> Work:
    """Give partitions whose leader epochs are lower than those in brokers' logs the next one, under the leader that
    they have: as often as brokers say so of the newest, until it is above them all."""

    def raised(context: DecisionContext, key: Key) -> tuple[list[Message], None]:
        partition = context.image.partition(*key)
        if partition is None or partition.leader == NO_LEADER or partition.leader_epoch != request.told[key]:
            return [], None
        return [PartitionChangeRecord(partition_id=key[1], topic_id=key[0], leader=partition.leader)], None

    records, _ = yield from batched(context, tuple(sorted(request.told)), raised)
    return Decision(records, Moved(count=len(records)))
