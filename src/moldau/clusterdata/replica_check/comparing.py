"""The replicas of one partition, compared batch by batch in step: nothing is kept but one batch of each.

Followers keep the batches of their leader as they came, so offsets, epoch, length and checksum must all be the same.
The first difference is where a replica diverged; what comes after it is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from moldau.model.counted import counted
from moldau.model.named import NamedTuple


class ReplicaVerdict(Enum):
    """What is said of a replica, the worse the later."""

    OK = "OK"
    LAGGING = "LAGGING"
    UNREACHABLE = "UNREACHABLE"
    MISSING = "MISSING"
    DIVERGED = "DIVERGED"


class ComparedBatch(NamedTuple):
    """What is compared of a batch. ``sound``: whether its checksum is that of its bytes."""

    base_offset: int
    last_offset: int
    epoch: int
    size: int
    crc: int
    sound: bool = True


class ReplicaFinding(NamedTuple):
    """The verdict on one replica; ``offset`` is where it diverged, or ends. ``compared_to`` is the offset before which
    the replicas were compared; None where none was."""

    replica: int
    verdict: ReplicaVerdict
    offset: int | None = None
    detail: str = ""
    compared_to: int | None = None


def compare(
    replicas: Mapping[int, Iterator[ComparedBatch]],
    until: int,
    first: int | None = None,
    begun: Mapping[int, int] | None = None,
) -> list[ReplicaFinding]:
    """A finding on each replica, in the order given.

    Args:
        replicas: the batches of each, from the batch that holds one and the same offset on.
        until: the offset before which all must agree: the high watermark.
        first: the replica that is right when two differ, as the leader is; else the first that has a batch there.
        begun: where each ends if it has no batch; 0 without.
    """
    found: dict[int, ReplicaFinding] = {}
    heads = {id: next(batches, None) for id, batches in replicas.items()}
    reached = dict.fromkeys(replicas, 0) | dict(begun or {})
    while True:
        while (same := _agreed(list(heads.values()), until)) is not None:  # nearly always: none has to be told apart
            reached.update(dict.fromkeys(heads, same.last_offset + 1))
            heads = {id: next(replicas[id], None) for id in heads}
        for id, batch in list(heads.items()):
            if batch is not None and batch.base_offset < until and not batch.sound:
                found[id] = ReplicaFinding(id, ReplicaVerdict.DIVERGED, batch.base_offset, "its checksum is wrong")
                del heads[id]
        with_batch = [id for id, batch in heads.items() if batch is not None and batch.base_offset < until]
        if not with_batch:
            break
        right = heads[first if first in with_batch else with_batch[0]]
        assert right is not None
        for id, batch in list(heads.items()):
            if batch is None or (batch.base_offset >= until and batch.base_offset > right.base_offset):
                behind = until - reached[id]
                found[id] = _short(id, batch, right, reached[id], f"{counted(behind, 'offset')} behind")
                del heads[id]
            elif batch != right:
                at = min(batch.base_offset, right.base_offset)
                found[id] = ReplicaFinding(id, ReplicaVerdict.DIVERGED, at, difference(batch, right))
                del heads[id]
            else:
                reached[id] = batch.last_offset + 1
                heads[id] = next(replicas[id], None)
    return [found.get(id, ReplicaFinding(id, ReplicaVerdict.OK))._replace(compared_to=until) for id in replicas]


def compare_records(
    replicas: Mapping[int, Iterator[tuple[int, object]]], until: int, first: int
) -> list[ReplicaFinding]:
    """A finding on each replica of a log that was compacted, each at another point: of every record, (offset, what it
    is), those that have it must have the same; ``first`` is right where it has it."""
    found: dict[int, ReplicaFinding] = {}
    heads = {id: next(records, None) for id, records in replicas.items()}
    while offsets := [head[0] for head in heads.values() if head is not None and head[0] < until]:
        at = min(offsets)
        here = {id: head[1] for id, head in heads.items() if head is not None and head[0] == at}
        right = here.get(first, next(iter(here.values())))
        for id, record in here.items():
            if record == right:
                heads[id] = next(replicas[id], None)
            else:
                found[id] = ReplicaFinding(id, ReplicaVerdict.DIVERGED, at, "another record")
                del heads[id]
    return [
        found.get(id, ReplicaFinding(id, ReplicaVerdict.OK, None, BY_RECORD))._replace(compared_to=until)
        for id in replicas
    ]


def _agreed(batches: list[ComparedBatch | None], until: int) -> ComparedBatch | None:
    """The batch that all of them are, sound and not beyond the end; None where anything is otherwise."""
    first = batches[0] if batches else None
    if first is None or not first.sound or first.base_offset >= until or batches.count(first) != len(batches):
        return None
    return first


BY_RECORD = "compacted: records that several replicas have are the same"


def _short(id: int, batch: ComparedBatch | None, right: ComparedBatch, reached: int, behind: str) -> ReplicaFinding:
    """A replica that has no batch where another has one: it ends there, or has a hole."""
    if batch is None:
        return ReplicaFinding(id, ReplicaVerdict.LAGGING, reached, behind)
    return ReplicaFinding(id, ReplicaVerdict.DIVERGED, right.base_offset, "it has no batch there")


def difference(batch: ComparedBatch, right: ComparedBatch) -> str:
    """What differs, in words."""
    if batch.base_offset != right.base_offset or batch.last_offset != right.last_offset:
        return f"offsets {batch.base_offset}-{batch.last_offset} instead of {right.base_offset}-{right.last_offset}"
    if batch.epoch != right.epoch:
        return f"leader epoch {batch.epoch} instead of {right.epoch}"
    return "other bytes" if batch.crc != right.crc else f"{counted(batch.size, 'byte')} instead of {right.size:,}"
