"""Decisions on more items than one step of the loop should hold: generators of record batches.

A ``Work`` yields the records of its parts, each a decision that is true by itself, and is sent the next look at the
world, which others may have changed in between. Who runs it is the controller role (``RemainingItems``). Each item is
decided on its own; what must stand in the log together is one item. Departures of brokers are ``parts.py``'s: their
partitions are decided on anew at each part, since they may be asked for again while they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from moldau.controller.facts import Decision, DecisionContext, SoftState
from moldau.controller.replies import Refused
from moldau.model import Code
from moldau.model.value import value
from moldau.wire.records.metadata import ConfigRecord
from moldau.wire.schema import Message

T = TypeVar("T")
R = TypeVar("R")

Work = Generator[Sequence[Message], DecisionContext, Decision]
Large = Callable[
    [T], Callable[[DecisionContext], Generator[Sequence[Message], DecisionContext, tuple[Sequence[Message], R]]] | None
]
TEXT_CHARS = 1 << 12
"""So much text of a setting counts as another record: a part's batch stays far below ``bounds.BATCH_BYTES_MAX``."""
LOOKED_AT = 20
"""So many items that are only looked at count as one that is decided."""


@value
class RemainingItems:
    """What is left of a request that is decided in parts. It ends with the controller role that began it, whose
    ``soft_state`` it has.
    """

    request: object
    work: Work
    soft_state: SoftState


def begun(context: DecisionContext, request: object, work: Work) -> Decision:
    """The first part of a request."""
    return _part(RemainingItems(request, work, context.soft_state), lambda: next(work))


def continued(context: DecisionContext, rest: RemainingItems) -> Decision:
    """The next part."""
    if rest.soft_state is not context.soft_state:
        rest.work.close()
        return Decision([], Refused(Code.NOT_CONTROLLER, "This node is not the active controller any more."))
    return _part(rest, lambda: rest.work.send(context))


def _part(rest: RemainingItems, step: Callable[[], Sequence[Message]]) -> Decision:
    try:
        return Decision(step(), None, then=rest)
    except StopIteration as end:
        decision: Decision = end.value
        return decision


def batched(
    context: DecisionContext,
    items: Iterable[T],
    decide_one: Callable[[DecisionContext, T], tuple[Sequence[Message], R | None]],
    close: Callable[[DecisionContext, list[Message]], list[Message]] | None = None,
    large: Large[T, R] | None = None,
) -> Generator[Sequence[Message], DecisionContext, tuple[Sequence[Message], list[R]]]:
    """Decide item by item: the records of the last part, and what came of all that had a result.

    ``close`` is given the records of each part, and returns those that stand in the log for them. ``large`` decides
    with pauses, and is None for items that need none: what it writes is a part of its own.
    """
    records: list[Message] = []
    results: list[R] = []
    spent = 0
    for item in items:
        work = None if large is None else large(item)
        if spent >= context.settings.partitions_at_once or (work is not None and records):
            context = yield records if close is None else close(context, records)
            records, spent = [], 0
        if work is not None:
            whole, one = yield from work(context)
            results.append(one)
            context = yield whole
            spent = 0
            continue
        made, result = decide_one(context, item)
        records += made
        if result is not None:
            results.append(result)
        spent += max(sum(map(_weight, made)), 1)
    return records if close is None else close(context, records), results


def looked_through(
    context: DecisionContext, items: Iterable[T]
) -> Generator[Sequence[Message], DecisionContext, tuple[DecisionContext, list[T]]]:
    """All the items, with pauses in which nothing is written, for what is cheap and many; and the last look."""
    found: list[T] = []
    for item in items:
        found.append(item)
        if len(found) % (LOOKED_AT * context.settings.partitions_at_once) == 0:
            context = yield []
    return context, found


def _weight(record: Message) -> int:
    return 1 + len(record.value or "") // TEXT_CHARS if isinstance(record, ConfigRecord) else 1
