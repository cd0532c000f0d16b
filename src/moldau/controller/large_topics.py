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
from moldau.image.prepared import Prepared, Run
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
    view: DecisionContext,
    check: Callable[[DecisionContext], C | Problem],
    make: Callable[[DecisionContext, C], Parts[tuple[DecisionContext, Prepared | Problem]]],
) -> Parts[tuple[DecisionContext, Prepared | Problem, C | None]]:
    """The last look, what was made of what ``check`` found, and that; or what is wrong."""
    for attempt in range(ATTEMPTS):
        found = check(view)
        if isinstance(found, Problem):
            return view, found, None
        brokers, work = dict(view.image.brokers), make(view, found)
        view, made = (yield from work) if attempt < ATTEMPTS - 1 else without_pauses(view, work)
        if isinstance(made, Problem) or (check(view) == found and dict(view.image.brokers) == brokers):
            return view, made, found
    raise AssertionError("what is made without a pause is made of what was found")


def without_pauses(view: DecisionContext, work: Parts[T]) -> T:
    """What ``work`` returns."""
    try:
        next(work)
        while True:
            work.send(view)
    except StopIteration as end:
        found: T = end.value
        return found


def placed(view: DecisionContext, count: int, factor: int) -> Parts[tuple[DecisionContext, Placed | Problem]]:
    """Replicas for so many new partitions, by the placer."""
    placer = place_on(view.image, factor, view.rng)
    if isinstance(placer, Problem):
        return view, placer
    found: Placed = []
    while len(found) < count:
        found.append(placer.place(factor))
        if len(found) % view.settings.partitions_at_once == 0:
            view = yield []
    return view, found


def checked(
    view: DecisionContext, given: Iterable[T], wrong: Callable[[DecisionContext, T], Problem | None]
) -> Parts[tuple[DecisionContext, Problem | None]]:
    """What is wrong with the first of these with which something is wrong."""
    for done, one in enumerate(given, 1):
        if (problem := wrong(view, one)) is not None:
            return view, problem
        if done % view.settings.partitions_at_once == 0:
            view = yield []
    return view, None


def partition_of(
    view: DecisionContext,
    known: Known,
    topic_id: bytes,
    number: int,
    replicas: tuple[int, ...],
) -> Partition | Problem:
    """A new partition with all active replicas in the ISR, led by the first of them. Of a thousand partitions most have
    the same replicas as others: what these mean is looked up once, and stands in ``known``."""
    if replicas not in known:
        active = tuple(r for r in replicas if view.image.is_active(r))
        known[replicas] = active, tuple(view.default_directory(r) for r in replicas)
    isr, directories = known[replicas]
    if not isr:  # only by hand: the placer gives every partition an active leader
        why = (
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
        return Problem(Code.INVALID_REPLICA_ASSIGNMENT, why)
    return Partition(topic_id, number, replicas, isr, leader=isr[0], directories=directories)


def made(
    view: DecisionContext, head: Sequence[Message], topic_id: bytes, first: int, placed: Placed
) -> Parts[tuple[DecisionContext, Prepared | Problem]]:
    """The records of ``head``, and those of the partitions ``first``.. of a topic."""
    found = Prepared([], packed=Builder() if too_large(head) is None else None)
    for record in head:
        found.add(record)
    run = Run(topic_id, len(head))
    known: Known = {}
    for number, replicas in enumerate(placed, first):
        partition = partition_of(view, known, topic_id, number, replicas)
        if isinstance(partition, Problem):
            return view, partition
        run.add(partition)
        found.add(to_record(partition))
        if len(run.partitions) % view.settings.partitions_at_once == 0:
            view = yield []
    found.runs = (run,)
    return view, found
