"""A consumer: positions in partitions, fetched from all leaders at once; alone or as a member of a group.

Gives whole batches (``Chunk``), and records on request (``reading.visible``). Decides what is fetched next and where
reading goes on when a position is gone. As a member it heartbeats, commits and rejoins inside ``poll``, on both kinds
of lines: whoever stops polling for a session timeout loses its partitions.
Sources: KIP-74, KIP-98, KIP-392, KIP-429. Read next: membership.py, reading.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

from moldau.client import groups
from moldau.client.client import Client, Refused
from moldau.client.groups import Committed
from moldau.client.membership import GroupOptions, Member
from moldau.client.reading import (
    LATEST,
    READ_UNCOMMITTED,
    Fetched,
    fetch_version_bound,
    list_offsets,
    read_partition,
    visible,
)
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.model.value import value
from moldau.wire.batch import Record
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

PLACES_AGAIN_MS = 250
"""Before it is asked again where partitions begin or end whose leader did not answer."""
STAY_MS = 1_000
"""How long ``stay`` waits for an answer."""
NO_RESET = 0
"""For ``reset``: a position that is gone is the caller's business (Chunk with OFFSET_OUT_OF_RANGE, or NoOffset)."""
SINCE = -1_001
"""For ``reset``: at the first record that is no older than ``since_ms`` says, or at the end where there is none."""
UNDEFINED = -1_000
"""The position in a partition for which the group has committed none, where ``reset`` is NO_RESET."""


