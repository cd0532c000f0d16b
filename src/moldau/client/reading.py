"""Offsets and records of partitions: ListOffsets, Fetch of one partition, OffsetForLeaderEpoch.

Gives whole record batches as one view of the response, never records: whoever needs those has moldau.wire.batch.
Knows no groups (groups.py) and keeps no position beyond one ``fetch_range``.
Sources: KIP-79, KIP-98 (aborted transactions), KIP-320, KIP-392 (nearest replica), KIP-516. Read next: sync.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence

from moldau.client.client import Client
from moldau.model import NO_UUID, Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.model.value import replace, value
from moldau.wire import batch, message_sets
from moldau.wire.compression import BatchError, Buffer
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from moldau.wire.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Timestamps that are none: the end of the log (for read committed: the last stable offset), its start, and the record
with the largest timestamp (KIP-734)."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1

_LAST_WITHOUT_IDS = 12  # of Fetch: from 13 on topics are named by id only


class Offset(NamedTuple):
    """An answer of ListOffsets; offset -1 when no record is that young. ``timestamp`` is that of the found record."""

    code: Code
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


class EpochEnd(NamedTuple):
    """Where an epoch's records end on the leader (-1: it does not know the epoch)."""

    code: Code
    leader_epoch: int = -1
    end_offset: int = -1


class Fetched(NamedTuple):
    """An answer of Fetch: whole batches, which may begin before the asked offset, and where the log stands.

    ``aborted`` are (producer id, first offset) of aborted transactions in ``records``, with read committed only.
    ``next_offset`` is where to go on; ``batches`` is where each batch of ``records`` begins, so that nobody need walk
    them again.
    """

    code: Code
    records: memoryview
    next_offset: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()
    batches: Sequence[int] | None = None


@value(kw_only=True)
class FetchOptions:
    """How to fetch one partition. ``topic_id``, when given, must be the topic's id still (else UNKNOWN_TOPIC_ID)."""

    max_bytes: int = 4 << 20
    max_wait_ms: int = 500
    min_bytes: int = 1
    isolation: int = READ_UNCOMMITTED
    rack: str = ""
    topic_id: bytes | None = None


FETCH = FetchOptions()


async def list_offsets(
    client: Client,
    asked: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Offset]:
    """For each partition the offset of the first record at least as young as a timestamp (ms), or LATEST, EARLIEST."""

    def build(partitions: list[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
        for p in partitions:
            part = ListOffsetsRequest.ListOffsetsPartition(partition_index=p.partition, timestamp=asked[p])
            topics.setdefault(p.topic, []).append(part)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=ps) for name, ps in topics.items()],
            timeout_ms=client.options.api_timeout_ms,
        )

    def read(response: ListOffsetsResponse) -> dict[TopicPartition, tuple[int, Offset]]:
        return {
            TopicPartition(topic.name, p.partition_index): (
                p.error_code,
                Offset(Code(p.error_code), p.offset, p.timestamp, p.leader_epoch),
            )
            for topic in response.topics
            for p in topic.partitions
        }

    answers = await client.per_leader(asked, build, read, timeout_ms=timeout_ms)
    return {p: found if found is not None else Offset(code) for p, (code, found) in answers.items()}


async def epoch_ends(client: Client, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    """For each partition where the given leader epoch ends: how a reader notices that its records were truncated."""

    def build(partitions: list[TopicPartition]) -> OffsetForLeaderEpochRequest:
        kind = OffsetForLeaderEpochRequest
        topics: dict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]] = {}
        for p in partitions:
            part = kind.OffsetForLeaderPartition(partition=p.partition, leader_epoch=asked[p])
            topics.setdefault(p.topic, []).append(part)
        return kind(
            replica_id=-1, topics=[kind.OffsetForLeaderTopic(topic=name, partitions=ps) for name, ps in topics.items()]
        )

    def read(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, tuple[int, EpochEnd]]:
        return {
            TopicPartition(topic.topic, p.partition): (
                p.error_code,
                EpochEnd(Code(p.error_code), p.leader_epoch, p.end_offset),
            )
            for topic in response.topics
            for p in topic.partitions
        }

    answers = await client.per_leader(asked, build, read)
    return {p: found if found is not None else EpochEnd(code) for p, (code, found) in answers.items()}


def fetch_request(client: Client, source: TopicPartition, offset: int, options: FetchOptions) -> FetchRequest:
    """A Fetch of one partition, outside any session, that names the topic both ways."""
    topic_id = client.view.topic_id(source.topic) if options.topic_id is None else options.topic_id
    part = FetchRequest.FetchPartition(
        partition=source.partition, current_leader_epoch=client.view.leader_epoch(source),
        fetch_offset=offset, partition_max_bytes=options.max_bytes,
    )  # fmt: skip
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=options.isolation,
        topics=[FetchRequest.FetchTopic(topic=source.topic, topic_id=topic_id, partitions=[part])],
        rack_id=options.rack,
    )


