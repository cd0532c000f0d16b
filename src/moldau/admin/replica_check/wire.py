"""Replicas as their brokers serve them: each broker is asked itself, as a consumer that reads from followers (KIP-392).

What is compared ends at the leader's high watermark of the beginning. A follower learns of it a moment later, so one
that has no more to give is asked again for a while before it is said to lag.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from moldau.client.client import ForNode
from moldau.client.reading import EARLIEST, FetchOptions, fetch_request, fetch_version_bound
from moldau.client.sync import Cluster
from moldau.client.view import Partition
from moldau.clusterdata.replica_check.comparing import (
    ComparedBatch,
    ReplicaFinding,
    ReplicaVerdict,
    compare,
    compare_records,
)
from moldau.clusterdata.replica_check.folders import ReadPace
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted
from moldau.wire.batch import BatchHeader, check, headers, records
from moldau.wire.codec import Buffer
from moldau.wire.compression import BatchError
from moldau.wire.messages.k01_fetch import FetchResponse

PATIENCE_S = 5.0
ASK_MS = 10_000
FETCH = FetchOptions(max_bytes=4 << 20, max_wait_ms=200)
FIRST = FetchOptions(max_bytes=4 << 20, max_wait_ms=0)
"""The first fetch does not wait: an empty partition has nothing however long one waits, and there may be thousands."""
THROTTLED_S = 60.0
"""How long a quota of this client's may hold it up in one fetch (KIP-219: the answer names no partition)."""
SILENT_S = 60.0
"""How long a broker that did not answer is left alone: each time costs ASK_MS, and it may have many replicas."""
_AWAY = frozenset({
    Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR,
    Code.REPLICA_NOT_AVAILABLE,
})  # fmt: skip


class ReplicaUnreadable(Exception):
    """A replica cannot be read; the finding says why."""

    def __init__(self, finding: ReplicaFinding) -> None:
        super().__init__(finding.detail)
        self.finding = finding


Silent = dict[int, tuple[float, str]]
"""Brokers that did not answer: until when they are left alone, and what was wrong."""


