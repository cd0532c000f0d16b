"""What the replicas of a partition hold on disk once their nodes are stopped, and whether it is the same.

Reads segment files with the offline reader; changes nothing. Rules, with the ids of the laws: S4, S5 replicas are equal
byte for byte up to the high watermark, S14 epochs go up along the log and the epoch checkpoint equals the log's
epochs, S16 sequences of a producer follow each other. The comparing functions are pure. Read next: ``moldau.history``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from moldau.history.checks import DUPLICATED, INCONSISTENT, LOST, Anomaly
from moldau.history.rows import Read
from moldau.history.sessions import Session
from moldau.runtime.disk import RealDisk
from moldau.storage.errors import LogError
from moldau.storage.reader import batches, epochs_of
from moldau.wire.batch import records

DIVERGED, SHORT, UNSOUND, EPOCHS, SEQUENCE = "diverged", "short replica", "unsound batch", "epochs", "sequence gap"
_SEQUENCES = 1 << 31


class Stored(NamedTuple):
    """One batch on disk. ``digest`` is over all its bytes; ``sound`` says whether its checksum is right."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    digest: bytes
    sound: bool = True
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class StoredReplica(NamedTuple):
    """A partition as one node holds it. ``problems`` says where its files do not parse."""

    node: int
    batches: list[Stored]
    epochs: list[tuple[int, int]]
    problems: list[str]

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0


def read_replica(node: int, folder: Path) -> StoredReplica:
    """The replica in a partition's folder; one that cannot be read at all has no batches and a problem."""
    disk = RealDisk()
    problems: list[str] = []
    try:
        found = [
            Stored(
                batch.header.base_offset,
                batch.header.next_offset,
                batch.header.leader_epoch,
                batch.header.crc,
                blake2b(batch.data, digest_size=16).digest(),
                batch.sound,
                batch.header.producer_id,
                batch.header.producer_epoch,
                batch.header.base_sequence,
            )
            for batch in batches(disk, str(folder), problems=problems)
        ]
        return StoredReplica(node, found, epochs_of(disk, str(folder)), problems)
    except (OSError, LogError) as error:
        return StoredReplica(node, [], [], [*problems, str(error)])


def read_values(folder: Path, partition: int, until: int) -> list[Read]:
    """The records of a folder below an offset, as a reader would have been given them; values as text."""
    found = []
    for batch in batches(RealDisk(), str(folder)):
        if not batch.header.is_control:
            found += [
                Read("disk", partition, record.offset, (record.value or b"").decode())
                for record in records(batch.data)
                if record.offset < until
            ]
    return found


def sessions_of(replica: StoredReplica, partition: int) -> dict[tuple[int, int], Session]:
    """Who wrote each record of a replica: (partition, offset) -> producer id and epoch."""
    return {
        (partition, offset): (batch.producer_id, batch.producer_epoch)
        for batch in replica.batches
        for offset in range(batch.base_offset, batch.next_offset)
    }


def compare(name: str, replicas: Sequence[StoredReplica], until: int) -> Iterator[Anomaly]:
    """S4, S5: each replica holds every batch below ``until`` (the high watermark), equal to the first one's."""
    for replica in replicas:
        for problem in replica.problems:
            yield Anomaly(UNSOUND, f"{name} on node {replica.node}: {problem}")
        for batch in replica.batches:
            if not batch.sound:
                yield Anomaly(UNSOUND, f"{name} on node {replica.node}: bad checksum at offset {batch.base_offset}")
        if replica.end < until:
            yield Anomaly(SHORT, f"{name} on node {replica.node} ends at {replica.end}, the high watermark is {until}")
    start = max((r.batches[0].base_offset for r in replicas if r.batches), default=0)  # snapshots cut where they like
    first, *others = replicas
    for other in others:
        yield from _compare_two(name, (first, other), (start, until))


