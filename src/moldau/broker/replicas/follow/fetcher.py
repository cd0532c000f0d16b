"""Following one leader: fetch for all partitions it leads for us, append what comes, truncate where told.

A follower fetches like a consumer, in one incremental session (KIP-227), long-polling: a request names only partitions
whose position changed. A partition that joins while a request waits at the leader is sent after it at once; a Moldau
leader then answers the waiting one, so that a failover does not wait for replica.fetch.wait.max.ms. What an answer
means is ``moldau.replication``'s. Driven by callbacks, one per answer: no task per partition, no timer per partition.
Read next: ``replicas/follow/partition.py``, what is known of one partition's fetching.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from moldau.broker.network.peers import ask_over
from moldau.broker.replicas.follow.partition import AWAITS_DISK, FollowedPartition, Mention, SentFetch, retry_wait_ms
from moldau.broker.replicas.host import ReplicaHost
from moldau.broker.replicas.lost import append_failed
from moldau.broker.replicas.replica import Key, Replica
from moldau.client.lines import Line
from moldau.model import Code
from moldau.ports import Handle
from moldau.replication.epochs import NO_EPOCH, NO_OFFSET
from moldau.replication.facts import FetchAnswer
from moldau.replication.follower import Next
from moldau.storage import LogError
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from moldau.wire.messages.k02_list_offsets import ListOffsetsResponse

log = logging.getLogger(__name__)

PARKED_MS = 3
"""A request unanswered for this long is taken to wait at the leader: another may follow it."""
_SESSION_ERRORS = frozenset(
    {Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.FETCH_SESSION_TOPIC_ID_ERROR}
)


class Fetcher:
    """The conversation with one leader. ``followed`` holds what is fetched from it."""

    def __init__(self, replicas: ReplicaHost, leader: int) -> None:
        self.leader = leader
        self.followed: dict[Key, FollowedPartition] = {}
        self._replicas = replicas
        self._deps = replicas.deps
        self._throttles = replicas.throttles
        self._tasks = self._deps.world.tasks
        config = self._deps.config
        self._wait_max_ms: int = config["replica.fetch.wait.max.ms"]
        self._min_bytes: int = config["replica.fetch.min.bytes"]
        self._max_bytes: int = config["replica.fetch.response.max.bytes"]
        self._partition_bytes: int = config["replica.fetch.max.bytes"]
        self._backoff_max_ms: int = config["replica.fetch.backoff.ms"]
        self._dirty: dict[Key, FollowedPartition] = {}  # to be named in the next request
        self._forgotten: dict[Key, str] = {}  # in the leader's session, and to leave it
        self._line: Line | None = None
        self._connecting: Handle | None = None
        self._session_id = 0
        self._session_epoch = 0
        self._sessionless = False
        self._told_epoch = self._deps.broker_epoch()
        self._serial = 0
        self._in_flight: deque[SentFetch] = deque()
        self._due: Handle | None = None
        self._failures = 0
        self._stopped = False

    def __repr__(self) -> str:
        session = f"session {self._session_id} at epoch {self._session_epoch}" if self._session_id else "no session"
        told = f"{len(self.followed)} partitions, {len(self._dirty)} to be named, {len(self._in_flight)} requests sent"
        return f"Fetcher(from broker {self.leader}: {told}, {session}, {self._failures} failures)"

    # ---- what is followed

    def follow(self, replica: Replica) -> None:
        """Fetch this replica's partition, from its log's end, under its machine's leader epoch."""
        following = self.followed.get(replica.key)
        if following is None or following.replica is not replica:
            following = self.followed[replica.key] = FollowedPartition(replica)
        following.unblock()
        self._name(following)

    def unfollow(self, replica: Replica) -> None:
        following = self.followed.pop(replica.key, None)
        if following is not None:
            following.unblock()
            self._leave_session(following)

    def leader_changed(self) -> None:
        """The leader registered anew or came back: whatever we waited for, try now."""
        self._failures = 0
        if self._line is None:
            if self._due is not None:
                self._due.cancel()
                self._due = None
            self._wake(0)

    def stop(self) -> None:
        """End the conversation."""
        self._stopped = True
        for handle in (self._due, self._connecting):
            if handle is not None:
                handle.cancel()
        for following in self.followed.values():
            following.unblock()
        self.followed.clear()
        self._hang_up()

    def _name(self, following: FollowedPartition) -> None:
        key = following.replica.key
        self._forgotten.pop(key, None)
        self._dirty[key] = following
        if not self._in_flight:
            self._wake(0)
        elif len(self._in_flight) == 1:
            self._wake(PARKED_MS)

    def _leave_session(self, following: FollowedPartition) -> None:
        key = following.replica.key
        self._dirty.pop(key, None)
        if following.in_session:
            following.in_session = False
            self._forgotten[key] = following.replica.partition.topic

    def _block(self, following: FollowedPartition) -> None:
        """Leave it out for a while: first briefly, since at a failover the leader is often a moment behind."""
        self._leave_session(following)
        wait_ms = following.next_backoff_ms(self._backoff_max_ms)
        following.delay = self._tasks.call_later(wait_ms, lambda: self._unblock(following))

    def flushed(self, replica: Replica) -> None:
        """What was fetched of it is durable, as far as that is wanted: a leader may hear how far it is."""
        following = self.followed.get(replica.key)
        if following is not None and following.delay is AWAITS_DISK:
            self._wake(0)
            self._unblock(following)

    def start_moved(self, replica: Replica) -> None:
        """Its log may begin elsewhere than the leader was told, by its own retention: nothing else names a quiet
        partition, and a leader's DeleteRecords waits to hear of it (KIP-107)."""
        following = self.followed.get(replica.key)
        if following is None or following.replica is not replica or not following.in_session:
            return
        if following.told_start != replica.log.log_start_offset:
            self._name(following)

    def _await_disk(self) -> None:
        """Leave out what has records that are not durable and should be: a leader takes what is fetched next for an
        acknowledgement of all before it. What waits for a new segment's file, too; and what was cut below its recovery
        point on file, which is being written."""
        for following in list(self._dirty.values()):
            partition_log = following.replica.log
            if partition_log.awaits_flush or partition_log.awaits_cut or partition_log.awaits_file:
                self._leave_session(following)
                following.delay = AWAITS_DISK

    def _hold_back(self) -> None:
        """Leave out what is throttled and has had its share, until there is more."""
        for following in list(self._dirty.values()):
            wait_ms = self._throttles.wait_ms(following.replica)
            if wait_ms:
                self._leave_session(following)
                following.delay = self._tasks.call_later(wait_ms, partial(self._unblock, following))

    def _unblock(self, following: FollowedPartition) -> None:
        following.delay = None
        if self.followed.get(following.replica.key) is following:
            self._name(following)

    # ---- the conversation

    def _wake(self, wait_ms: float) -> None:
        if self._due is None and not self._stopped:
            if wait_ms:
                self._due = self._tasks.call_later(wait_ms, self._go)
            else:
                self._due = self._tasks.call_soon(self._go)

    def _go(self) -> None:
        """Send the next request if it may be sent; connect first if need be."""
        self._due = None
        if self._stopped or not self.followed:
            return
        line = self._line
        if line is None:
            if self._connecting is None:
                self._connecting = self._tasks.spawn(self._connect(), f"fetcher-{self.leader}")
            return
        if line.closed:
            self._broken(ConnectionError("the connection was closed"))
            return
        if self._throttles.following.on:
            self._hold_back()
        if self._replicas.awaits_disk:
            self._await_disk()
        if not self._in_flight:
            if self._told_epoch != self._deps.broker_epoch():
                # Registered again: a leader notes by partition who fetches, and what is quiet would stay unnamed.
                self._begin_session()
            if self._dirty or any(following.in_session for following in self.followed.values()):
                self._send(line)
        elif len(self._in_flight) == 1 and (self._dirty or self._forgotten) and self._session_id:
            self._send(line)

    async def _connect(self) -> None:
        try:
            broker = self._replicas.image.brokers.get(self.leader)
            endpoint = None if broker is None else broker.endpoint(self._deps.config.inter_broker_listener)
            if endpoint is None:
                raise ConnectionError(f"broker {self.leader} has no address")
            self._line = await self._deps.connect(endpoint.host, endpoint.port)
        except OSError as error:
            self._connecting = None
            if isinstance(error, ConnectionRefusedError):
                self._deps.on_leader_refused(self.leader)
            self._retry(error)
            return
        self._connecting = None
        if self._stopped:
            self._hang_up()
            return
        self._begin_session()
        self._go()

    def _begin_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._told_epoch = self._deps.broker_epoch()
        self._forgotten.clear()
        self._dirty = {key: following for key, following in self.followed.items() if following.delay is None}
        for following in self.followed.values():
            following.in_session = False

    def _hang_up(self) -> None:
        self._in_flight.clear()
        if self._line is not None:
            self._line.close()
            self._line = None

    def _broken(self, error: BaseException) -> None:
        self._hang_up()
        if isinstance(error, AssertionError):  # our bug: it must stop the node, not hide here
            self._tasks.spawn(_fail(error), f"fetcher-{self.leader}")
            return
        if not isinstance(error, OSError):
            self._deps.on_unexpected_error(f"fetching from broker {self.leader}", error)
            error = ConnectionError(repr(error))
        self._deps.on_leader_lost(self.leader)
        self._retry(error)

    def _retry(self, error: OSError) -> None:
        self._failures += 1
        if self._failures == 1:
            log.info("fetching from broker %d is interrupted: %s", self.leader, error)
        self._wake(retry_wait_ms(self._failures, self._backoff_max_ms))

    def _send(self, line: Line) -> None:
        self._serial += 1
        request = self._request()
        sent = SentFetch(self._serial, self._session_epoch == 0)
        self._in_flight.append(sent)
        self._session_epoch = 1 if self._session_epoch == 0x7FFFFFFF else self._session_epoch + 1
        try:
            answer = asyncio.ensure_future(ask_over(line, request))
        except OSError as error:
            self._broken(error)
            return
        answer.add_done_callback(lambda done: self._answered(sent, done))

    def _request(self) -> FetchRequest:
        """Names what changed, or some of it: the rest is next; the session knows what did not."""
        topics: dict[bytes, FetchRequest.FetchTopic] = {}
        ahead = len(self._in_flight)
        named = dict(islice(self._dirty.items(), 2 * self._deps.world.step))
        for key in named:
            del self._dirty[key]
        for (topic_id, number), following in named.items():
            replica = following.replica
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchRequest.FetchTopic(topic=replica.partition.topic, topic_id=topic_id)
            position = fetch_offset, last_fetched_epoch = replica.machine.position()
            epoch, start = replica.machine.leader_epoch, replica.log.log_start_offset
            following.named(self._serial, Mention(epoch, position, start), at_once=not ahead)
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=number,
                    current_leader_epoch=epoch,
                    fetch_offset=fetch_offset,
                    last_fetched_epoch=last_fetched_epoch,
                    log_start_offset=start,
                    partition_max_bytes=self._partition_bytes,
                )
            )
        gone: dict[bytes, FetchRequest.ForgottenTopic] = {}
        if self._session_epoch:
            for (topic_id, number), name in self._forgotten.items():
                entry = gone.setdefault(topic_id, FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id))
                entry.partitions.append(number)
        self._forgotten = {}
        me = self._deps.me
        return FetchRequest(
            replica_id=me,
            replica_state=FetchRequest.ReplicaState(replica_id=me, replica_epoch=self._deps.broker_epoch()),
            # What opens the session does not wait: until it is answered there is no session to add partitions to. Nor
            # does what leaves more to be named.
            max_wait_ms=0 if self._dirty or not (self._session_epoch or self._sessionless) else self._wait_max_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    # ---- answers

    def _answered(self, sent: SentFetch, done: asyncio.Future[FetchResponse]) -> None:
        if not self._in_flight or self._in_flight[0] is not sent:
            if not done.cancelled():
                done.exception()  # of a conversation that has ended
            return
        error = done.exception() if not done.cancelled() else ConnectionError("the request was given up")
        if error is not None:
            self._broken(error)
            return
        self._in_flight.popleft()
        try:
            self._take(sent, done.result())
        except Exception as failure:
            self._broken(failure)
            return
        if not self._in_flight:
            self._go()
        elif self._dirty or self._forgotten:  # came while two were under way; what is under way now may wait for long
            self._wake(PARKED_MS)

    def _take(self, sent: SentFetch, response: FetchResponse) -> None:
        code = Code(response.error_code)
        if code in _SESSION_ERRORS:
            self._in_flight.clear()
            self._begin_session()
            return
        if code is not Code.NONE:
            raise ConnectionError(f"broker {self.leader} answers a fetch with {code.name}")
        if self._failures:
            log.info("fetching from broker %d goes on", self.leader)
            self._failures = 0
        if sent.opens_session:
            self._session_id = response.session_id
            self._sessionless = not response.session_id
            if self._sessionless:
                self._session_epoch = 0  # the leader keeps no session for us: every request names everything
        for topic in response.responses:
            topic_id = bytes(topic.topic_id)
            if not any(topic_id):
                topic_id = self._replicas.image.names.get(topic.topic, topic_id)
            for part in topic.partitions:
                following = self.followed.get((topic_id, part.partition_index))
                if following is not None:
                    self._apply_alone(following, sent.serial, part)
        if not self._session_id:
            self._dirty.update((k, f) for k, f in self.followed.items() if f.delay is None)

    def _apply_alone(self, following: FollowedPartition, serial: int, part: FetchResponse.PartitionData) -> None:
        """Apply a partition's answer; an error in it costs this partition, and not the others or this broker."""
        try:
            self._apply(following, serial, part)
        except AssertionError:
            raise
        except Exception as error:
            self._deps.on_unexpected_error(f"following {following.replica.partition}", error)
            if self.followed.get(following.replica.key) is following and following.delay is None:
                self._block(following)

    def _apply(self, following: FollowedPartition, serial: int, part: FetchResponse.PartitionData) -> None:
        """One partition's answer, as the machine judges it."""
        asked = following.as_of(serial)
        if asked is None:
            return
        replica = following.replica
        machine = replica.machine
        diverging = None
        if part.diverging_epoch.end_offset >= 0 or part.diverging_epoch.epoch >= 0:
            diverging = max(part.diverging_epoch.epoch, NO_EPOCH), max(part.diverging_epoch.end_offset, NO_OFFSET)
        answer = FetchAnswer(
            sent_epoch=asked.leader_epoch,
            sent_from=asked.position,
            code=Code(part.error_code),
            diverging=diverging,
            high_watermark=part.high_watermark,
            log_start_offset=part.log_start_offset,
        )
        then, effects = machine.fetch_answered(answer)
        if effects:
            self._replicas.act(replica, effects)
        match then:
            case Next.APPEND:
                self._append(following, part)
                if part.records or replica.log.log_start_offset != asked.log_start:
                    self._still(following)
            case Next.REFETCH:
                self._still(following)
            case Next.DROP:
                if (machine.leader_epoch, machine.position()) != (asked.leader_epoch, asked.position):
                    self._still(following)
            case Next.BACK_OFF:
                self._block(following)
            case Next.AWAIT_IMAGE:
                self._leave_session(following)
            case Next.ASK_RANGE:
                self._leave_session(following)
                self._tasks.spawn(self._ask_range(following), f"fetcher-{self.leader}-range")

    def _still(self, following: FollowedPartition) -> None:
        """Name it in the next request, unless something else became of it meanwhile."""
        if following.delay is None and self.followed.get(following.replica.key) is following:
            self._dirty[following.replica.key] = following

    def _append(self, following: FollowedPartition, part: FetchResponse.PartitionData) -> None:
        replica = following.replica
        if part.records:
            try:
                now_ms = self._deps.world.clock.wall_ms()
                appended = replica.log.append_follower(part.records, now_ms, replica.machine.leader_epoch)
            except LogError as error:
                append_failed(self._replicas, replica, error)
                if self.followed.get(replica.key) is following:
                    self._block(following)
                return
            replica.traffic.replicated_in += len(part.records)
            if appended.code is not Code.NONE:
                log.error("%s from broker %d: %s", replica.partition, self.leader, appended.message)
                self._block(following)
                return
            if self._throttles.following.on:
                self._throttles.received(replica, len(part.records))
        following.backoff_ms = 0
        effects = replica.machine.appended_from_leader(part.high_watermark, part.log_start_offset)
        if effects:
            self._replicas.act(replica, effects)

    async def _ask_range(self, following: FollowedPartition) -> None:
        """Our position is not in the leader's log: learn its start and end, and cut or start over."""
        machine = following.replica.machine
        epoch = machine.leader_epoch
        ends = []
        try:
            ends = [await self._list_offset(following.replica, epoch, timestamp) for timestamp in (-2, -1)]
        except OSError as error:
            log.info("%s: broker %d does not tell its range: %s", following.replica.partition, self.leader, error)
        if self.followed.get(following.replica.key) is not following or machine.leader_epoch != epoch:
            return
        if len(ends) == 2:
            self._replicas.act(following.replica, machine.out_of_range(*ends))
        self._block(following)

    async def _list_offset(self, replica: Replica, epoch: int, timestamp: int) -> int:
        from moldau.wire.messages.k02_list_offsets import ListOffsetsRequest  # here: a start sends none

        line = self._line
        if line is None:
            raise ConnectionError("not connected")
        request = ListOffsetsRequest
        asked = request.ListOffsetsPartition(
            partition_index=replica.key[1], current_leader_epoch=epoch, timestamp=timestamp
        )
        topic = request.ListOffsetsTopic(name=replica.partition.topic, partitions=[asked])
        response: ListOffsetsResponse = await ask_over(line, request(replica_id=self._deps.me, topics=[topic]))
        if [len(topic.partitions) for topic in response.topics] != [1]:
            raise ConnectionError(f"broker {self.leader} answers for other partitions than were asked for")
        part = response.topics[0].partitions[0]
        if part.error_code != Code.NONE or part.offset < 0:
            raise ConnectionError(f"broker {self.leader} answers {Code(part.error_code).name}, offset {part.offset}")
        return part.offset


async def _fail(error: BaseException) -> None:
    raise error
