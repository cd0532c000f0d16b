"""Reading for a fetch: which partitions, how much, answered now or parked until there is more.

A ``FetchReader`` is the set of partitions of one fetch, or of one fetch session. Only partitions that may have
something new are looked at: appends and watermarks mark them, so that a session over ten thousand partitions costs what
moves in it. Where that is more than a turn of the loop should look at, it is answered in slices with what there is, and
nothing else of the session is read meanwhile. A follower's fetch also tells its machine how far it is. Who may read
what is decided in ``replicas/fetch/read.py``. Sources: KIP-227 (sessions), KIP-74 (size limits), KIP-541 and KIP-951
(errors). Read next: ``replicas/fetch/sessions.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from moldau.broker.loop import answer_in_slices, run_in_slices
from moldau.broker.metadata.leader_hint import leader_of
from moldau.broker.network.freeing import let_go, long_arrays
from moldau.broker.replicas.fetch.partition import Data, FetchParams, FetchPartition, PartKey
from moldau.broker.replicas.fetch.read import nothing_new, read
from moldau.broker.replicas.host import ReplicaHost
from moldau.model import Code
from moldau.storage import LogError
from moldau.storage.uncached import Load
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

FETCH_BYTES, PARTITION_BYTES = 4096, 600
"""What a parked fetch takes, and each partition that it names: measured."""
ANSWER_BYTES = 500
"""What each partition takes in an answer that is not encoded yet: measured, without records."""
DISK_WAIT_MS = 10_000
"""How long a fetch waits for its disk, though its client would not wait for more records."""
IN_MEMORY_BYTES = 1 << 20
"""After so many bytes of records that were read an answer takes no more of them; parts of files that are sent unread do
not count."""
PARTITIONS_AT_ONCE = 1000
"""Partitions that one turn of the loop looks at, at most: a fetch of more is worked on in slices."""
READ_AT_ONCE = 250
"""...and reads in each slice: a millisecond's work."""
Topics = dict[bytes | str, FetchResponse.FetchableTopicResponse]
Found = list[tuple[FetchPartition, Data]]
"""Partitions that were looked at, each with its part of the answer."""


class FetchProgress:
    """What one look at the marked partitions has found, and how many bytes it has left. ``urgent``: something that is
    answered at once."""

    __slots__ = ("found", "in_memory_left", "left", "size", "urgent")

    def __init__(self, max_bytes: int) -> None:
        self.found: Found = []
        self.size = 0
        self.urgent = False
        self.left = max_bytes
        self.in_memory_left = IN_MEMORY_BYTES


