"""The groups this broker coordinates: one shard for each partition of __consumer_offsets that it leads.

Loads a shard from the log when this broker becomes the partition's leader, a slice at a time, and lets it answer only
when all that was loaded is committed; unloads it when leadership goes. Carries out the shards' effects: appends of one
turn of the loop go out as one batch, fenced by the leader epoch under which the shard was loaded; all deadlines wait in
one heap under one timer. Decides nothing about groups: ``moldau.groups`` does. Read next: ``groups/offsets_log.py``;
``api/k08`` to ``k16``, ``k42``, ``k47``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar, cast

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.groups.offsets_log import OffsetsBatch, Replay, Unwritable, batches_of
from moldau.broker.loop import Pace, sleep
from moldau.broker.replicas.deps import ReplicaSettings
from moldau.broker.replicas.manager import ReplicaManager
from moldau.broker.replicas.replica import Replica
from moldau.groups import GroupsConfig, Phase, Shard, partition_for, weight
from moldau.groups.facts import (
    Append,
    AppendCommitted,
    AppendInTransaction,
    AppendRefused,
    Effect,
    Event,
    Expired,
    GroupRequest,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    Now,
    Producer,
    Reply,
    Schedule,
    ShardReply,
    ShardRequest,
    SyncGroup,
    TimerKey,
    TopicsDeleted,
    TransactionEnded,
    refuse,
)
from moldau.groups.group import MemberBytes
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.ports import Handle, World, pools
from moldau.ports.buggify import LOADING_COORDINATOR
from moldau.storage import LogError
from moldau.storage.slow import Slow
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

LOADED_AT_ONCE = 200
"""Records applied before the loop turns: a broker that loads must go on sending heartbeats (architecture, "Speed")."""


R = TypeVar("R")
Answering = Message | Awaitable[Message]
"""A response, or one to come."""


class WithImage(Protocol):
    """Where the committed image of this node stands."""

    @property
    def image(self) -> Image: ...


class PendingResponse(Generic[R]):
    """One client request's parts on their way: ``finish`` makes the response of all their replies, in order."""

    __slots__ = ("_answers", "_finish", "_missing", "future", "response")

    def __init__(self, count: int, finish: Callable[[Sequence[Any]], R]) -> None:  # Any: the reply to each part
        self._answers: list[ShardReply | None] = [None] * count
        self._missing = count
        self._finish = finish
        self.response: R | None = None
        self.future: asyncio.Future[R] | None = None
        if not count:
            self.response = finish(())

    def answer(self, number: int, value: ShardReply) -> None:
        self._answers[number] = value
        self._missing -= 1
        if not self._missing:
            self.response = self._finish(self._answers)
            if self.future is not None and not self.future.done():  # done: the client went away
                self.future.set_result(self.response)


ResponseToken = tuple[PendingResponse[Any], int]  # Any: whatever is made of the answers
"""The token of a request to a shard: whose response it is part of, and which."""


class ShardContext:
    """One partition of the offsets topic that this broker leads, and its shard."""

    __slots__ = (
        "deleted",
        "done",
        "ended",
        "epoch",
        "events",
        "outbox",
        "replica",
        "shard",
        "stepping",
        "task",
    )

    def __init__(self, replica: Replica, epoch: int, config: GroupsConfig, held_bytes: MemberBytes) -> None:
        self.replica = replica
        self.epoch = epoch
        self.shard = Shard(config, held_bytes)
        self.task: Handle | None = None
        self.outbox: list[Append | AppendInTransaction] = []
        self.events: deque[Event] = deque()
        self.stepping = False
        self.deleted: set[str] = set()
        """Topics deleted while the shard was loading."""
        self.ended: list[tuple[int, TransactionEnded]] = []
        """Markers that came while the shard was loading, and the offsets after them."""
        self.done = False
        """Leadership is over, nobody waits for the watermark any more."""