def fetch_version_bound(request: FetchRequest) -> int | None:
    """The highest version in which a fetch can be sent: topics without ids must be named."""
    return _LAST_WITHOUT_IDS if any(topic.topic_id == NO_UUID for topic in request.topics) else None


def read_partition(part: FetchResponse.PartitionData, offset: int) -> Fetched | int:
    """What came for a partition that was asked from ``offset``; or, a number, the size of a batch that did not fit.

    Messages of the formats v0 and v1 are given as batches of v2. BatchError when such a message is corrupt, or when the
    size is none that a batch can have: asked for again, it would be the same for ever.
    """
    records = part.records if part.records is not None else _NOTHING
    places = batch.positions(records)
    if (old := message_sets.first_old(records, places)) is not None:
        turned = _turned(records, old, offset)
        if isinstance(turned, int):
            return turned
        records = turned
        places = batch.positions(records)
    *batches, end = places
    if not end and len(records) >= batch.HEADER_SIZE:
        size = batch.read_header(records).size
        if size < batch.HEADER_SIZE:
            raise BatchError(f"the batch after offset {offset} claims a size of {size} bytes")
        return size
    following = max(offset, batch.read_header(records, batches[-1]).next_offset) if batches else offset
    return Fetched(
        Code(part.error_code), memoryview(records)[:end], following, part.high_watermark, part.last_stable_offset,
        part.log_start_offset, tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ()), batches,
    )  # fmt: skip


def _turned(records: Buffer, at: int, offset: int) -> bytes | int:
    """What came from ``offset`` on, of which a message of an old format begins at ``at``, as batches of v2; the size of
    that message when nothing came whole. Batches behind the messages, and messages that are more than is made at once,
    are left out, and asked for again.
    """
    before, old = memoryview(records)[:at], memoryview(records)[at:]
    found = message_sets.as_batches(old, offset)
    return b"".join((before, found)) if before or found else message_sets.first_size(old)


class UnreadableBatch(BatchError):
    """A batch whose records cannot be had: the message says of which offsets, and why.

    ``next_offset`` is where reading can go on behind it.
    """

    def __init__(self, header: batch.BatchHeader, why: str) -> None:
        super().__init__(f"the batch of offsets {header.base_offset} to {header.last_offset} cannot be read: {why}")
        self.next_offset = header.next_offset


def visible(
    fetched: Fetched, start: int, end: int | None = None, *, isolation: int = READ_UNCOMMITTED
) -> Iterator[batch.Record]:
    """The records of an answer from offset ``start`` to before ``end``, without control records.

    With READ_COMMITTED also without those of aborted transactions. UnreadableBatch when a batch fails its checksum or
    cannot be read.
    """
    aborted = sorted(fetched.aborted, key=lambda one: one[1], reverse=True)
    open_: set[int] = set()
    for position, header in batch.headers(fetched.records):
        if header.next_offset <= start and not aborted and not open_:
            continue
        if end is not None and header.base_offset >= end:
            return
        if batch.check(fetched.records, position, header) is not Code.NONE:
            raise UnreadableBatch(header, "its checksum is wrong")
        while aborted and aborted[-1][1] <= header.last_offset:
            open_.add(aborted.pop()[0])
        if header.is_control:
            for record in _records(fetched, position, header):
                if batch.control_type(record.key) == batch.ControlType.ABORT:
                    open_.discard(header.producer_id)
            continue
        if isolation == READ_COMMITTED and header.is_transactional and header.producer_id in open_:
            continue
        for record in _records(fetched, position, header):
            if record.offset >= start and (end is None or record.offset < end):
                yield record


def _records(fetched: Fetched, position: int, header: batch.BatchHeader) -> Iterator[batch.Record]:
    try:
        yield from batch.records(fetched.records, position)
    except BatchError as error:
        raise UnreadableBatch(header, str(error)) from error