class Remote:
    """One replica, as its broker serves it."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, broker: int, pace: ReadPace, silent: Silent | None = None
    ) -> None:
        self._silent: Silent = {} if silent is None else silent
        self._cluster = cluster
        self._partition = partition
        self._broker = broker
        self._pace = pace
        self.failed: ReplicaFinding | None = None
        self.reached = 0
        """The offset up to which it was read."""
        self.compacted = False
        """Whether offsets are missing in what was read, as after a compaction."""

    def fetch(
        self, offset: int, options: FetchOptions = FETCH, throttled_s: float = THROTTLED_S
    ) -> FetchResponse.PartitionData:
        """What the broker answers from an offset on; ReplicaUnreadable when it cannot be had."""
        until, why = self._silent.get(self._broker, (0.0, ""))
        if time.monotonic() < until:
            raise ReplicaUnreadable(ReplicaFinding(self._broker, ReplicaVerdict.UNREACHABLE, None, why))
        client = self._cluster.client
        request = fetch_request(client, self._partition, offset, options)
        request.topics[0].partitions[0].current_leader_epoch = -1
        try:
            answer = self._cluster.run(
                client.ask(
                    request,
                    ForNode(self._broker),
                    again=frozenset(),
                    highest=fetch_version_bound(request),
                    timeout_ms=ASK_MS,
                    request_timeout_ms=ASK_MS,
                )
            )
        except OSError as error:
            self._silent[self._broker] = time.monotonic() + SILENT_S, str(error)
            raise ReplicaUnreadable(
                ReplicaFinding(self._broker, ReplicaVerdict.UNREACHABLE, None, str(error))
            ) from None
        if not answer.error_code and not answer.responses and throttled_s > 0:  # over a quota: nothing was read
            time.sleep(max(answer.throttle_time_ms / 1000, 0.1))
            return self.fetch(offset, options, throttled_s - max(answer.throttle_time_ms / 1000, 0.1))
        if answer.error_code or not answer.responses:
            raise ReplicaUnreadable(
                ReplicaFinding(self._broker, ReplicaVerdict.UNREACHABLE, None, Code(answer.error_code).name)
            )
        part: FetchResponse.PartitionData = answer.responses[0].partitions[0]
        if Code(part.error_code) in _AWAY:
            raise ReplicaUnreadable(
                ReplicaFinding(self._broker, ReplicaVerdict.MISSING, None, Code(part.error_code).name)
            )
        return part

    def batches(self, start: int, until: int) -> Iterator[ComparedBatch]:
        """Its batches from an offset on; the end of what it has, or can give, is the end."""
        for data, position, header in self._read(start, until):
            sound = not check(data, position, header)
            yield ComparedBatch(
                header.base_offset, header.last_offset, header.leader_epoch, header.size, header.crc, sound
            )

    def records(self, start: int, until: int) -> Iterator[tuple[int, object]]:
        """Its records from an offset on; the end of what it has, or can give, is the end, and so is damage."""
        for data, position, header in self._read(start, until):
            try:
                if check(data, position, header):
                    raise BatchError("its checksum is wrong")
                found = list(records(data, position))
            except BatchError as error:
                self.failed = ReplicaFinding(self._broker, ReplicaVerdict.DIVERGED, header.base_offset, str(error))
                return
            for one in found:
                if one.offset >= start:
                    yield one.offset, (header.leader_epoch, *one)

    def _read(self, start: int, until: int) -> Iterator[tuple[Buffer, int, BatchHeader]]:
        """Bytes, and in them the place and the header of each batch from an offset on."""
        offset, deadline = start, time.monotonic() + PATIENCE_S
        while offset < until:
            try:
                part = self.fetch(offset)
            except ReplicaUnreadable as failed:
                self.failed = failed.finding
                return
            data = b"" if part.records is None else part.records
            self._pace.read(len(data))
            before = offset
            for position, header in headers(data):
                if header.last_offset < offset:
                    continue
                if header.base_offset > offset or header.count != header.last_offset - header.base_offset + 1:
                    self.compacted = True
                yield data, position, header
                offset = self.reached = header.next_offset
            if offset > before:
                deadline = time.monotonic() + PATIENCE_S
            elif part.error_code:
                self.failed = self._refused(offset, Code(part.error_code))
                return
            elif time.monotonic() > deadline:
                return

    def _refused(self, offset: int, code: Code) -> ReplicaFinding:
        """What it means that the broker gives an error instead of the records that begin at an offset."""
        if code is Code.CORRUPT_MESSAGE:  # a broker of Moldau sends nothing of which the checksum is wrong
            return ReplicaFinding(
                self._broker, ReplicaVerdict.DIVERGED, offset, "damaged on its disk (CORRUPT_MESSAGE)"
            )
        if code is Code.OFFSET_OUT_OF_RANGE:
            return ReplicaFinding(
                self._broker, ReplicaVerdict.LAGGING, offset, "its log does not reach there (OFFSET_OUT_OF_RANGE)"
            )
        return ReplicaFinding(self._broker, ReplicaVerdict.UNREACHABLE, offset, code.name)


def verify(
    cluster: Cluster, partition: TopicPartition, known: Partition, pace: ReadPace, *, compacted: bool, silent: Silent
) -> list[ReplicaFinding]:
    """Compare the replicas of a partition up to its leader's high watermark.

    Compacted logs differ in their batches by right: of such only checksums are looked at, each replica for itself. A
    topic may have been compacted before its policy was changed: where batches differ and offsets are missing, records
    are compared instead.
    """
    remotes = {id: Remote(cluster, partition, id, pace, silent) for id in known.replicas}
    failed: dict[int, ReplicaFinding] = {}
    starts, until = [0], 0
    begin: int | None = None
    for id, remote in remotes.items():
        try:
            part = remote.fetch(0, FIRST)
            if part.error_code == Code.OFFSET_OUT_OF_RANGE:  # such an answer does not say where its log begins
                begin = _first_offset(cluster, partition) if begin is None else begin
                part = remote.fetch(begin, FIRST)
                starts.append(begin)
            starts.append(part.log_start_offset)
            if id == known.leader:
                if part.high_watermark < 0:
                    raise ReplicaUnreadable(
                        ReplicaFinding(id, ReplicaVerdict.UNREACHABLE, begin, Code(part.error_code).name)
                    )
                until = part.high_watermark
        except ReplicaUnreadable as error:
            failed[id] = error.finding
    if known.leader not in remotes or known.leader in failed:
        text = "its leader cannot be read, so nobody says up to where"
        return [failed.get(id, ReplicaFinding(id, ReplicaVerdict.UNREACHABLE, None, text)) for id in known.replicas]
    alive = [id for id in known.replicas if id not in failed]
    start = max(starts)
    groups: Sequence[Sequence[int]] = [[id] for id in alive] if compacted else [alive]
    for group in groups:
        walks = {id: remotes[id].batches(start, until) for id in group}
        found = compare(walks, until, known.leader, dict.fromkeys(group, start))
        differ = any(one.verdict is ReplicaVerdict.DIVERGED for one in found)
        if differ and any(remotes[id].compacted for id in group):
            again = {id: Remote(cluster, partition, id, pace, silent) for id in group}
            found = compare_records({id: again[id].records(start, until) for id in group}, until, known.leader)
            found = [_reaching(one, again[one.replica].reached, until) for one in found]
            remotes |= again
        for finding in found:
            failed[finding.replica] = remotes[finding.replica].failed or finding
    return [failed[id] for id in known.replicas]


def _first_offset(cluster: Cluster, partition: TopicPartition) -> int:
    """Where the leader's log begins; 0 when nobody says."""
    try:
        found = cluster.offsets({partition: EARLIEST})[partition]
    except OSError:
        return 0
    return max(found.offset, 0)


def _reaching(finding: ReplicaFinding, reached: int, until: int) -> ReplicaFinding:
    """The finding, or that the replica ends before what was to be compared."""
    if finding.verdict is ReplicaVerdict.OK and reached < until:
        behind = f"{counted(until - reached, 'offset')} behind"
        return finding._replace(verdict=ReplicaVerdict.LAGGING, offset=reached, detail=behind)
    return finding