class _WatermarkListener:
    """Waits until the high watermark has passed an append."""

    __slots__ = ("_call", "_led")

    def __init__(self, led: ShardContext, call: Callable[[], object]) -> None:
        self._led = led
        self._call = call

    @property
    def done(self) -> bool:
        return self._led.done

    def complete(self, slot: object, code: Code) -> None:
        """Committed, whatever has become of the ISR since; any other code means that leadership is over."""
        if code in (Code.NONE, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self._call()


class Coordinator:
    """The group coordinator of one broker. ``submit`` is what request handlers call."""

    def __init__(self, world: World, metadata: WithImage, replicas: ReplicaManager, config: ReplicaSettings) -> None:
        self._world = world
        self._metadata = metadata
        self._replicas = replicas
        self._config, self._held_bytes = groups_config(config), MemberBytes()
        self._max_bytes: int = config["message.max.bytes"] // 2
        self.shards: dict[int, ShardContext] = {}
        self._heap: list[tuple[int, int, ShardContext, TimerKey]] = []
        self._count = 0
        self._timer: Handle | None = None
        self._timer_at = 0
        self._replicas.led.append(self._began_leading)
        self._replicas.left.append(self._ceased_leading)

    # ---- asking

    def submit(
        self,
        requests: Sequence[GroupRequest],
        finish: Callable[[Sequence[Any]], R],  # Any: the reply to each part
    ) -> R | Awaitable[R]:
        """Put each ask to the shard of its group; ``finish`` turns the answers, in order, into the response."""
        question = PendingResponse(len(requests), finish)
        for number, request in enumerate(requests):
            led = self.shards.get(self.partition_of(request.group_id))
            self._put(led, request, (question, number))
        return self._outcome(question)

    def submit_in_slices(
        self,
        requests: Sequence[GroupRequest],
        finish: Callable[[Sequence[Any]], R],  # Any: the reply to each part
    ) -> Generator[None, None, R | Awaitable[R]]:
        """As ``submit``, with a pause after so many asks: a long group id counts as several."""
        question, pace = PendingResponse(len(requests), finish), Pace(self._world.step)
        for number, request in enumerate(requests):
            if pace.spent(weight(request.group_id)):
                yield
            led = self.shards.get(self.partition_of(request.group_id))
            self._put(led, request, (question, number))
        return self._outcome(question)

    def submit_all(
        self,
        request: ListGroups,
        finish: Callable[[Sequence[Any]], R],  # Any: the answer of each shard
    ) -> R | Awaitable[R]:
        """Put one ask to every shard of this broker."""
        shards = list(self.shards.values())
        question = PendingResponse(len(shards), finish)
        for number, led in enumerate(shards):
            self._put(led, request, (question, number))
        return self._outcome(question)

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that holds a group; -1 while there is no such topic."""
        topic = self._metadata.image.topic(OFFSETS)
        return -1 if topic is None else partition_for(group_id, len(topic.partitions))

    def _put(self, led: ShardContext | None, request: ShardRequest, asked: ResponseToken) -> None:
        if led is None:
            # A nameless group is nobody's: NOT_COORDINATOR would send its member round and round.
            nameless = isinstance(request, (Join, SyncGroup, Heartbeat, Leave)) and not request.group_id
            code = Code.INVALID_GROUP_ID if nameless else Code.NOT_COORDINATOR
            asked[0].answer(asked[1], refuse(request, code))
        elif (buggify := self._world.buggify) is not None and buggify(LOADING_COORDINATOR):
            asked[0].answer(asked[1], refuse(request, Code.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            if isinstance(request, Join):
                led.shard.record_bytes_max = led.replica.log.config.max_message_bytes
            self._carry_out(led, led.shard.step(request, self._now(), asked))

    def _outcome(self, question: PendingResponse[R]) -> R | Awaitable[R]:
        if question.response is not None:
            return question.response
        question.future = asyncio.get_running_loop().create_future()
        return question.future

    # ---- leading

    def _began_leading(self, replica: Replica, epoch: int) -> None:
        if replica.partition.topic != OFFSETS:
            return
        led = self.shards.get(replica.partition.partition)
        if led is not None:
            led.epoch = epoch  # the same leader under a new epoch: nobody else has written meanwhile
            return
        led = self.shards[replica.partition.partition] = ShardContext(replica, epoch, self._config, self._held_bytes)
        if not replica.log.log_end_offset:
            # A new log has nothing to load: a member that is told to wait for it waits 3 s if it is librdkafka's.
            self._carry_out(led, led.shard.loaded(self._now()))
            return
        led.task = self._world.tasks.spawn(self._load(led), f"load {replica.partition}")

    def _ceased_leading(self, replica: Replica) -> None:
        led = self.shards.get(replica.partition.partition)
        if led is not None and led.replica is replica:
            self._unload(led)

    def _unload(self, led: ShardContext) -> None:
        del self.shards[led.replica.partition.partition]
        led.done = True
        if led.task is not None:
            led.task.cancel()
        led.outbox.clear()
        self._carry_out(led, led.shard.unload())
        log.info("unloaded the groups of %s", led.replica.partition)

    async def _load(self, led: ShardContext) -> None:
        partition_log = led.replica.log
        started_ms = self._world.clock.monotonic_ms()
        end = partition_log.log_end_offset
        replay = Replay(partition_log, end)
        count = 0
        try:
            for number, record in enumerate(replay.records()):
                if isinstance(record, Slow):
                    await self._world.tasks.off_loop(record, pools.COMPUTING)
                elif record is not None:
                    led.shard.apply(record)
                    count += 1
                if number % LOADED_AT_ONCE == 0:
                    await sleep(self._world.tasks, 0)
        except LogError as error:
            log.error("the groups of %s cannot be loaded: %s", led.replica.partition, error)
            led.task = None
            self._unload(led)
            self._replicas.failed(error)
            return
        for producer_id, record in replay.still_open():
            led.shard.apply_open(producer_id, [record])
        await self._committed_up_to(led, end)
        self._carry_out(led, led.shard.loaded(self._now()))
        for next_offset, ended in led.ended:
            self._end_transaction(led, next_offset, ended)
        if led.deleted:
            self._carry_out(led, led.shard.step(TopicsDeleted(frozenset(led.deleted)), self._now()))
        took_ms = self._world.clock.monotonic_ms() - started_ms
        log.info("loaded %d records of %s in %d ms", count, led.replica.partition, took_ms)
        if replay.left_out:
            log.warning("%d things of %s could not be read and were left out", replay.left_out, led.replica.partition)

    def transaction_ended(self, replica: Replica, producer_id: int, next_offset: int, *, commits: bool) -> None:
        """A marker was written to a partition of the offsets topic, just below ``next_offset``."""
        led = self.shards.get(replica.partition.partition)
        if led is None or led.replica is not replica:
            return
        ended = TransactionEnded(producer_id, commits)
        if led.shard.phase is Phase.LOADING:
            led.ended.append((next_offset, ended))
        else:
            self._end_transaction(led, next_offset, ended)

    def _end_transaction(self, led: ShardContext, next_offset: int, ended: TransactionEnded) -> None:
        self._when_committed(led, next_offset, lambda: self._feed(led, ended))

    async def _committed_up_to(self, led: ShardContext, end: int) -> None:
        """What an older leader wrote last may not be committed yet: read, it could still be taken back."""
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def land() -> None:
            if not landed.done():
                landed.set_result(None)

        self._when_committed(led, end, land)
        await landed

    def _when_committed(self, led: ShardContext, next_offset: int, call: Callable[[], object]) -> None:
        landing = _WatermarkListener(led, call)
        code = led.replica.machine.acknowledged(next_offset)
        if code is None:
            led.replica.when_committed(next_offset, landing)
        else:
            landing.complete(None, code)

    def apply(self, image: Image, delta: Delta) -> None:
        """Forget the offsets of topics that are gone."""
        gone = frozenset(delta.deleted_topics(image).values())
        if not gone:
            return
        for led in list(self.shards.values()):
            if led.shard.phase is Phase.LOADING:
                led.deleted |= gone
            else:
                self._carry_out(led, led.shard.step(TopicsDeleted(gone), self._now()))

    def stop(self) -> None:
        """This broker goes: everybody who waits is told to look elsewhere."""
        for led in list(self.shards.values()):
            self._unload(led)
        if self._timer is not None:
            self._timer.cancel()

    # ---- effects

    def _now(self) -> Now:
        clock = self._world.clock
        return Now(clock.monotonic_ms(), clock.wall_ms())

    def _carry_out(self, led: ShardContext, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, value):
                    question, number = cast("ResponseToken", token)
                    question.answer(number, value)
                case Schedule(deadline_ms, key):
                    self._schedule(deadline_ms, led, key)
                case Append() | AppendInTransaction():
                    if not led.outbox:
                        self._world.tasks.call_soon(lambda: self._flush(led))
                    led.outbox.append(effect)

    def _feed(self, led: ShardContext, event: Event) -> None:
        """Give a shard the outcome of an append. One may come while another is being carried out: in turn, then."""
        led.events.append(event)
        if led.stepping:
            return
        led.stepping = True
        try:
            while led.events and not led.done:
                self._carry_out(led, led.shard.step(led.events.popleft(), self._now()))
        finally:
            led.stepping = False

    def _flush(self, led: ShardContext) -> None:
        """Append what one turn of the loop has gathered."""
        appends, led.outbox = led.outbox, []
        if led.done:
            return
        for producer, some in groupby(appends, _producer_of):
            pairs = [(append.seq, append.records) for append in some]
            most = led.replica.log.config.max_message_bytes
            for one in batches_of(pairs, self._world.clock.wall_ms(), self._max_bytes, producer, most):
                if led.done:
                    return  # the append before this one showed that the disk is gone
                if isinstance(one, Unwritable):
                    log.warning("a record for %s cannot be written: %s", led.replica.partition, one.why)
                    self._feed(led, AppendRefused(one.seq, one.code))
                else:
                    self._append(led, one)

    def _append(self, led: ShardContext, one: OffsetsBatch) -> None:
        if led.replica.machine.leader_epoch != led.epoch:
            code = Code.NOT_LEADER_OR_FOLLOWER
        else:
            appended = self._replicas.append(led.replica, one.data, -1, internal=True)
            code = appended.code
        if code is Code.NONE:
            self._when_committed(led, appended.last_offset + 1, _committed(self._feed, led, one.seqs))
            return
        log.warning("appending to %s was refused: %s", led.replica.partition, code.name)
        for seq in one.seqs:
            self._feed(led, AppendRefused(seq, code))

    # ---- time

    def _schedule(self, deadline_ms: int, led: ShardContext, key: TimerKey) -> None:
        self._count += 1
        heappush(self._heap, (deadline_ms, self._count, led, key))
        if self._timer is None or deadline_ms < self._timer_at:
            self._arm(deadline_ms)

    def _arm(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline_ms
        wait_ms = max(deadline_ms - self._world.clock.monotonic_ms(), 0)
        self._timer = self._world.tasks.call_later(wait_ms, self._time)

    def _time(self) -> None:
        self._timer = None
        now_ms = self._world.clock.monotonic_ms()
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap))
        for _, _, led, key in due:
            if not led.done:
                self._carry_out(led, led.shard.step(Expired(key), self._now()))
        if self._heap:
            self._arm(self._heap[0][0])


def _producer_of(append: Append | AppendInTransaction) -> Producer | None:
    return append.producer if isinstance(append, AppendInTransaction) else None


def _committed(
    feed: Callable[[ShardContext, Event], None], led: ShardContext, seqs: tuple[int, ...]
) -> Callable[[], object]:
    return lambda: feed(led, AppendCommitted(seqs))


def groups_config(config: ReplicaSettings) -> GroupsConfig:
    """The coordinator's settings out of the node's."""
    return GroupsConfig(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
        offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
        offset_commit_timeout_ms=config["offsets.commit.timeout.ms"],
    )