class _Reader:
    """Fetches one partition, from its leader or from the replica that the leader recommends."""

    def __init__(self, client: Client, source: TopicPartition, options: FetchOptions) -> None:
        self.client = client
        self.source = source
        self.options = options
        self.replica: int | None = None

    async def send(self, offset: int, max_bytes: int | None = None) -> Awaitable[FetchResponse]:
        """Ask; OSError when the one to ask is unknown or cannot be reached."""
        client, options = self.client, self.options
        if max_bytes is not None:
            options = replace(options, max_bytes=max_bytes)
        await client.know_leaders([self.source])
        node_id = self.replica if self.replica is not None else client.view.leader(self.source)
        if node_id is None:
            raise ConnectionError(f"{self.source} has no leader that is known")
        # Before the connection stands, and others may lead: who is asked is asked under its own epoch (KIP-320).
        request = fetch_request(client, self.source, offset, options)
        line = await client.line(node_id)
        version = line.version_for(FetchRequest, fetch_version_bound(request))
        return line.ask(request, version=version)

    def read(self, response: FetchResponse, offset: int) -> Fetched | int:
        """What came; or, as a number, the size of a first batch that did not fit.

        A client over its quota is answered without any partition (KIP-219): nothing came, and no offset is known.
        """
        if response.error_code != Code.NONE or not response.responses:
            return Fetched(Code(response.error_code), _NOTHING, offset)
        part = response.responses[0].partitions[0]
        got = read_partition(part, offset)
        if isinstance(got, Fetched) and not got.records and part.preferred_read_replica >= 0:
            self.replica = part.preferred_read_replica
        return got

    async def complete(self, asked: Awaitable[FetchResponse] | None, offset: int) -> Fetched:
        """The answer to ``asked``; asks again until one stands. Codes that no other try will mend are in the answer."""
        patience = self.client.patience()
        answer: Fetched | int = Fetched(Code.NETWORK_EXCEPTION, _NOTHING, offset)
        while True:
            before = self.replica
            try:
                if asked is None:
                    asked = await self.send(offset, answer if isinstance(answer, int) else None)
                response = await asked
                answer = self.read(response, offset)
                throttled = isinstance(answer, Fetched) and _is_throttled(response)
                if throttled and not await patience.wait(response.throttle_time_ms):
                    return Fetched(Code.NONE, _NOTHING, offset)
            except OSError:
                answer, throttled = Fetched(Code.NETWORK_EXCEPTION, _NOTHING, offset), False
            asked = None
            if isinstance(answer, int) or self.replica != before or throttled:
                continue
            if before is not None and answer.code is Code.OFFSET_OUT_OF_RANGE:
                # A follower may lack what its leader has; the leader itself is asked, and not to recommend another.
                self.replica, self.options = None, replace(self.options, rack="")
                continue
            if not _again(answer.code, self.options) or not await patience.wait():
                return answer
            self.replica = None
            try:
                troubles = await self.client.refresh([self.source.topic])
            except OSError:
                continue
            if troubles.get(self.source.topic) is Code.UNKNOWN_TOPIC_OR_PARTITION and patience.has_seen_enough:
                return Fetched(Code.UNKNOWN_TOPIC_OR_PARTITION, _NOTHING, offset)


async def fetch(client: Client, source: TopicPartition, offset: int, options: FetchOptions = FETCH) -> Fetched:
    """Whole batches from ``offset`` on; empty when nothing came within ``max_wait_ms``.

    Retriable refusals are tried again until the api timeout. A first batch larger than ``max_bytes`` comes whole.
    """
    return await _Reader(client, source, options).complete(None, offset)


async def fetch_range(
    client: Client, source: TopicPartition, start: int, end: int, options: FetchOptions = FETCH
) -> AsyncIterator[Fetched]:
    """All batches that hold offsets from ``start`` to before ``end``; the next fetch is under way while one is used.

    Ends at ``end``, where the log ends before it, or after an answer with a code that is not NONE. An answer without
    records is given as well when more should be there: how long to wait for it is the caller's to say.
    """
    reader = _Reader(client, source, options)
    offset = start
    asked: Awaitable[FetchResponse] | None = None
    while offset < end:
        got = await reader.complete(asked, offset)
        asked = None
        stable = got.last_stable_offset if options.isolation == READ_COMMITTED else got.high_watermark
        if got.code is not Code.NONE:
            yield got
            return
        if not got.records and 0 <= stable <= got.next_offset:
            return
        offset = got.next_offset
        if offset < end:
            try:
                asked = await reader.send(offset)
            except OSError:
                asked = None
        yield got


_NOTHING = memoryview(b"")


def _again(code: Code, options: FetchOptions) -> bool:
    """Whether a refusal may pass. Not when the caller insists on a topic id that is not the topic's any more."""
    if options.topic_id is not None and code in (Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID):
        return False
    return code.retriable


def _is_throttled(response: FetchResponse) -> bool:
    """Whether the broker gave no answer but the time to wait before the next request (KIP-219)."""
    return response.error_code == Code.NONE and not response.responses
