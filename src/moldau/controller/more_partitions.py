"""More partitions for topics that exist. Items of one request stand for themselves: a bad one harms no other.

A topic of which a partition has no readable state is refused: the number of its next partition would be a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

from moldau.controller.batched import Work, batched
from moldau.controller.facts import FINE, TOO_MANY, Decision, DecisionContext, Problem
from moldau.controller.large_topics import (
    Parts,
    Placed,
    checked,
    checked_again,
    made,
    placed,
    without_pauses,
)
from moldau.controller.placement import bad_assignment
from moldau.controller.replies import PartitionsCreated
from moldau.controller.requests import CreatePartitions, MorePartitions
from moldau.controller.sizes import topic_too_large
from moldau.image.prepared import Prepared
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.schema import Message

Added = tuple[Sequence[Message], tuple[str, Problem]]


def create_partitions(context: DecisionContext, request: CreatePartitions) -> Work:
    """Add partitions to topics; fewer than there are is refused."""
    addition = _Addition(context, request)
    records, results = yield from batched(context, request.topics, addition.add, large=addition.large)
    return Decision(records, PartitionsCreated(topics=tuple(results)))


class _Addition:
    """One request for more partitions, under way."""

    def __init__(self, context: DecisionContext, request: CreatePartitions) -> None:
        self._count = Counter(item.name for item in request.topics)
        self._first = context
        self._validate_only = request.validate_only
        self._written = 0

    def add(self, context: DecisionContext, item: MorePartitions) -> Added:
        """Records and result of one topic."""
        return without_pauses(context, self._add(context, item))

    def large(self, item: MorePartitions) -> Callable[[DecisionContext], Parts[Added]] | None:
        """What adds very many partitions to a topic, if this is to be done."""
        topic = self._first.image.topic(item.name)
        count = item.count - (0 if topic is None else len(topic.partitions))
        if not self._first.settings.partitions_at_once < count <= self._first.settings.max_records:
            return None
        return lambda context: self._add(context, item)

    def _add(self, context: DecisionContext, item: MorePartitions) -> Parts[Added]:
        if self._count[item.name] > 1:
            return [], (item.name, Problem(Code.INVALID_REQUEST, "Duplicate topic name."))
        context, outcome, growing = yield from checked_again(
            context, lambda now: _growing(now, item), lambda now, growing: _more(now, item, growing)
        )
        if not isinstance(outcome, Problem) and growing is not None:
            partitions = context.image.topics[growing.id].partitions.values()
            new = (one for run in outcome.runs for one in run.partitions.values())
            outcome = topic_too_large(context.settings, chain(partitions, new)) or outcome
        if not isinstance(outcome, Problem) and self._written + len(outcome) > context.settings.max_records:
            outcome = TOO_MANY
        if isinstance(outcome, Problem):
            return [], (item.name, outcome)
        self._written += len(outcome)
        return [] if self._validate_only else outcome, (item.name, FINE)


class _Growing(NamedTuple):
    """A topic that is to have more partitions: how many it has, and how many replicas each."""

    id: bytes
    now: int
    factor: int


def _growing(context: DecisionContext, item: MorePartitions) -> _Growing | Problem:
    topic = context.image.topic(item.name)
    if topic is None:
        return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic.id in context.soft_state.marked_for_deletion:
        return Problem(Code.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    now = len(topic.partitions)
    if topic.id in context.soft_state.partly_read or any(n not in topic.partitions for n in range(now or 1)):
        why = (
            f"Some partitions of topic {item.name} have no state yet, or none that could be read: then the next"
            " controller reads it again."
        )
        return Problem(Code.INVALID_PARTITIONS, why)
    if item.count == now:
        return Problem(Code.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if item.count < now:
        why = f"The topic {item.name} currently has {now} partition(s); {item.count} would not be an increase."
        return Problem(Code.INVALID_PARTITIONS, why)
    added = item.count - now
    if added > context.settings.max_records:
        return TOO_MANY
    if item.assignments is not None and len(item.assignments) != added:
        why = (
            f"Attempted to add {added} additional partition(s), but only {len(item.assignments)} assignment(s) were "
            "specified."
        )
        return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
    return _Growing(topic.id, now, len(topic.partitions[0].original_replicas))


def _more(
    context: DecisionContext, item: MorePartitions, growing: _Growing
) -> Parts[tuple[DecisionContext, Prepared | Problem]]:
    """The records of a topic's new partitions, with pauses."""
    replicas: Placed | Problem
    if item.assignments is None:
        context, replicas = yield from placed(context, item.count - growing.now, growing.factor)
        if isinstance(replicas, Problem):
            return context, replicas
    else:
        replicas = list(item.assignments)
        context, problem = yield from checked(
            context, replicas, lambda context, one: bad_assignment(context.image, one, growing.factor)
        )
        if problem is not None:
            return context, problem
    return (yield from made(context, (), growing.id, growing.now, replicas))