class FetchReader:
    """The partitions of a fetch. ``unread`` are those that may have something new; the rest is not looked at."""

    def __init__(self, replicas: ReplicaHost) -> None:
        self.replicas = replicas
        self.parts: dict[PartKey, FetchPartition] = {}
        self.unread: dict[PartKey, FetchPartition] = {}
        self.uncounted: dict[PartKey, FetchPartition] = {}
        """Partitions whose leader counts this follower's next fetch, whether or not it names them."""
        self.params: FetchParams
        self.waiting: DelayedFetch | None = None
        self.loading = False
        """Bytes are being brought into memory for one of the partitions."""
        self.asked_ms = 0
        self.session_id = 0
        self.lasting = False
        """A session watches its partitions as long as it lives, a single fetch only while it is parked."""
        self.being_read = False
        """A fetch of it is being answered in slices."""
        self.closed = False

    @property
    def is_long(self) -> bool:
        """Whether a look at it takes more than one turn of the loop should hold, or is under way."""
        return self.being_read or (self.lasting and len(self.unread) + len(self.uncounted) > PARTITIONS_AT_ONCE)

    @property
    def answer_bytes(self) -> int:
        """About how much memory it takes while it is answered; what a session keeps is kept whether or not it is."""
        return ANSWER_BYTES * len(self.unread) + self.parked_bytes

    @property
    def parked_bytes(self) -> int:
        """About how much memory it takes to wait; a session's partitions are kept whether or not it does."""
        return 0 if self.lasting else FETCH_BYTES + PARTITION_BYTES * len(self.parts)

    # ---- what is asked

    def add(self, topics: list[FetchRequest.FetchTopic], by_id: bool) -> None:
        """Add these partitions, or change what is asked of them."""
        for topic in topics:
            name = bytes(topic.topic_id) if by_id else topic.topic
            for part in topic.partitions:
                key = (name, part.partition)
                partition = self.parts.get(key)
                if partition is None:
                    partition = self.parts[key] = FetchPartition(self, key, topic)
                partition.update(part)
                self.unread[key] = partition

    def forget(self, key: PartKey) -> None:
        """The partition is no longer asked for."""
        partition = self.parts.pop(key, None)
        self.unread.pop(key, None)
        self.uncounted.pop(key, None)
        if partition is not None:
            self._unwatch(partition)

    def _forget_all_in_slices(self) -> Generator[None, None, None]:
        """Nobody asks again: partitions and their reader know each other, and would wait for the collector."""
        self.unread.clear()
        self.uncounted.clear()
        while self.parts:
            for _ in range(min(len(self.parts), PARTITIONS_AT_ONCE)):
                _, partition = self.parts.popitem()
                self._unwatch(partition)
            if self.parts:
                yield

    def asks_for(self, partition: FetchPartition) -> bool:
        """Whether the partition is one of these, and was not forgotten."""
        return self.parts.get(partition.key) is partition

    # ---- what happens to partitions

    def mark_changed(self, partition: FetchPartition) -> None:
        """There is something new to tell, which nobody need be woken for."""
        self.unread[partition.key] = partition

    def notify(self, partition: FetchPartition, *, urgent: bool = False) -> None:
        """There may be something to read, or (``urgent``) something to say at once."""
        self.unread[partition.key] = partition
        waiting = self.waiting
        if waiting is not None:
            waiting.urgent |= urgent
            self.replicas.purgatory.notify(waiting)

    def records_appended(self, partition: FetchPartition, first_offset: int) -> None:
        """Records were appended from ``first_offset`` on, while this follower was waiting for them."""
        self.unread[partition.key] = partition
        waiting = self.waiting
        if waiting is not None:
            self.replicas.purgatory.notify(waiting)
        assert partition.replica is not None
        partition.replica.machine.heard_from(self.params.replica_id, first_offset, self.asked_ms)

    def count_next_fetch(self, partition: FetchPartition) -> None:
        """The partition's leader counts this follower's next fetch, whether or not it names it."""
        self.uncounted[partition.key] = partition

    def count_unnamed(self) -> None:
        """A fetch has come, which repeats what it does not name (KIP-227): tell the machines to which that is news."""
        for _ in self.count_unnamed_in_slices():
            pass

    def count_unnamed_in_slices(self) -> Generator[None, None, None]:
        """As ``count_unnamed``, with pauses."""
        uncounted, self.uncounted = self.uncounted, {}
        for number, (key, partition) in enumerate(uncounted.items(), 1):
            if self.parts.get(key) is partition:
                partition.reported = False
                self.unread[key] = partition
            if not number % PARTITIONS_AT_ONCE:
                yield

    def load(self, partition: FetchPartition, load: Load) -> None:
        """What the partition has is on the disk only: look again when it was brought into memory; if it was forgotten
        meanwhile, at the others, which have waited for that."""
        offset = partition.fetch_offset

        def done() -> None:
            self.loading = False
            partition.loaded = partition.fetch_offset == offset
            if self.asks_for(partition):
                self.notify(partition, urgent=True)
            elif self.waiting is not None:
                self.waiting.urgent = True
                self.replicas.purgatory.notify(self.waiting)

        self.loading = True
        self.replicas.cold_reads.begin(load, done)

    def watch(self, partition: FetchPartition) -> None:
        """Have appends (followers) or watermarks (consumers) mark the partition."""
        replica = partition.replica
        if replica is not None:
            (replica.followers if self.params.replica_id >= 0 else replica.consumers)[partition] = None

    def _unwatch(self, partition: FetchPartition) -> None:
        replica = partition.replica
        if replica is not None:
            replica.followers.pop(partition, None)
            replica.consumers.pop(partition, None)

    # ---- answering

    def fetch(self, params: FetchParams) -> FetchResponse | asyncio.Future[FetchResponse | None]:
        """Answer now if that is due, else park."""
        self.params = params
        self.asked_ms = self.replicas.deps.world.clock.monotonic_ms()
        progress = self.collect()
        for_disk = self.loading and not progress.size and not progress.urgent
        if not for_disk and (
            params.max_wait_ms <= 0 or not self.parts or progress.urgent or progress.size >= params.min_bytes
        ):
            response = self.respond(progress.found)
            if not self.lasting:  # it has watched nothing yet
                self._clear()
            return response
        if not self.lasting:
            for partition in self.parts.values():
                self.watch(partition)
        self.waiting = wait = DelayedFetch(self)
        self.replicas.purgatory.park(wait, max(params.max_wait_ms, DISK_WAIT_MS) if for_disk else params.max_wait_ms)
        return wait.answer

    def fetch_now_in_slices(self, params: FetchParams) -> Generator[None, None, FetchResponse]:
        """The answer with what there is, for more partitions than one turn of the loop should look at: with pauses."""
        self.params = params
        self.asked_ms = self.replicas.deps.world.clock.monotonic_ms()
        yield from self.count_unnamed_in_slices()
        return (yield from self.answer_now_in_slices())

    def answer_now_in_slices(self) -> Generator[None, None, FetchResponse]:
        """As ``fetch_now_in_slices``, with the parameters of the fetch that has come last."""
        progress = FetchProgress(self.params.max_bytes)
        self.being_read = True
        try:
            yield from self._collect_in_slices(progress)
            return (yield from self.respond_in_slices(progress.found))
        finally:
            self.being_read = False
            if progress.found:  # its client is gone
                let_go(self.replicas.deps.world.tasks, [progress.found])  # type: ignore[list-item]

    def collect(self) -> FetchProgress:
        """All of ``_collect_in_slices``, at once."""
        progress = FetchProgress(self.params.max_bytes)
        self._collect_from(list(self.unread), progress)
        return progress

    def _collect_in_slices(self, progress: FetchProgress) -> Generator[None, None, None]:
        """Read what is marked, within the limits; marks stay on what has more. Pauses after some partitions."""
        keys = list(self.unread)
        for begin in range(0, len(keys), READ_AT_ONCE):
            if begin:
                yield
            self._collect_from(keys[begin : begin + READ_AT_ONCE], progress)

    def _collect_from(self, keys: list[PartKey], progress: FetchProgress) -> None:
        """Read these partitions.

        What there was no room for, or has to wait for its disk, keeps its place before what was served: none starves,
        and none is forgotten. Behind a batch for which there was no room nothing is looked for in files: each of two
        thousand partitions was, in each of forty fetches. Waiting gives no more then.
        """
        for key in keys:
            partition = self.unread.get(key)
            if partition is None or self.closed:  # forgotten during a pause, or all of it was
                continue
            partition.crowded_out = False
            data = read(self, partition, progress.left if progress.in_memory_left > 0 else 0, first=not progress.size)
            progress.found.append((partition, data))
            records = data.records
            length = len(records) if records else 0
            if type(records) is bytes or getattr(records, "was_read", False):
                progress.in_memory_left -= length
            at_once = (
                data.error_code
                or data.diverging_epoch.epoch >= 0
                or data.preferred_read_replica >= 0
                or data.log_start_offset != partition.sent_log_start >= 0
            )
            if at_once:
                progress.urgent = True
            elif not length and (progress.size or self.loading) and partition.has_more(self.params.replica_id):
                if partition.crowded_out:
                    progress.left, progress.urgent = 0, True
                continue
            self.unread.pop(key, None)
            progress.size += length
            progress.left -= length
            if at_once or length or data.high_watermark != partition.sent_high_watermark:
                self.unread[key] = partition  # at the end: next time the others come first

    def respond_in_slices(self, found: Found) -> Generator[None, None, FetchResponse]:
        """As ``respond``, with pauses; nothing is left in ``found``."""
        found += self._rest(found)
        return (yield from self._build_in_slices(found, lambda piece: piece))

    def respond(self, found: Found) -> FetchResponse:
        """The response from what a look found: everything asked, or in a session what is new."""
        return self.build(found + self._rest(found))

    def _rest(self, found: Found) -> Found:
        """Parts that were not looked at this time, as a full answer must name them all."""
        if len(found) == len(self.parts):
            return []
        seen = {partition.key for partition, _ in found}
        return [(partition, nothing_new(partition)) for key, partition in self.parts.items() if key not in seen]

    def build(self, found: Found) -> FetchResponse:
        """All of ``_build_in_slices``, at once."""
        topics: Topics = {}
        response = FetchResponse(session_id=self.session_id)
        self._put(found, response, topics)
        response.responses = list(topics.values())
        return response

    def _build_in_slices(self, found: Found, to_tell: Callable[[Found], Found]) -> Generator[None, None, FetchResponse]:
        """Group by topic what ``to_tell`` leaves of it. Pauses after some partitions, and takes them out of ``found``,
        which is long to free."""
        topics: Topics = {}
        response = FetchResponse(session_id=self.session_id)
        found.reverse()
        try:
            while found:
                piece = found[: -PARTITIONS_AT_ONCE - 1 : -1]
                del found[-PARTITIONS_AT_ONCE:]
                self._put(to_tell(piece), response, topics)
                if found:
                    yield
        finally:
            response.responses = list(topics.values())
            if found:  # its client is gone
                let_go(self.replicas.deps.world.tasks, long_arrays(response))
        return response

    def _put(self, found: Found, response: FetchResponse, topics: Topics) -> None:
        """Put these partitions with their topics; name the leaders of what is not here (KIP-951)."""
        lasting, of_consumer = self.lasting, self.params.replica_id < 0
        for partition, data in found:
            if lasting:  # else nobody asks again what is news
                partition.note_sent(data)
            if data.records and partition.replica is not None:
                traffic, length = partition.replica.traffic, len(data.records)
                if of_consumer:
                    traffic.bytes_out += length
                else:
                    traffic.replicated_out += length
            topic = topics.get(partition.key[0])
            if topic is None:
                topic = FetchResponse.FetchableTopicResponse(topic=partition.topic, topic_id=partition.topic_id)
                topics[partition.key[0]] = topic
            topic.partitions.append(data)
            if data.error_code:
                self.replicas.failed_fetches += 1
            if data.error_code in (Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH):
                image, listener = self.replicas.image, self.params.listener
                hint = leader_of(image, partition.topic, partition.topic_id, partition.number, listener)
                if hint is not None:
                    kind = FetchResponse
                    data.current_leader = hint.put_into(
                        response.node_endpoints, kind.NodeEndpoint, kind.LeaderIdAndEpoch
                    )

    def ended(self) -> None:
        """A parked fetch was answered."""
        self.waiting = None
        self._let_go()

    def _let_go(self) -> None:
        """A fetch without a session was answered, and nobody asks again."""
        if not self.lasting:
            self._forget_all()

    def close(self) -> None:
        """Nobody will ask again: watch nothing, and read no more, though an answer be under way."""
        if self.waiting is not None:
            self.waiting.expire()
        self.closed = True
        forgetting = self._forget_all_in_slices()
        self._forget_some(forgetting)

    def _forget_some(self, forgetting: Generator[None, None, None]) -> None:
        for _ in forgetting:
            self.replicas.deps.world.tasks.call_soon(lambda: self._forget_some(forgetting))
            return

    def _forget_all(self) -> None:
        """All of ``_forget_all_in_slices``, at once. The collector, for which they would wait, comes once in fifty
        million objects: six idle consumers of 300 partitions took 1.5 MB a second."""
        for partition in self.parts.values():
            self._unwatch(partition)
        self._clear()

    def _clear(self) -> None:
        self.parts.clear()
        self.unread.clear()
        self.uncounted.clear()


