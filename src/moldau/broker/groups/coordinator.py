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
from typing import Any, Generic, TypeVar, cast

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.broker.groups.offsets_log import OffsetsBatch, Replay, Unwritable, batches_of
from moldau.broker.loop import Pace, sleep
from moldau.broker.replicas.deps import ReplicaSettings
from moldau.broker.replicas.lost import read_failed
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
    Reply,
    Schedule,
    ShardReply,
    ShardRequest,
    SyncGroup,
    TimerKey,
    TopicsDeleted,
    TransactionalWriter,
    TransactionEnded,
    refuse,
)
from moldau.groups.group import MemberBytes
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.model.protocol import Protocol
from moldau.ports import Handle, World, pools
from moldau.ports.buggify import LOADING_COORDINATOR
from moldau.storage import LogError
from moldau.storage.slow import Slow
from moldau.wire.schema import Message

log = logging.getLogger(__name__)

LOADED_AT_ONCE = 200
"""Records applied before the loop turns: a broker that loads must go on sending heartbeats (docs/architecture.md, "One
loop, and what runs beside it")."""

AGAIN_MS, AGAIN_MAX_MS = 1_000, 60_000
"""How long groups that could not be loaded wait for the next attempt, at first and at most."""

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
"""The token of a request to a shard: the response that its reply is a part of, and the number of that part."""


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

    __slots__ = ("_call", "_context")

    def __init__(self, context: ShardContext, call: Callable[[], object]) -> None:
        self._context = context
        self._call = call

    @property
    def done(self) -> bool:
        return self._context.done

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
        self.shards: dict[int, ShardContext] = {}
        self._heap: list[tuple[int, int, ShardContext, TimerKey]] = []
        self._count = 0
        self._timer: Handle | None = None
        self._timer_at = 0

    # ---- requests

    def submit(
        self,
        requests: Sequence[GroupRequest],
        finish: Callable[[Sequence[Any]], R],  # Any: the reply to each part
    ) -> R | Awaitable[R]:
        """Give each request to the shard of its group; ``finish`` makes the response of the replies, in order."""
        pending = PendingResponse(len(requests), finish)
        for number, request in enumerate(requests):
            context = self.shards.get(self.partition_of(request.group_id))
            self._put(context, request, (pending, number))
        return self._outcome(pending)

    def submit_in_slices(
        self,
        requests: Sequence[GroupRequest],
        finish: Callable[[Sequence[Any]], R],  # Any: the reply to each part
    ) -> Generator[None, None, R | Awaitable[R]]:
        """As ``submit``, with a pause after so many requests: a long group id counts as several."""
        pending, pace = PendingResponse(len(requests), finish), Pace(self._world.step)
        for number, request in enumerate(requests):
            if pace.spent(weight(request.group_id)):
                yield
            context = self.shards.get(self.partition_of(request.group_id))
            self._put(context, request, (pending, number))
        return self._outcome(pending)

    def submit_all(
        self,
        request: ListGroups,
        finish: Callable[[Sequence[Any]], R],  # Any: the answer of each shard
    ) -> R | Awaitable[R]:
        """Give one request to every shard of this broker."""
        shards = list(self.shards.values())
        pending = PendingResponse(len(shards), finish)
        for number, context in enumerate(shards):
            self._put(context, request, (pending, number))
        return self._outcome(pending)

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that holds a group; -1 while there is no such topic."""
        topic = self._metadata.image.topic(OFFSETS)
        return -1 if topic is None else partition_for(group_id, len(self._replicas.undecided.whole(topic).partitions))

    def _put(self, context: ShardContext | None, request: ShardRequest, token: ResponseToken) -> None:
        if context is None:
            # A nameless group is nobody's: NOT_COORDINATOR would send its member round and round.
            nameless = isinstance(request, (Join, SyncGroup, Heartbeat, Leave)) and not request.group_id
            code = Code.INVALID_GROUP_ID if nameless else Code.NOT_COORDINATOR
            token[0].answer(token[1], refuse(request, code))
        elif (buggify := self._world.buggify) is not None and buggify(LOADING_COORDINATOR):
            token[0].answer(token[1], refuse(request, Code.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self._step(context, request, token)

    def _outcome(self, pending: PendingResponse[R]) -> R | Awaitable[R]:
        if pending.response is not None:
            return pending.response
        pending.future = asyncio.get_running_loop().create_future()
        return pending.future

    # ---- leading

    def begin_leading(self, replica: Replica, epoch: int) -> None:
        """This broker leads a partition of that epoch: if it is one of the offsets topic, its groups are loaded."""
        if replica.partition.topic != OFFSETS:
            return
        context = self.shards.get(replica.partition.partition)
        if context is not None:
            context.epoch = epoch  # the same leader under a new epoch: nobody else has written meanwhile
            return
        context = self._context(replica, epoch)
        if not replica.log.log_end_offset:
            # A new log has nothing to load: a member that is told to wait for it waits 3 s if it is librdkafka's.
            self._carry_out(context, context.shard.loaded(self._now()))
            return
        context.task = self._world.tasks.spawn(self._load(context), f"load {replica.partition}")

    def _context(self, replica: Replica, epoch: int) -> ShardContext:
        context = ShardContext(replica, epoch, self._config, self._held_bytes)
        self.shards[replica.partition.partition] = context
        return context

    def cease_leading(self, replica: Replica) -> None:
        """This broker leads a partition no more: nor does it coordinate its groups."""
        context = self.shards.get(replica.partition.partition)
        if context is not None and context.replica is replica:
            self._unload(context)

    def _unload(self, context: ShardContext) -> None:
        del self.shards[context.replica.partition.partition]
        context.done = True
        if context.task is not None:
            context.task.cancel()
        context.outbox.clear()
        self._carry_out(context, context.shard.unload())
        log.info("unloaded the groups of %s", context.replica.partition)

    async def _load(self, context: ShardContext, wait_ms: int = 0) -> None:
        if wait_ms:
            await sleep(self._world.tasks, wait_ms)
            context.ended.clear()  # they are in the log, below what is its end now
        partition_log = context.replica.log
        started_ms = self._world.clock.monotonic_ms()
        end = partition_log.log_end_offset
        replay = Replay(partition_log, end)
        count = 0
        try:
            for number, record in enumerate(replay.records()):
                if isinstance(record, Slow):
                    await self._world.tasks.off_loop(record, pools.COMPUTING)
                elif record is not None:
                    context.shard.apply(record)
                    count += 1
                if number % LOADED_AT_ONCE == 0:
                    await sleep(self._world.tasks, 0)
        except LogError as error:
            self._not_loaded(context, wait_ms, error)
            return
        for producer_id, record in replay.still_open():
            context.shard.apply_open(producer_id, [record])
        await self._committed_up_to(context, end)
        self._carry_out(context, context.shard.loaded(self._now()))
        for next_offset, ended in context.ended:
            self._end_transaction(context, next_offset, ended)
        if context.deleted:
            self._step(context, TopicsDeleted(frozenset(context.deleted)))
        took_ms = self._world.clock.monotonic_ms() - started_ms
        log.info("loaded %d records of %s in %d ms", count, context.replica.partition, took_ms)
        if replay.left_out:
            log.warning(
                "%d records or batches of %s could not be read and were left out: groups and offsets are as if these"
                " had not been written",
                replay.left_out,
                context.replica.partition,
            )

    def _not_loaded(self, context: ShardContext, waited_ms: int, error: LogError) -> None:
        """Have another replica lead if that mends it. Else this broker goes on to lead, so loading is tried again: what
        was in the way may pass, as where no file descriptor was free. Clients are told to wait for it meanwhile."""
        replica = context.replica
        log.error("the groups of %s cannot be loaded: %s", replica.partition, error)
        context.task = None
        if error.passing:
            self._replicas.failed(error)
        else:
            read_failed(self._replicas, replica, error, "the loading of the groups")
        if context.done:  # it leads no more
            return
        self._unload(context)
        again = self._context(replica, context.epoch)
        again.deleted = context.deleted
        work = self._load(again, longer_ms(waited_ms, AGAIN_MS, AGAIN_MAX_MS))
        again.task = self._world.tasks.spawn(work, f"load {replica.partition}")

    def transaction_ended(self, replica: Replica, producer_id: int, next_offset: int, *, commits: bool) -> None:
        """A marker was written to a partition of the offsets topic, just below ``next_offset``."""
        context = self.shards.get(replica.partition.partition)
        if context is None or context.replica is not replica:
            return
        ended = TransactionEnded(producer_id, commits)
        if context.shard.phase is Phase.LOADING:
            context.ended.append((next_offset, ended))
        else:
            self._end_transaction(context, next_offset, ended)

    def _end_transaction(self, context: ShardContext, next_offset: int, ended: TransactionEnded) -> None:
        self._when_committed(context, next_offset, lambda: self._feed(context, ended))

    async def _committed_up_to(self, context: ShardContext, end: int) -> None:
        """What an older leader wrote last may not be committed yet: read, it could still be taken back."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish() -> None:
            if not committed.done():
                committed.set_result(None)

        self._when_committed(context, end, finish)
        await committed

    def _when_committed(self, context: ShardContext, next_offset: int, call: Callable[[], object]) -> None:
        listener = _WatermarkListener(context, call)
        code = context.replica.machine.acknowledged(next_offset)
        if code is None:
            context.replica.when_committed(next_offset, listener)
        else:
            listener.complete(None, code)

    def apply(self, image: Image, delta: Delta) -> None:
        """Forget the offsets of topics that are gone."""
        gone = frozenset(delta.deleted_topics(image).values())
        if not gone:
            return
        for context in list(self.shards.values()):
            if context.shard.phase is Phase.LOADING:
                context.deleted |= gone
            else:
                self._step(context, TopicsDeleted(gone))

    def stop(self) -> None:
        """This broker goes: everybody who waits is told to look elsewhere."""
        for context in list(self.shards.values()):
            self._unload(context)
        if self._timer is not None:
            self._timer.cancel()

    # ---- effects

    def _now(self) -> Now:
        clock = self._world.clock
        return Now(clock.monotonic_ms(), clock.wall_ms())

    def _step(self, context: ShardContext, event: ShardRequest | Event, token: ResponseToken | None = None) -> None:
        """Give a shard a request or an event, with what its log takes now."""
        context.shard.record_bytes_max = context.replica.log.config.max_message_bytes
        self._carry_out(context, context.shard.step(event, self._now(), token))

    def _carry_out(self, context: ShardContext, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(token, value):
                    pending, number = cast("ResponseToken", token)
                    pending.answer(number, value)
                case Schedule(deadline_ms, key):
                    self._schedule(deadline_ms, context, key)
                case Append() | AppendInTransaction():
                    if not context.outbox:
                        self._world.tasks.call_soon(lambda: self._flush(context))
                    context.outbox.append(effect)

    def _feed(self, context: ShardContext, event: Event) -> None:
        """Give a shard the outcome of an append. One may come while another is being carried out: in turn, then."""
        context.events.append(event)
        if context.stepping:
            return
        context.stepping = True
        try:
            while context.events and not context.done:
                self._step(context, context.events.popleft())
        finally:
            context.stepping = False

    def _flush(self, context: ShardContext) -> None:
        """Append what one turn of the loop has gathered."""
        appends, context.outbox = context.outbox, []
        if context.done:
            return
        for producer, some in groupby(appends, _producer_of):
            pairs = [(append.seq, append.records) for append in some]
            most = context.replica.log.config.max_message_bytes
            for one in batches_of(pairs, self._world.clock.wall_ms(), most // 2, producer, most):
                if context.done:
                    return  # the append before this one showed that the disk is gone
                if isinstance(one, Unwritable):
                    log.warning("a record for %s cannot be written: %s", context.replica.partition, one.why)
                    self._feed(context, AppendRefused(one.seq, one.code))
                else:
                    self._append(context, one)

    def _append(self, context: ShardContext, one: OffsetsBatch) -> None:
        if context.replica.machine.leader_epoch != context.epoch:
            code = Code.NOT_LEADER_OR_FOLLOWER
        else:
            appended = self._replicas.append(context.replica, one.data, -1, internal=True)
            code = appended.code
        if code is Code.NONE:
            self._when_committed(context, appended.last_offset + 1, _committed(self._feed, context, one.seqs))
            return
        log.warning("appending to %s was refused: %s", context.replica.partition, code.name)
        for seq in one.seqs:
            self._feed(context, AppendRefused(seq, code))

    # ---- time

    def _schedule(self, deadline_ms: int, context: ShardContext, key: TimerKey) -> None:
        self._count += 1
        heappush(self._heap, (deadline_ms, self._count, context, key))
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
        for _, _, context, key in due:
            if not context.done:
                self._step(context, Expired(key))
        if self._heap:
            self._arm(self._heap[0][0])


def _producer_of(append: Append | AppendInTransaction) -> TransactionalWriter | None:
    return append.producer if isinstance(append, AppendInTransaction) else None


def _committed(
    feed: Callable[[ShardContext, Event], None], context: ShardContext, seqs: tuple[int, ...]
) -> Callable[[], object]:
    return lambda: feed(context, AppendCommitted(seqs))


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
