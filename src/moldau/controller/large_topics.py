"""Very many new partitions of one topic: found out, and put into words, in parts; written all at once.

Nothing is written before the last part, so that nobody sees half of a topic. Meanwhile others change the world: what
was made is good if brokers and topic are still as they were when it was begun; else it is made again, and the last time
in one go, so that it comes to an end however much happens.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from moldau.controller.bounds import too_large
from moldau.controller.facts import DecisionContext, Problem
from moldau.controller.placement import place_on
from moldau.image.partition import Partition, to_record
from moldau.image.prepared import PartitionRun, Prepared
from moldau.model import Code
from moldau.wire.batch import Builder
from moldau.wire.schema import Message

T = TypeVar("T")
C = TypeVar("C")

ATTEMPTS = 3
Placed = list[tuple[int, ...]]
Known = dict[tuple[int, ...], tuple[tuple[int, ...], tuple[bytes, ...]]]
"""Replicas -> those that are active, and the directory of each."""
Parts = Generator[Sequence[Message], DecisionContext, T]
"""Pauses in which nothing is written; it is sent the next look at the world."""


def checked_again(
    context: DecisionContext,
    check: Callable[[DecisionContext], C | Problem],
    make: Callable[[DecisionContext, C], Parts[tuple[DecisionContext, Prepared | Problem]]],
) -> Parts[tuple[DecisionContext, Prepared | Problem, C | None]]:
    """The last look, what was made of what ``check`` found, and that; or what is wrong."""
    for attempt in range(ATTEMPTS):
        found = check(context)
        if isinstance(found, Problem):
            return context, found, None
        brokers, work = dict(context.image.brokers), make(context, found)
        context, made = (yield from work) if attempt < ATTEMPTS - 1 else without_pauses(context, work)
        if isinstance(made, Problem) or (check(context) == found and dict(context.image.brokers) == brokers):
            return context, made, found
    raise AssertionError("what is made without a pause is made of what was found")


def without_pauses(context: DecisionContext, work: Parts[T]) -> T:
    """What ``work`` returns."""
    try:
        next(work)
        while True:
            work.send(context)
    except StopIteration as end:
        found: T = end.value
        return found


def placed(context: DecisionContext, count: int, factor: int) -> Parts[tuple[DecisionContext, Placed | Problem]]:
    """Replicas for so many new partitions, by the placer."""
    placer = place_on(context.image, factor, context.rng)
    if isinstance(placer, Problem):
        return context, placer
    found: Placed = []
    while len(found) < count:
        found.append(placer.place(factor))
        if len(found) % context.settings.partitions_at_once == 0:
            context = yield []
    return context, found


def checked(
    context: DecisionContext, given: Iterable[T], wrong: Callable[[DecisionContext, T], Problem | None]
) -> Parts[tuple[DecisionContext, Problem | None]]:
    """What is wrong with the first of these with which something is wrong."""
    for done, one in enumerate(given, 1):
        if (problem := wrong(context, one)) is not None:
            return context, problem
        if done % context.settings.partitions_at_once == 0:
            context = yield []
    return context, None


def partition_of(
    context: DecisionContext,
    known: Known,
    topic_id: bytes,
    number: int,
    replicas: tuple[int, ...],
) -> Partition | Problem:
    """A new partition with all active replicas in the ISR, led by the first of them. Of a thousand partitions most have
    the same replicas as others: what these mean is looked up once, and stands in ``known``."""
    if replicas not in known:
        active = tuple(r for r in replicas if context.image.is_active(r))
        known[replicas] = active, tuple(context.default_directory(r) for r in replicas)
    isr, directories = known[replicas]
    if not isr:  # only by hand: the placer gives every partition an active leader
        why = (
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
        return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
    return Partition(topic_id, number, replicas, isr, leader=isr[0], directories=directories)


def made(
    context: DecisionContext, head: Sequence[Message], topic_id: bytes, first: int, placed: Placed
) -> Parts[tuple[DecisionContext, Prepared | Problem]]:
    """The records of ``head``, and those of the partitions ``first``.. of a topic."""
    found = Prepared([], packed=Builder() if too_large(head) is None else None)
    for record in head:
        found.add(record)
    run = PartitionRun(topic_id, len(head))
    known: Known = {}
    for number, replicas in enumerate(placed, first):
        partition = partition_of(context, known, topic_id, number, replicas)
        if isinstance(partition, Problem):
            return context, partition
        run.add(partition)
        found.add(to_record(partition))
        if len(run.partitions) % context.settings.partitions_at_once == 0:
            context = yield []
    found.runs = (run,)
    return context, found
