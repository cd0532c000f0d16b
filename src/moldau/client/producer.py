"""A producer: records gather in one open batch per partition and go out together, in order, each exactly once.

Decides when a batch leaves (full, old enough, or flushed), and what a refusal means: try again, go on under a new
producer id, or tell the sender. At most one batch of a partition is under way, so order and sequence numbers survive
any retry. A batch that may have been written is only ever sent again with the same producer id and sequence (KIP-98).
Records without a key stay with one partition for a batch, then move on (KIP-480); keys: partitioner.py.
Needs an event loop. Not here: transactions. Read next: writing.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from functools import partial

from moldau.client.client import Client
from moldau.client.lines import UnsupportedApi
from moldau.client.partitioner import partition_of
from moldau.client.world_lines import WorldLines
from moldau.client.writing import (
    UNTOUCHED,
    WRITTEN_PERHAPS,
    BatchOutcome,
    names_of,
    produce_request,
    producer_id,
    read_written,
)
from moldau.model import Code, TopicPartition
from moldau.model.backoff import backoff_ms
from moldau.model.value import value
from moldau.ports import Handle
from moldau.wire.batch import HEADER_SIZE, Builder, Header
from moldau.wire.compression import Codec
from moldau.wire.messages.k00_produce import ProduceRequest

NOBODY = (-1, -1)

_LOST = WRITTEN_PERHAPS | {Code.NETWORK_EXCEPTION}
"""After these a batch may be in the log; without a producer id it is not tried again."""
_FORGOTTEN = frozenset({Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID, Code.INVALID_PRODUCER_EPOCH})
"""The broker does not go on with our producer id."""


class BufferFull(Exception):
    """More records wait than ``buffer_bytes`` allow: await ``Producer.room`` before sending more."""


@value(kw_only=True)
class ProducerOptions:
    """How to batch and how long to try. Times in ms, sizes in bytes."""

    acks: int = -1
    idempotent: bool = True
    linger_ms: float = 5
    batch_bytes: int = 256 << 10
    request_bytes: int = 1 << 20
    buffer_bytes: int = 64 << 20
    codec: Codec = Codec.NONE
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000


class _Batch:
    """Records of one partition on their way."""

    __slots__ = ("builder", "data", "done", "doubtful", "expires_ms", "identity", "opened_ms", "sequence")

    def __init__(self, now_ms: int, expires_ms: int) -> None:
        self.builder = Builder()
        self.opened_ms = now_ms
        self.expires_ms = expires_ms
        self.done: asyncio.Future[BatchOutcome] = asyncio.get_running_loop().create_future()
        self.data = b""
        self.identity = NOBODY
        self.sequence = -1
        self.doubtful = False


class _Lane:
    """The batches of one partition, oldest first; the last may be open."""

    __slots__ = ("batches", "busy", "held_until_ms", "next_sequence", "target", "tries")

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.batches: deque[_Batch] = deque()
        self.busy = False
        self.held_until_ms = 0
        self.next_sequence = 0
        self.tries = 0


class Delivery:
    """The promise of one record; awaiting it gives its ``BatchOutcome``, with the record's own offset."""

    __slots__ = ("_batch", "_index", "partition")

    def __init__(self, partition: int, batch: _Batch, index: int) -> None:
        self.partition = partition
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        return self._batch.done.done()

    def on_done(self, call: Callable[[BatchOutcome], object]) -> None:
        """Have ``call`` told what became of the record's batch, as soon as that is known."""
        self._batch.done.add_done_callback(lambda done: call(done.result()))

    def own(self, written: BatchOutcome) -> BatchOutcome:
        """What became of this record, by what became of its batch."""
        return written if written.base_offset < 0 else written._replace(base_offset=written.base_offset + self._index)

    def __await__(self) -> Generator[object, None, BatchOutcome]:
        written = yield from asyncio.shield(self._batch.done).__await__()
        return self.own(written)