def _compare_two(name: str, pair: tuple[StoredReplica, StoredReplica], span: tuple[int, int]) -> Iterator[Anomaly]:
    one, other = (
        {b.base_offset: b for b in replica.batches if b.next_offset > span[0] and b.base_offset < span[1]}
        for replica in pair
    )
    reach = min(pair[0].end, pair[1].end)
    for offset in sorted(one.keys() | other.keys()):
        here, there = one.get(offset), other.get(offset)
        if here == there or (offset >= reach and (here is None or there is None)):  # the rest is reported as short
            continue
        where = f"{name} at offset {offset}: node {pair[0].node} and node {pair[1].node}"
        if here is None or there is None:
            yield Anomaly(DIVERGED, f"{where} do not both have a batch there")
        elif (here.leader_epoch, here.crc) != (there.leader_epoch, there.crc):
            theirs = f"epochs {here.leader_epoch} and {there.leader_epoch}, checksums {here.crc:x} and {there.crc:x}"
            yield Anomaly(DIVERGED, f"{where} have {theirs}")
        else:
            yield Anomaly(DIVERGED, f"{where} have other bytes in the same batch")


def epochs_in_order(name: str, replica: StoredReplica) -> Iterator[Anomaly]:
    """S14: epochs never go down along the log, nor offsets; and each epoch's start is in the checkpoint."""
    starts: list[tuple[int, int]] = []
    end = replica.batches[0].base_offset if replica.batches else 0
    for batch in replica.batches:
        if batch.base_offset < end:
            yield Anomaly(EPOCHS, f"{name} on node {replica.node}: offset {batch.base_offset} after {end - 1}")
        end = batch.next_offset
        if not starts or batch.leader_epoch > starts[-1][0]:
            starts.append((batch.leader_epoch, batch.base_offset))
        elif batch.leader_epoch < starts[-1][0]:
            text = f"epoch {batch.leader_epoch} after {starts[-1][0]} at offset {batch.base_offset}"
            yield Anomaly(EPOCHS, f"{name} on node {replica.node}: {text}")
    missing = sorted(set(starts) - set(replica.epochs))
    if missing:  # a leader may have noted epochs in which nothing was written: more is right, less is not
        text = f"the checkpoint says {replica.epochs} and not {missing}, which the log says"
        yield Anomaly(EPOCHS, f"{name} on node {replica.node}: {text}")
    if replica.epochs != sorted(set(replica.epochs)) or len({e for e, _ in replica.epochs}) != len(replica.epochs):
        yield Anomaly(EPOCHS, f"{name} on node {replica.node}: the checkpoint {replica.epochs} does not go up")


def sequences_in_order(name: str, replica: StoredReplica) -> Iterator[Anomaly]:
    """S16: a producer's batches, within its epoch, number their records without a gap and none twice."""
    expected: dict[tuple[int, int], int] = {}
    for batch in replica.batches:
        if batch.producer_id < 0 or batch.base_sequence < 0:
            continue
        session = (batch.producer_id, batch.producer_epoch)
        wanted = expected.get(session, batch.base_sequence)
        expected[session] = (batch.base_sequence + batch.next_offset - batch.base_offset) % _SEQUENCES
        if batch.base_sequence == wanted:
            continue
        kind = DUPLICATED if batch.base_sequence < wanted else SEQUENCE
        text = f"producer {session[0]} epoch {session[1]} has sequence {batch.base_sequence}, {wanted} is due"
        yield Anomaly(kind, f"{name} on node {replica.node}, offset {batch.base_offset}: {text}")


def same_values(name: str, stored: Iterable[Read], read: Iterable[Read]) -> Iterator[Anomaly]:
    """What a reader was given is what the disk holds: nothing withheld, nothing invented."""
    on_disk = {row.offset: row.value for row in stored}
    given = {row.offset: row.value for row in read}
    for offset in sorted(on_disk.keys() | given.keys()):
        if offset not in given:
            yield Anomaly(LOST, f"{name} at offset {offset}: {on_disk[offset]} is on disk and was not read")
        elif on_disk.get(offset) != given[offset]:
            text = f"{given[offset]} was read, the disk holds {on_disk.get(offset)}"
            yield Anomaly(INCONSISTENT, f"{name} at offset {offset}: {text}")


def check_folders(name: str, folders: Mapping[int, Path], until: int) -> list[Anomaly]:
    """Every anomaly among the replicas of one partition: node -> its folder, of nodes that are stopped."""
    replicas = [read_replica(node, folder) for node, folder in sorted(folders.items())]
    found = list(compare(name, replicas, until))
    for replica in replicas:
        found += epochs_in_order(name, replica)
        found += sequences_in_order(name, replica)
    return found
