"""What one partition gives one reader: records, or why not; whole batches, never more than the reader may see.

Consumers read up to the high watermark, from any replica since version 11; followers up to the log's end, from the
leader only, and their position moves ISR and watermark. With read_committed they stop where an open transaction begins,
and are told which were aborted.
Source: KIP-207, KIP-320, KIP-392 (rack), KIP-595 (diverging epoch). Read next: ``replicas/fetch/reader.py``.
"""

from __future__ import annotations

from moldau.broker.replicas.fetch.partition import Data, FetchPartition, PartitionReader
from moldau.broker.replicas.lost import read_failed
from moldau.broker.replicas.replica import Replica
from moldau.model import Code
from moldau.replication.facts import FollowerFetch
from moldau.replication.roles import Role
from moldau.storage import LogError
from moldau.storage.log import Log
from moldau.storage.transactions import aborted_within
from moldau.storage.uncached import LOAD_BYTES, uncached
from moldau.wire.messages.k01_fetch import FetchResponse

FOLLOWERS_SERVE_FROM = 11
"""The first Fetch version whose consumers may read from followers (KIP-392)."""


def read(reader: PartitionReader, partition: FetchPartition, left: int, *, first: bool) -> Data:
    """Look at one partition: at most ``left`` bytes, unless this is the ``first`` that has any (KIP-74)."""
    replica = _replica(reader, partition)
    if isinstance(replica, Code):
        return _refused(partition, replica)
    try:
        return _read(reader, partition, replica, left, first=first)
    except LogError as error:
        read_failed(reader.replicas, replica, error)
        return _refused(partition, error.code)


def _read(reader: PartitionReader, partition: FetchPartition, replica: Replica, left: int, *, first: bool) -> Data:
    params = reader.params
    up_to = None
    if params.replica_id >= 0:
        code, diverging = _follower(reader, partition, replica)
    else:
        code, diverging = _consumer(reader, partition, replica)
        up_to = replica.machine.high_watermark
        if params.committed and code is Code.NONE:
            up_to = replica.log.producers.stable_offset(up_to)
    if code is not Code.NONE:
        return _refused(partition, code)
    data = _told(partition, replica, params.committed)
    if diverging is not None:
        data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        return data
    if params.rack and params.replica_id < 0:
        data.preferred_read_replica = _preferred(reader, partition, replica)
        if data.preferred_read_replica >= 0:
            return data
    throttles = reader.replicas.throttles
    throttled = throttles.leading.on and params.replica_id >= 0
    if throttled and throttles.holds_back(partition, replica, params.replica_id):
        return data
    if left > 0 or first:
        _add_records(data, partition, up_to, max(min(partition.max_bytes, left), 0), first=first)
        if throttled and data.records:
            throttles.sent(replica, len(data.records))
    return data


def _add_records(data: Data, partition: FetchPartition, up_to: int | None, limit: int, *, first: bool) -> None:
    """Put at most ``limit`` bytes of records into the answer, and which transactions of them were aborted; none yet
    while they are loaded from the disk."""
    reader, replica = partition.reader, partition.replica
    assert replica is not None, "it was found"
    if partition.loaded:
        partition.loaded, limit = False, min(limit, LOAD_BYTES)
    elif (load := uncached(replica.log, partition.fetch_offset, max(limit, 1))) is not None:
        if reader.loading:
            load.release()
        else:
            reader.load(partition, load)
        return
    # Perhaps only the name of bytes: nobody between here and the transport asks for more than their length.
    data.records = replica.log.slice(partition.fetch_offset, limit, up_to=up_to, at_least_one=first)  # type: ignore[assignment]
    if not data.records and limit < partition.max_bytes:
        partition.crowded_out = partition.fetch_offset < (replica.log.log_end_offset if up_to is None else up_to)
    if up_to is not None and reader.params.committed and data.records:
        data.aborted_transactions = _aborted(replica.log, partition.fetch_offset, up_to)