class Producer:
    """Sends records to a cluster; ``flush`` waits for all of them, ``close`` for a last time."""

    def __init__(self, client: Client, options: ProducerOptions | None = None) -> None:
        assert isinstance(client.lines, WorldLines), "a producer needs a client on the event loop"
        self.client = client
        self.options = options if options is not None else ProducerOptions()
        self._world = client.lines.world
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._abandoned = False
        self._active: dict[_Lane, None] = {}  # those with batches, in order: topics at rest must cost nothing
        self._sticky: dict[str, int] = {}
        self._identity = NOBODY
        self._renewing = False
        self._buffered = 0
        self._flushing = 0
        self._timer: Handle | None = None
        self._timer_at_ms = 0
        self._waiting: list[asyncio.Future[None]] = []

    # -- what callers do

    async def prepare(self, topic: str) -> Code:
        """Learn a topic before the first ``send`` to it; what the cluster says about it."""
        if topic not in self.client.view.topics:
            troubles = await self.client.know([topic], grace=True)
            return troubles.get(topic, Code.NONE)
        return Code.NONE

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Add a record to its partition's batch, without waiting.

        KeyError when the topic was never prepared; BufferFull when too much waits. What becomes of the record is in the
        Delivery.
        """
        if self._buffered >= self.options.buffer_bytes:
            raise BufferFull(f"{self._buffered} bytes wait to be sent")
        if partition is None:
            partition = self._choose(topic, key)
        target = TopicPartition(topic, partition)
        lane = self._lanes.get(target)
        if lane is None:
            lane = self._lanes[target] = _Lane(target)
        batch = self._open_batch(lane, key, value)
        before = batch.builder.size
        stamp = self._world.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        index = batch.builder.append(stamp, key, value, headers)
        self._buffered += batch.builder.size - before
        if batch.builder.size >= self.options.batch_bytes:
            self._wake(0)
        elif not index:
            self._wake(self.options.linger_ms)
        return Delivery(partition, batch, index)

    async def room(self) -> None:
        """Wait until a record may be sent."""
        while self._buffered >= self.options.buffer_bytes:
            self._wake(0)
            await self._something_done()

    async def flush(self) -> None:
        """Send everything now and wait until all of it is written or refused."""
        self._flushing += 1
        try:
            waiting = [batch.done for lane in self._active for batch in lane.batches]
            if waiting:
                self._wake(0)
                await asyncio.wait(waiting)
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """``flush``; the client stays open, it belongs to the caller."""
        await self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abandon(self) -> None:
        """Send nothing more, whatever is waiting: what is under way may be cancelled then, and begins nothing new."""
        self._abandoned = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- batching

    def _choose(self, topic: str, key: bytes | None) -> int:
        count = len(self.client.view.topics[topic].partitions)
        if key is not None:
            return partition_of(key, count)
        chosen = self._sticky.get(topic)
        if chosen is None:
            chosen = self._sticky[topic] = self._world.random.below(count)
        return chosen

    def _open_batch(self, lane: _Lane, key: bytes | None, value: bytes | None) -> _Batch:
        size = (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
        if lane.batches:
            last = lane.batches[-1]
            if not last.data and last.builder.size + size <= self.options.batch_bytes:
                return last
        now_ms = self._world.clock.monotonic_ms()
        batch = _Batch(now_ms, now_ms + self.options.delivery_timeout_ms)
        lane.batches.append(batch)
        self._active[lane] = None
        return batch

    def _wake(self, delay_ms: float) -> None:
        if self._abandoned:
            return
        at_ms = self._world.clock.monotonic_ms() + delay_ms
        if self._timer is not None:
            if self._timer_at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = int(at_ms)
        self._timer = self._world.tasks.call_later(delay_ms, self._pump)

    def _pump(self) -> None:
        """Send what is ready, and be woken when the next thing is."""
        self._timer = None
        now_ms = self._world.clock.monotonic_ms()
        ready: list[_Lane] = []
        sleep_ms: float | None = None
        for lane in self._active:
            if lane.busy:
                continue
            wait_ms = self._wait_ms(lane, now_ms)
            if wait_ms <= 0:
                ready.append(lane)
            else:
                sleep_ms = wait_ms if sleep_ms is None else min(sleep_ms, wait_ms)
        if sleep_ms is not None:
            self._wake(sleep_ms)
        if not ready:
            return
        if self.options.idempotent and self._identity == NOBODY:
            self._renew()
            return
        self._dispatch(ready)

    def _wait_ms(self, lane: _Lane, now_ms: int) -> float:
        held_ms = lane.held_until_ms - now_ms
        first = lane.batches[0]
        full = first.data or len(lane.batches) > 1 or first.builder.size >= self.options.batch_bytes
        if full or self._flushing or self._buffered >= self.options.buffer_bytes:
            return held_ms
        return max(held_ms, first.opened_ms + self.options.linger_ms - now_ms)

    def _dispatch(self, ready: list[_Lane]) -> None:
        by_leader: dict[int, list[_Lane]] = {}
        lost: list[_Lane] = []
        for lane in ready:
            leader = self.client.view.leader(lane.target)
            if leader is None:
                lost.append(lane)
            else:
                by_leader.setdefault(leader, []).append(lane)
        for leader, lanes in by_leader.items():
            for group in self._by_request(lanes):
                self._start(partial(self._deliver, leader, group), group)
        if lost:
            self._start(partial(self._look_for, lost), lost)

    def _by_request(self, lanes: list[_Lane]) -> list[list[_Lane]]:
        groups: list[list[_Lane]] = []
        size = self.options.request_bytes
        for lane in lanes:
            batch = lane.batches[0]
            self._seal(lane, batch)
            if size + len(batch.data) > self.options.request_bytes:
                groups.append([])
                size = 0
            groups[-1].append(lane)
            size += len(batch.data)
        return groups

    def _seal(self, lane: _Lane, batch: _Batch) -> None:
        """Give a batch its bytes, under the producer id of now. Once it may have been written, nothing changes."""
        if batch.data and (batch.identity == self._identity or batch.doubtful):
            return
        if self._sticky.get(lane.target.topic) == lane.target.partition:
            del self._sticky[lane.target.topic]
        batch.identity = self._identity
        batch.sequence = -1
        if self.options.idempotent:
            batch.sequence = lane.next_sequence
            lane.next_sequence = (lane.next_sequence + batch.builder.count) & 0x7FFFFFFF
        batch.data = batch.builder.finish(
            codec=self.options.codec, producer_id=batch.identity[0], producer_epoch=batch.identity[1],
            base_sequence=batch.sequence,
        )  # fmt: skip

    # -- sending

    def _start(self, work: Callable[[], Awaitable[None]], lanes: list[_Lane]) -> None:
        for lane in lanes:
            lane.busy = True
        self._world.tasks.spawn(self._finish(work, lanes), "produce")

    async def _finish(self, work: Callable[[], Awaitable[None]], lanes: list[_Lane]) -> None:
        try:
            await work()  # begun here: a coroutine made before would be left unawaited by a task that never begins
        finally:
            for lane in lanes:
                lane.busy = False
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiting.clear()
            self._pump_soon()

    def _pump_soon(self) -> None:
        if self._active:
            self._wake(0)

    async def _look_for(self, lanes: list[_Lane]) -> None:
        """Leaders are not known: ask, and hold the lanes back for a moment."""
        troubles: dict[str, Code] = {}
        try:
            troubles = dict(await self.client.refresh(sorted({lane.target.topic for lane in lanes})))
        except OSError:
            troubles = dict.fromkeys((lane.target.topic for lane in lanes), Code.NETWORK_EXCEPTION)
        for lane in lanes:
            if self.client.view.leader(lane.target) is None:
                self._again(lane, BatchOutcome(troubles.get(lane.target.topic, Code.LEADER_NOT_AVAILABLE)))

    async def _deliver(self, leader: int, lanes: list[_Lane]) -> None:
        answers = await self._produce(leader, lanes)
        moved = set()
        for lane in lanes:
            written = answers.get(lane.target, BatchOutcome(Code.UNKNOWN_SERVER_ERROR))
            self._judge(lane, written)
            if written.code.retriable:
                moved.add(lane.target.topic)
        if moved:
            with suppress(OSError):  # the next try says so itself
                await self.client.refresh(sorted(moved))

    async def _produce(self, leader: int, lanes: list[_Lane]) -> dict[TopicPartition, BatchOutcome]:
        """One request with the first batch of each lane; what became of each."""
        options = self.options
        sent = False
        try:
            line = await self.client.line(leader, "produce")
            parts = [(lane.target, lane.batches[0].data) for lane in lanes]
            request, highest = produce_request(self.client, parts, options.acks, options.request_timeout_ms)
            version = line.version_for(ProduceRequest, highest)
            sent = True
            if options.acks == 0:
                while line.backlogged:  # nobody answers, so nothing else slows us down
                    await self.client.lines.pause(1)
                line.tell(request, version=version)
                return {lane.target: BatchOutcome(Code.NONE) for lane in lanes}
            answer = line.ask(request, version=version, timeout_ms=options.request_timeout_ms + 5_000)
            return read_written(await answer, names_of(request))
        except UnsupportedApi as error:
            refused = BatchOutcome(error.code, message=str(error))
            return {lane.target: refused for lane in lanes}
        except OSError as error:
            for lane in lanes:
                lane.batches[0].doubtful |= sent
            lost = BatchOutcome(Code.NETWORK_EXCEPTION, message=str(error))
            return {lane.target: lost for lane in lanes}

    def _judge(self, lane: _Lane, written: BatchOutcome) -> None:
        batch = lane.batches[0]
        if written.code is Code.NONE:
            self._settle(lane, written)
        elif written.code is Code.DUPLICATE_SEQUENCE_NUMBER:
            self._settle(lane, BatchOutcome(Code.NONE))  # it was written by an earlier try; the offset is not told
        elif written.code in _FORGOTTEN and self.options.idempotent and not batch.doubtful:
            self._forget_identity(batch)
            self._again(lane, written)
        elif written.code.retriable and (self.options.idempotent or written.code not in _LOST):
            batch.doubtful |= written.code not in UNTOUCHED
            self._again(lane, written)
        else:
            self._forget_identity(batch)
            self._settle(lane, written)

    def _again(self, lane: _Lane, written: BatchOutcome) -> None:
        """Hold the first batch back for a growing while; give it up when its time is over."""
        now_ms = self._world.clock.monotonic_ms()
        batch = lane.batches[0]
        if now_ms >= batch.expires_ms:
            self._forget_identity(batch)
            self._settle(lane, written)
            return
        pauses = self.client.options
        pause_ms = backoff_ms(lane.tries, pauses.retry_backoff_ms, pauses.retry_backoff_max_ms)
        pause_ms = pause_ms * (80 + self._world.random.below(41)) // 100
        lane.tries += 1
        lane.held_until_ms = now_ms + pause_ms

    def _settle(self, lane: _Lane, written: BatchOutcome) -> None:
        batch = lane.batches.popleft()
        self._buffered -= batch.builder.size - HEADER_SIZE
        if not lane.batches:
            del self._active[lane]
        lane.tries = 0
        lane.held_until_ms = 0
        if not batch.done.done():
            batch.done.set_result(written)

    async def _something_done(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    # -- the producer id

    def _forget_identity(self, batch: _Batch) -> None:
        """A sequence number was given out that the log will not see: go on under a new producer id."""
        if self.options.idempotent and batch.identity == self._identity:
            self._identity = NOBODY

    def _renew(self) -> None:
        """Get a producer id; sequence numbers start again. What is under way under an older id does not mind."""
        if self._renewing:
            return
        self._renewing = True
        self._start(self._init_producer_id, [])

    async def _init_producer_id(self) -> None:
        try:
            self._identity = await producer_id(self.client)
        except Exception as error:  # told to every record that waits: there is nobody else to tell
            code = getattr(error, "code", Code.NETWORK_EXCEPTION)
            for lane in list(self._active):
                while lane.batches:
                    self._settle(lane, BatchOutcome(code, message=str(error)))
        else:
            for lane in self._lanes.values():
                lane.next_sequence = 0
        finally:
            self._renewing = False
