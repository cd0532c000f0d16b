"""Why a broker should not stop now: the partitions that would be without leader, or would take no acks=all.

Asked by ``moldau broker stop`` and ``roll`` (of what a client sees), and by a node's /safe-to-restart (of its image).
Decides only from replicas and ISRs as they are given; a majority of controllers is judged by whoever knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from moldau.model.counted import counted

NAMED_MAX = 5
"""Partitions named in a reason; of more the number is told."""

PartitionReplicas = tuple[str, int, Sequence[int], Sequence[int]]
"""A partition: topic, number, replicas, ISR."""


def reasons_not_to_stop(
    broker: int, partitions: Iterable[PartitionReplicas], min_isr: Callable[[str], int], *, only_copies: bool = True
) -> list[str]:
    """The reasons in words; an empty list says that no client would notice. ``min_isr``: a topic's min.insync.replicas.

    A partition with one replica is as its owner wanted it. ``only_copies`` says whether that is a reason all the same,
    because its records cannot be had meanwhile: for a person who asks it is, for a machine that waits it would be one
    for ever.
    """
    leaderless, under_min_isr = [], []
    for topic, number, replicas, isr in partitions:
        rest = [replica for replica in isr if replica != broker]
        if broker not in isr or (len(replicas) == 1 and not only_copies):
            continue
        if not rest:
            leaderless.append((topic, number))
        elif len(rest) < min(min_isr(topic), len(replicas)):
            under_min_isr.append((topic, number))
    reasons = []
    if leaderless:
        would = counted(len(leaderless), "partition would", "partitions would")
        reasons.append(f"{would} have no leader: nobody else is in sync: {_some(leaderless)}")
    if under_min_isr:
        some = f"{counted(len(under_min_isr), 'partition')} would refuse acks=all"
        reasons.append(f"{some}: min.insync.replicas: {_some(under_min_isr)}")
    return reasons


def _some(partitions: list[tuple[str, int]]) -> str:
    named = [f"{topic}-{number}" for topic, number in sorted(partitions)[:NAMED_MAX]]
    return ", ".join(named) + (f" and {len(partitions) - NAMED_MAX} more" if len(partitions) > NAMED_MAX else "")