class DelayedFetch:
    """A parked fetch."""

    __slots__ = ("_reader", "answer", "done", "urgent")
    kind = "Fetch"

    def __init__(self, reader: FetchReader) -> None:
        self._reader = reader
        self.done = False
        self.urgent = False
        self.answer: asyncio.Future[FetchResponse | None] = asyncio.get_running_loop().create_future()

    def try_complete(self) -> None:
        """Answer if there is enough by now, or too much to look at in one turn of the loop."""
        reader = self._reader
        if reader.is_long:
            self._finish_in_slices()
            return
        if not self.urgent and reader.params.min_bytes > 1 and self._estimate() < reader.params.min_bytes:
            return
        progress = reader.collect()
        if self.urgent or progress.urgent or progress.size >= reader.params.min_bytes:
            self._finish(progress)

    def _estimate(self) -> int:
        """An upper bound of what could be read, from positions alone."""
        total = 0
        for partition in self._reader.unread.values():
            replica = partition.replica
            if replica is None:
                return self._reader.params.min_bytes
            active = replica.log.active
            if partition.fetch_offset < active.base_offset:
                return self._reader.params.min_bytes
            try:
                total += active.size - active.locate(partition.fetch_offset)
            except (OSError, LogError):
                return self._reader.params.min_bytes  # whoever reads it says what is wrong
        return total

    def expire(self) -> None:
        if self._reader.is_long:
            self._finish_in_slices()
        else:
            self._finish(self._reader.collect())

    def abandon(self) -> None:
        """Nobody hears what there is."""
        self._end()
        self.answer.cancel()

    def fail(self, error: Exception) -> None:
        """What there is cannot be told."""
        self._end()
        if not self.answer.done():
            self.answer.set_exception(error)

    def _finish(self, progress: FetchProgress) -> None:
        response = self._reader.respond(progress.found)
        self._end()
        if not self.answer.done():
            self.answer.set_result(response)

    def _finish_in_slices(self) -> None:
        """Only a session is that long, of which everything is kept: a fetch that names more partitions never waits."""
        reader = self._reader
        self._end()
        reader.being_read = True  # nothing else of the session is read from now on
        reader.replicas.deps.world.tasks.spawn(self._go_on(), f"answer a fetch of session {reader.session_id}")

    async def _go_on(self) -> None:
        reader = self._reader
        tasks, work = reader.replicas.deps.world.tasks, reader.answer_now_in_slices()
        is_follower = reader.params.replica_id >= 0
        try:
            response = await (
                run_in_slices(tasks, work) if is_follower else answer_in_slices(tasks, FetchRequest.api_key, work)
            )
        except Exception as error:
            if not self.answer.done():
                self.answer.set_exception(error)
            return
        if not self.answer.done():
            self.answer.set_result(response)

    def _end(self) -> None:
        self.done = True
        self._reader.replicas.purgatory.left()
        self._reader.ended()