def nothing_new(partition: FetchPartition) -> Data:
    """The state of a partition that has nothing to read."""
    if partition.replica is None:
        return _refused(partition, Code.NOT_LEADER_OR_FOLLOWER)
    return _told(partition, partition.replica, partition.reader.params.committed)


def _replica(reader: PartitionReader, partition: FetchPartition) -> Replica | Code:
    """The replica, watched by the reader when that is a lasting one; a new one after delete and create, or where one
    that was offline is had after all."""
    replica = partition.replica
    if replica is not None and replica.machine.role not in (Role.REMOVED, Role.OFFLINE):
        return replica
    if any(partition.topic_id):
        found = reader.replicas.find_by_id(partition.topic_id, partition.number)
    else:
        found = reader.replicas.find(partition.topic, partition.number)
    if isinstance(found, Replica):
        partition.replica = found
        if reader.lasting:
            reader.watch(partition)
    else:
        partition.replica = None
    return found


def _follower(
    reader: PartitionReader, partition: FetchPartition, replica: Replica
) -> tuple[Code, tuple[int, int] | None]:
    if partition.reported:
        return replica.machine.check_epoch(partition.leader_epoch), None
    partition.reported = True
    # A follower drops what answers speak of an older epoch or position of its, and fetches anew: the watermark is told
    # again then, or a quiet partition's would stay behind for good (L3).
    partition.sent_high_watermark = -1
    fetch = FollowerFetch(
        reader.params.replica_id,
        reader.params.broker_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.leader_epoch,
        partition.log_start_offset,
        reader.asked_ms,
    )
    verdict = replica.machine.follower_fetched(fetch)
    if verdict.effects:
        reader.replicas.act(replica, verdict.effects)
    if replica.deletions:
        replica.complete_deletions()
    return verdict.code, verdict.diverging


def _consumer(
    reader: PartitionReader, partition: FetchPartition, replica: Replica
) -> tuple[Code, tuple[int, int] | None]:
    machine = replica.machine
    code = machine.check_epoch(partition.leader_epoch, leader_only=reader.params.version < FOLLOWERS_SERVE_FROM)
    if code is not Code.NONE:
        return code, None
    return machine.divergence(partition.last_fetched_epoch, partition.fetch_offset)


def _preferred(reader: PartitionReader, partition: FetchPartition, replica: Replica) -> int:
    """The follower in the reader's rack that holds the offset and is in sync, if this broker chooses by rack and is in
    another one; -1 where there is none. One out of sync may lag for good, and its readers with it (KAFKA-14372).
    """
    replicas, machine = reader.replicas, replica.machine
    selector = replicas.deps.config["replica.selector.class"]
    if not selector or not selector.endswith("RackAwareReplicaSelector") or machine.role is not Role.LEADER:
        return -1
    brokers, rack = replicas.image.brokers, reader.params.rack
    own = brokers.get(replicas.me)
    if own is not None and own.rack == rack:
        return -1
    best, best_end = -1, -1
    for id, progress in machine.followers.items():
        broker = brokers.get(id)
        if broker is None or broker.fenced or broker.rack != rack or broker.endpoint(reader.params.listener) is None:
            continue
        if id not in machine.isr:
            continue
        if progress.log_start <= partition.fetch_offset <= progress.leo and progress.leo > best_end:
            best, best_end = id, progress.leo
    return best


def _told(partition: FetchPartition, replica: Replica, committed: bool) -> Data:
    high = replica.machine.high_watermark
    producers = replica.log.known_producers
    return Data(
        partition_index=partition.number,
        high_watermark=high,
        last_stable_offset=high if producers is None else producers.stable_offset(high),
        log_start_offset=replica.log.log_start_offset,
        aborted_transactions=[] if committed else None,
        records=b"",
    )


def _aborted(log: Log, start: int, end: int) -> list[FetchResponse.AbortedTransaction]:
    """The aborted transactions that may have records between two offsets."""
    return [
        FetchResponse.AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in aborted_within(log, start, end)
    ]


def _refused(partition: FetchPartition, code: Code) -> Data:
    return Data(
        partition_index=partition.number, error_code=code, high_watermark=-1, aborted_transactions=None, records=b""
    )