class NoOffset(Refused):
    """Partitions came to us that the group has committed no position for, and there is no reset: seek, or give up."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = sorted(partitions)
        listed = ", ".join(map(str, self.partitions))
        super().__init__(Code.OFFSET_OUT_OF_RANGE, f"no committed position and no reset for [{listed}]")


@value(kw_only=True)
class ConsumerOptions:
    """How to fetch, and where to begin without a committed position (LATEST, EARLIEST, SINCE or NO_RESET).

    ``since_ms`` gives the time that SINCE stands for, in ms since 1970, whenever it is needed.
    """

    group: GroupOptions | None = None
    reset: int = LATEST
    since_ms: Callable[[], int] | None = None
    isolation: int = READ_UNCOMMITTED
    max_bytes: int = 50 << 20
    partition_max_bytes: int = 1 << 20
    min_bytes: int = 1
    max_wait_ms: int = 500
    rack: str = ""
    auto_commit_interval_ms: int | None = 5_000


class Chunk(NamedTuple):
    """What a fetch gave for one partition; ``offset`` is where it was asked from, ``source`` the broker that was."""

    partition: TopicPartition
    offset: int
    fetched: Fetched
    source: int = -1

    def records(self, isolation: int = READ_UNCOMMITTED) -> Iterator[Record]:
        """The records from ``offset`` on, without control records (and, read committed, without aborted ones)."""
        return visible(self.fetched, self.offset, isolation=isolation)


class _Asked(NamedTuple):
    """A fetch under way at a broker."""

    source: int
    answer: Awaitable[FetchResponse]
    offsets: dict[TopicPartition, int]
    names: dict[bytes, str]


class _PreferredReplica(NamedTuple):
    """The follower that a leader named to read from (KIP-392), and when; ``metadata_max_age_ms`` later it is asked
    again."""

    id: int
    named_ms: int


class Consumer:
    """Reads partitions that were assigned by hand (``assign``) or by a group (``subscribe``)."""

    def __init__(self, client: Client, options: ConsumerOptions | None = None) -> None:
        self.client = client
        self.options = options if options is not None else ConsumerOptions()
        self.member: Member | None = None
        self.on_assigned: Callable[[frozenset[TopicPartition]], object] | None = None
        self.on_revoked: Callable[[frozenset[TopicPartition]], object] | None = None
        self.paused: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        self._asked: dict[int, _Asked] = {}
        self._wishes: dict[TopicPartition, int] = {}  # partitions whose next batch needs more than partition_max_bytes
        self._replicas: dict[TopicPartition, _PreferredReplica] = {}
        self._held_until_ms = self._places_held_until_ms = 0
        self._commit_at_ms = self._silent_until_ms = 0

    # -- what is read

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, each from an offset, or from LATEST, EARLIEST or SINCE."""
        self._positions = dict(positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on elsewhere in an assigned partition; KeyError when it is not assigned."""
        if partition not in self._positions:
            raise KeyError(partition)
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        """The next offset; LATEST, EARLIEST, SINCE while unknown, UNDEFINED where nobody says where to begin."""
        return self._positions[partition]

    async def subscribe(self, topics: Collection[str]) -> None:
        """Share these topics with a group (``options.group``): partitions come with the next ``poll``."""
        assert self.options.group is not None, "subscribing needs group options"
        if self.member is not None:
            await self._let_go(self.assignment)
            await self.member.leave()
        self.member = Member(self.client, self.options.group, topics)

    # -- reading

    async def poll(self, wait_ms: float = 1_000, *, join_ms: int | None = None) -> list[Chunk]:
        """What has come, waiting a while for something. Chunks with a code other than NONE tell what went wrong.

        Joining its group takes as long as other members take, or ``join_ms`` for each request: Unreachable then.

        NoOffset when the group has given us a partition without a position, and ``reset`` does not say where to begin.
        """
        if self.member is not None:
            await self._tend(self.member, join_ms)
        deadline_ms = self.client.lines.now_ms() + wait_ms
        await self._find_positions(wait_ms)
        while True:
            await self._ask_leaders()
            left_ms = deadline_ms - self.client.lines.now_ms()
            chunks = await self._collect(max(left_ms, 0))
            if chunks or left_ms <= 0:
                return chunks
            if not self._asked:  # nobody to ask yet: do not spin
                await self.client.lines.pause(min(left_ms, 50))
            if self.member is not None:
                await self.member.tend()
                if self.member.must_join:
                    return []

    async def stay(self) -> None:
        """Tell the group, when it is time, that we are there, where it takes long to use what was polled. What it
        answers is acted on by ``poll``; where it does not, it is left alone for a third of a session."""
        member, lines = self.member, self.client.lines
        if member is None or lines.now_ms() < self._silent_until_ms:
            return
        try:
            await member.stay(STAY_MS)
        except (OSError, Refused):
            self._silent_until_ms = lines.now_ms() + member.options.session_timeout_ms // 3

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> dict[TopicPartition, Code]:
        """Commit positions: the given ones, or where reading stands now.

        UNKNOWN_MEMBER_ID for each when the group went on without us: taken for an outsider's, the commit of a member
        that was put out would be accepted while the group is empty, and undo what others committed since.
        """
        group = self.options.group
        assert group is not None, "committing needs group options"
        if offsets is None:
            offsets = {p: offset for p, offset in self._positions.items() if offset >= 0}
        if not offsets:
            return {}
        member = self.member.identity if self.member is not None else groups.OUTSIDE
        if self.member is not None and member.generation < 0:
            return dict.fromkeys(offsets, Code.UNKNOWN_MEMBER_ID)
        positions = {p: Committed(offset) for p, offset in offsets.items()}
        return await groups.commit(self.client, group.group_id, positions, member)

    async def close(self) -> None:
        """Commit (when that is automatic) and leave the group; the client stays open, it belongs to the caller."""
        if self.member is not None:
            await self._let_go(self.assignment)
            await self.member.leave()
            self.member = None
        self._positions.clear()
        self._asked.clear()

    # -- the group

    async def _tend(self, member: Member, join_ms: int | None) -> None:
        await member.tend()
        if member.lost:
            self._lose(self.assignment)
        if member.must_join or member.partitions_changed():
            await self._rejoin(member, join_ms)
        now_ms = self.client.lines.now_ms()
        if self.options.auto_commit_interval_ms is not None and now_ms >= self._commit_at_ms:
            self._commit_at_ms = now_ms + self.options.auto_commit_interval_ms
            await self.commit()

    async def _rejoin(self, member: Member, join_ms: int | None) -> None:
        """Join until nothing is left to let go of (once, unless the group is cooperative)."""
        cooperative = member.options.cooperative
        while True:
            if not cooperative:
                await self._let_go(self.assignment)
            elif self.options.auto_commit_interval_ms is not None and self.assignment:
                await self.commit()
            assigned = await member.join(self.assignment, timeout_ms=join_ms)
            gone = self.assignment - assigned
            try:
                await self._let_go(gone)
                await self._take(assigned - self.assignment)
            except BaseException:
                # It does not hold what the group believes, and heartbeats alone would keep it so for ever.
                member.must_join = True
                raise
            if not gone or not cooperative:
                return

    async def _take(self, partitions: frozenset[TopicPartition]) -> None:
        group = self.options.group
        if group is None or not partitions:
            return
        code, found = await groups.committed(self.client, group.group_id, partitions)
        if code is not Code.NONE:
            raise Refused(code, f"committed offsets of group {group.group_id!r}")
        for partition in sorted(partitions):
            known = found.get(partition)
            if known is not None and known.code is not Code.NONE:  # there may be a position, and it is not told
                raise Refused(known.code, f"committed offset of group {group.group_id!r} in {partition}")
            self._positions[partition] = known.offset if known is not None else self.options.reset or UNDEFINED
        if self.on_assigned is not None:
            self.on_assigned(partitions)

    async def _let_go(self, partitions: frozenset[TopicPartition]) -> None:
        """Commit and drop partitions while they are still ours."""
        if not partitions:
            return
        if self.options.auto_commit_interval_ms is not None and self.member is not None and not self.member.lost:
            await self.commit({p: self._positions[p] for p in partitions if self._positions[p] >= 0})
        self._lose(partitions)

    def _lose(self, partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            del self._positions[partition]
        if partitions and self.on_revoked is not None:
            self.on_revoked(partitions)

    # -- fetching

    async def _find_positions(self, wait_ms: float) -> None:
        """Replace LATEST, EARLIEST and SINCE by offsets; NoOffset as long as there are others that nobody has set.

        It takes no longer than a call of ``poll`` may: a partition may have no leader for hours, and others are read.
        """
        if lost := [p for p, offset in self._positions.items() if offset == UNDEFINED]:
            raise NoOffset(lost)
        asked = {p: offset for p, offset in self._positions.items() if offset < 0}
        if asked and self.client.lines.now_ms() >= self._places_held_until_ms:
            isolation = self.options.isolation
            times = {p: self._time(offset) for p, offset in asked.items()}
            found = await list_offsets(self.client, times, isolation=isolation, timeout_ms=round(wait_ms))
            if any(offset.code is not Code.NONE for offset in found.values()):
                self._places_held_until_ms = self.client.lines.now_ms() + PLACES_AGAIN_MS
            for partition, offset in found.items():
                if offset.code is Code.NONE and self._positions.get(partition) == asked[partition]:
                    self._positions[partition] = offset.offset if offset.offset >= 0 else LATEST

    def _time(self, offset: int) -> int:
        since_ms = self.options.since_ms
        if offset != SINCE or since_ms is None:
            return offset
        return max(0, since_ms())  # what is below is a place for ListOffsets, such as LATEST

    async def _ask_leaders(self) -> None:
        """A fetch to every broker that leads something we read and has none of our fetches to answer."""
        under_way = {p for asked in self._asked.values() for p in asked.offsets}
        wanted = [p for p in self._positions if p not in self.paused and p not in under_way and self._positions[p] >= 0]
        if not wanted or self.client.lines.now_ms() < self._held_until_ms:
            return
        try:
            await self.client.know_leaders(wanted)
        except OSError:
            self._hold()
            return
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in wanted:
            source = self._source(partition)
            if source is None:
                self._hold()
            elif source not in self._asked:
                by_broker.setdefault(source, []).append(partition)
        for broker, partitions in by_broker.items():
            try:
                line = await self.client.line(broker, "fetch")
                # Whoever leads by now is asked under its epoch, and nobody else: he may answer in its place (KIP-320).
                asked = [p for p in partitions if self._source(p) == broker]
                if not asked:
                    continue
                request = self._request(asked)
                version = line.version_for(FetchRequest, fetch_version_bound(request))
                answer = line.ask(request, version=version)
            except OSError:
                await self._lost(broker, partitions)
                continue
            names = {self.client.view.topic_id(p.topic): p.topic for p in asked}
            self._asked[broker] = _Asked(broker, answer, {p: self._positions[p] for p in asked}, names)

    def _source(self, partition: TopicPartition) -> int | None:
        """Whom to ask: the replica that a leader named (KIP-392), or whoever leads; None when nobody does."""
        preferred = self._replicas.get(partition)
        oldest_ms = self.client.lines.now_ms() - self.client.options.metadata_max_age_ms
        if preferred is not None and preferred.named_ms > oldest_ms:
            return preferred.id
        return self.client.view.leader(partition)

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, list[FetchRequest.FetchPartition]] = {}
        options, view = self.options, self.client.view
        for p in partitions:
            bytes_max = self._wishes.get(p, self.options.partition_max_bytes)
            part = FetchRequest.FetchPartition(
                partition=p.partition, current_leader_epoch=view.leader_epoch(p),
                fetch_offset=self._positions[p], partition_max_bytes=bytes_max,
            )  # fmt: skip
            topics.setdefault(p.topic, []).append(part)
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=options.max_wait_ms,
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            isolation_level=options.isolation,
            topics=[
                FetchRequest.FetchTopic(topic=name, topic_id=view.topic_id(name), partitions=parts)
                for name, parts in topics.items()
            ],
            rack_id=options.rack,
        )

    async def _collect(self, wait_ms: float) -> list[Chunk]:
        if not self._asked:
            return []
        brokers = list(self._asked)
        done = await self.client.lines.first([self._asked[b].answer for b in brokers], wait_ms)
        chunks: list[Chunk] = []
        for index in done:
            asked = self._asked.pop(brokers[index])
            try:
                response = await asked.answer
            except OSError:
                await self._lost(brokers[index], list(asked.offsets))
                continue
            if response.error_code != Code.NONE:
                self._hold()
            for topic in response.responses:
                name = topic.topic or asked.names.get(topic.topic_id, "")
                for part in topic.partitions:
                    chunks += await self._read(TopicPartition(name, part.partition_index), part, asked)
        return chunks

    async def _read(self, partition: TopicPartition, part: FetchResponse.PartitionData, asked: _Asked) -> list[Chunk]:
        offset = asked.offsets.get(partition, -1)
        if self._positions.get(partition) != offset or partition in self.paused:
            return []  # revoked, moved or paused meanwhile
        got = read_partition(part, offset)
        if isinstance(got, int):
            self._wishes[partition] = got
            return []
        if got.code is Code.NONE:
            self._wishes.pop(partition, None)
            if part.preferred_read_replica >= 0:
                preferred = _PreferredReplica(part.preferred_read_replica, self.client.lines.now_ms())
                self._replicas[partition] = preferred
            self._positions[partition] = got.next_offset
            return [Chunk(partition, offset, got, asked.source)] if got.records else []
        was_preferred = self._replicas.pop(partition, None) is not None
        if got.code is Code.OFFSET_OUT_OF_RANGE and was_preferred:
            self._hold()  # a follower may lack what its leader has: the leader is asked
            return []
        if got.code is Code.OFFSET_OUT_OF_RANGE and self.options.reset != NO_RESET:
            self._positions[partition] = self.options.reset
            await self._find_positions(0)
            return []
        if got.code.retriable:
            self._hold()
            await self._refresh(partition.topic)
            return []
        self._hold()
        return [Chunk(partition, offset, got, asked.source)]

    async def _lost(self, broker: int, partitions: Collection[TopicPartition]) -> None:
        self._hold()
        for partition in partitions:
            preferred = self._replicas.get(partition)
            if preferred is not None and preferred.id == broker:
                del self._replicas[partition]
        await self._refresh(*sorted({p.topic for p in partitions}))

    async def _refresh(self, *topics: str) -> None:
        try:
            await self.client.refresh(topics)
        except OSError:
            self._hold()

    def _hold(self) -> None:
        """Something is not right at the moment: no new fetches for a short while."""
        self._held_until_ms = self.client.lines.now_ms() + self.client.options.retry_backoff_ms
