"""Sends the active controller's decisions to live brokers: for each one ordered queue, and one task that retries.

A channel appears with its broker and goes with it, or with the controller role; what was queued then is void, for
whoever comes gets everything. A request is repeated until it is answered: all of them may be (``translation.py``). Its
connection stands for the broker: when it breaks, the controller role finds out why. What is sent is decided in
``batch.py``. Batches are begun one after the other (``request_batch.py``); a refused one ends the controller role.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from moldau.broker.host import Host
from moldau.broker.loop import sleep
from moldau.broker.network.peers import PeerLink
from moldau.broker.node_parts import WithBrokerChannels
from moldau.broker.zookeeper import batch, request_lines
from moldau.broker.zookeeper.directories import partition_codes
from moldau.broker.zookeeper.request_batch import RequestBatch, RequestsByBroker, UnsentRequests
from moldau.broker.zookeeper.rules import Rules
from moldau.broker.zookeeper.translation import roles_in
from moldau.broker.zookeeper.undeleted import Undeleted
from moldau.controller.replica_states import ReplicaStates, ReplicaStep
from moldau.controller.state_change import Author
from moldau.controller.states import ReplicaState
from moldau.image import Broker, Delta, Image, Topic
from moldau.image.partition import LOST, Key
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.ports.buggify import UNHEARD_ANSWER
from moldau.wire.codec import Malformed
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.schema import Message, Request

log = logging.getLogger(__name__)

OnResponse = Callable[[Broker, Message, Any], object]  # Any: the response of one of three requests

RETRY_MS = 20
RETRY_MAX_MS = 1_000
AGAIN_MS = 10_000
"""Before a broker whose disk took too long to delete replicas is told to delete them once more."""
UNSENT = object()
"""In place of the answer to a message that no request can carry."""


class ChannelsHost(Host, WithBrokerChannels, Protocol):
    """A controller that tells brokers in ZooKeeper mode."""


class Channel:
    """The requests that one broker, under one registration, has yet to be sent. ``sent_offset``: the offset up to which
    it has been told everything.

    ``just_registered``: it may not listen yet. Brokers of Apache Kafka register first: that one refuses a connection
    means nothing before it has answered once. Should it die meanwhile, its session ends. ``resends_when_stale``: see
    ``Rules``.
    """

    def __init__(
        self,
        node: ChannelsHost,
        broker: Broker,
        on_response: OnResponse,
        on_newer_controller: Callable[[int], object],
        *,
        just_registered: bool,
        resends_when_stale: bool,
    ) -> None:
        where = broker.endpoint(node.config.inter_broker_listener)
        assert where is not None, f"broker {broker.id} has no address"
        self._node = node
        self._on_response = on_response
        self._on_newer_controller = on_newer_controller
        self._just_registered = just_registered
        self._resends_when_stale = resends_when_stale
        self.broker = broker
        self.queue: deque[Message] = deque()
        self.queued_offset = -1
        self.sent_offset = -1
        self._closed = False
        self._news = asyncio.Event()
        self._link = PeerLink(node.world, where.host, where.port, node.connection_options, self._broken)
        self._task = node.world.tasks.spawn(self._send(), f"channel to broker {broker.id}")

    def enqueue(self, messages: list[Message], offset: int) -> None:
        """Queue what the broker must be told of the records up to ``offset``, which may be nothing."""
        self.queue.extend(messages)
        self.queued_offset = offset
        if not self.queue:
            self.sent_offset = offset
        self._news.set()

    def close(self) -> None:
        self._closed = True
        self._task.cancel()
        self._link.close()
        self.queue.clear()

    def _broken(self) -> None:
        if not self._just_registered:
            self._node.controller.failure_detector.probe(self.broker.id)

    async def _send(self) -> None:
        wait_ms = RETRY_MS
        while True:
            while not self.queue:
                self._news.clear()
                await self._news.wait()
            message = self.queue[0]
            answer = await self._once(message)
            if self._closed:
                return  # what it answered has ended the controller role
            if answer is not None:
                self._just_registered = False
                self.queue.popleft()
                wait_ms = RETRY_MS
                if not self.queue:
                    self.sent_offset = self.queued_offset
                if answer is not UNSENT:
                    self._on_response(self.broker, message, answer)
            else:
                self._broken()
                await sleep(self._node.world.tasks, wait_ms)
                wait_ms = min(wait_ms * 2, RETRY_MAX_MS)

    def _unsent(self, message: Message, error: Exception) -> object:
        log.error("broker %d is not told: no %s can carry it: %s", self.broker.id, type(message).__name__, error)
        return UNSENT

    async def _once(self, message: Message) -> Any:  # Any: as in OnResponse
        """The answer; None when the message must be repeated. One that no request can carry is answered by nobody, nor
        ever will be: it is passed over, since what follows it can still be told."""
        try:
            request = cast("Request[Message]", message)
            wait_ms = self._node.config["controller.socket.timeout.ms"]
            answer: Any = await self._link.ask(request, wait_ms)  # Any: as in OnResponse
        except OSError as error:
            if isinstance(error.__cause__, Malformed):
                return self._unsent(message, error)
            log.debug("broker %d: %s", self.broker.id, error)
            return None
        except (ValueError, OverflowError, struct.error) as error:
            return self._unsent(message, error)
        if (buggify := self._node.world.buggify) is not None and buggify(UNHEARD_ANSWER):
            return None
        code = Code(answer.error_code)
        if code is Code.STALE_BROKER_EPOCH and self._resends_when_stale:
            return None  # it has not yet heard of its own registration; another life of it gets another channel
        if code is Code.STALE_CONTROLLER_EPOCH:
            self._on_newer_controller(self.broker.id)
        if code is not Code.NONE:
            log.warning("broker %d answers %s with %s", self.broker.id, type(message).__name__, code.name)
        return answer


class Channels:
    """All channels of an active controller; none while this node is not."""

    def __init__(
        self,
        node: ChannelsHost,
        rules: Rules,
        *,
        to_migrating: bool = False,
        whole: Callable[[Topic], Topic] = lambda topic: topic,
    ) -> None:
        """``to_migrating``: see ``batch.Sender``. ``whole``: a topic with those partitions too whose states could not
        be read, which go with it."""
        self._node = node
        self._rules = rules
        self._whole = whole
        self._to_migrating = to_migrating
        self._sender: batch.SendingController | None = None
        self._written_by: dict[Key, int] = {}
        self._open: dict[int, Channel] = {}
        self.states = ReplicaStates(node.config.node_id)
        self.undeleted = Undeleted(self.states)
        self._soon: set[Channel] = set()
        """The channels to brokers that will be told again what they were too slow to delete."""
        self.on_deletion_answered: list[Callable[[], object]] = []
        """Called whenever a StopReplica was answered, or cannot be any more."""
        self.on_roles_answered: list[Callable[[int, int, dict[Key, Code]], object]] = []
        """Called with broker, broker epoch and a code for each partition whenever a LeaderAndIsr was answered."""
        self.on_later_log_epochs: list[Callable[[dict[Key, int]], object]] = []
        """Called with partition -> leader epoch, where a broker's log has a later epoch than it was told."""
        self.on_newer_controller: list[Callable[[int], object]] = []
        """Called with a broker that knows a newer controller epoch than ours, and refuses our requests from now on."""
        self._batch = RequestBatch()
        self.on_unsent: list[Callable[[str], object]] = []
        """Called with why, when a batch was refused since the one before was not sent: nothing more may be decided."""

    def open(self, controller_epoch: int, offset: int, written_by: Mapping[Key, int] | None = None) -> None:
        """Begin as controller: every live broker is told everything, before any decision is made. ``written_by``: see
        ``batch.Sender``."""
        self.close()
        self._written_by.update(written_by or {})
        self._sender = batch.SendingController(
            controller_id=self._node.config.node_id,
            controller_epoch=controller_epoch,
            listener=self._node.config.inter_broker_listener,
            to_migrating=self._to_migrating,
            sends_type=self._rules.sends_type,
            written_by=self._written_by,
        )
        image = self._node.metadata.image
        told = self._batch.begin()  # nothing is left over: it was closed
        told |= {broker.id: batch.full(image, broker, self._sender) for broker in batch.reachable(image, self._sender)}
        if self._node.state_change_log.is_traced:  # every replica of the cluster has a step
            self._log_steps(self.states.start(image))
        self._send([self._channel(image.brokers[id]) for id in told], told, offset)

    def close(self) -> None:
        """Be controller no longer: what is queued is not sent any more."""
        self._sender = None
        self._batch.sent()
        self._written_by.clear()
        self.undeleted.clear()
        self.states.clear()
        for channel in self._open.values():
            channel.close()
        self._open.clear()

    def send_changes(self, image: Image, delta: Delta) -> None:
        """Queue for each broker what a committed batch changes for it; a watcher of this node's metadata."""
        sender = self._sender
        if sender is None:
            return
        offset = image.offset
        live = {broker.id: broker for broker in batch.reachable(image, sender)}
        for id, channel in list(self._open.items()):
            if id not in live or live[id].epoch != channel.broker.epoch:
                channel.close()
                del self._open[id]
                self._deletion_answered()  # nothing that waits for an answer of this broker may wait any longer
        if (told := self._begin()) is None:
            return
        changes = list(delta.changes(image)) if self._written_by else []
        self._forget_writers(c.key for c in changes if batch.is_written(c))
        told |= batch.requests(image, delta, sender, self.states.deleting)
        self._forget_writers(c.key for c in changes if c.after is None)
        self.undeleted.asked(image, delta, sender)
        steps = self.states.follow(image, delta, also_healthy=self._node.state_change_log.is_traced)
        for id, broker in live.items():
            if id not in self._open:
                told[id] = [*self._everything(image, broker, sender), *self._again(image, broker, sender, steps)]
        for id in self._with_directory_back(image, delta):
            if id in self._open and id in live:
                told[id] = [*told.get(id, []), *self._deletions(image, live[id], steps)]
        self._log_steps(steps)
        self._send([self._channel(broker, just_registered=True) for broker in live.values()], told, offset)

    def _forget_writers(self, keys: Iterable[Key]) -> None:
        """This controller wrote the states of these partitions, or they are gone."""
        for key in keys:
            self._written_by.pop(key, None)

    def _with_directory_back(self, image: Image, delta: Delta) -> set[int]:
        """Brokers that have a replica of a topic that is being deleted again, whose directory had failed: nothing else
        would have them told to delete it, as they registered before that was known."""
        deleting = self.states.deleting
        return {
            replica
            for _, key, before, after in (delta.changes(image) if deleting else ())
            if key[0] in deleting and before is not None and after is not None
            for replica in after.replicas
            if replica in before.replicas and before.directory(replica) == LOST != after.directory(replica)
        }

    def _begin(self) -> RequestsByBroker | None:
        """A new batch; None where that is refused, and this is no controller any more."""
        sender = self._sender
        try:
            return self._batch.begin()
        except UnsentRequests as error:
            why = str(error)
            log.error("no further requests can be sent: %s", why)
            # Not here: the writer of znodes may be in the middle of telling what it has written.
            self._node.world.tasks.call_soon(lambda: self._tell_unsent(sender, why))
            return None

    def _tell_unsent(self, sender: batch.SendingController | None, why: str) -> None:
        if self._sender is sender:
            for listener in self.on_unsent:
                listener(why)

    def _send(self, channels: Iterable[Channel], told: RequestsByBroker, offset: int) -> None:
        """Queue a batch: what each of these brokers is told of the records up to ``offset``, which may be nothing."""
        assert self._sender is not None
        author = Author(self._sender.controller_id, self._sender.controller_epoch)
        self._node.state_change_log.say(request_lines.sent, author, told)
        for channel in channels:
            channel.enqueue(told.get(channel.broker.id, []), offset)
        self._batch.sent()

    def _everything(self, image: Image, broker: Broker, sender: batch.SendingController) -> list[Message]:
        return batch.full(
            image, broker, sender, set(self.states.on_broker(broker.id, ReplicaState.DELETION_SUCCESSFUL))
        )

    def _again(
        self, image: Image, broker: Broker, sender: batch.SendingController, steps: list[ReplicaStep]
    ) -> list[Message]:
        """What a broker is told to delete once more; ``steps`` gets those of the replicas."""
        stops, restarted = self.undeleted.again(image, broker, sender)
        told = [*stops, *self._deletions(image, broker, steps)]
        steps += restarted
        return told

    async def _tell_slow(self, channel: Channel) -> None:
        """Its disk took too long, and may have gone on: nothing else would have the broker told again, as it lives."""
        await sleep(self._node.world.tasks, AGAIN_MS)
        self._soon.discard(channel)
        broker, sender = channel.broker, self._sender
        if sender is None or self._open.get(broker.id) is not channel:
            return
        if (told := self._begin()) is None:
            return
        image, steps = self._node.metadata.image, list[ReplicaStep]()
        told[broker.id] = self._again(image, broker, sender, steps)
        self._log_steps(steps)
        self._send([channel], told, image.offset)

    def _deletions(self, image: Image, broker: Broker, steps: list[ReplicaStep]) -> list[Message]:
        """What a broker that registered is told of topics that are being deleted."""
        assert self._sender is not None
        keys = self.states.on_broker(broker.id, ReplicaState.DELETION_INELIGIBLE)
        there = [key for key in keys if key[0] in image.topics]
        for key in there:
            steps += self.states.again(broker.id, key)
        return self._tell_to_delete(image, broker, [id for id in self.states.deleting if id in image.topics], there)

    def _tell_to_delete(
        self, image: Image, broker: Broker, topic_ids: Iterable[bytes], keys: Iterable[Key]
    ) -> list[Message]:
        assert self._sender is not None
        stops = [(image.topics[id].name, number, batch.DURING_DELETE) for id, number in keys]
        return [
            *batch.topic_deletions(image, broker, [self._whole(image.topics[id]) for id in topic_ids], self._sender),
            *batch.deletion(broker, stops, self._sender),
        ]

    def delete(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Have brokers delete the replicas of topics that are marked for deletion; those of which that has not begun
        are returned. The others are told when they register, and each answer calls ``on_deletion_answered``."""
        image = self._node.metadata.image
        begun = [id for id in topic_ids if id in image.topics and id not in self.states.deleting]
        if self._sender is None or not begun or (told := self._begin()) is None:
            return []
        steps = [step for id in begun for step in self.states.delete(image, self._whole(image.topics[id]))]
        for id, channel in self._open.items():
            keys = self.states.on_broker(id, ReplicaState.DELETION_STARTED)
            new = [key for key in keys if key[0] in begun]
            told[id] = self._tell_to_delete(image, channel.broker, begun, new)
        self._log_steps(steps)
        self._send(self._open.values(), told, image.offset)
        self._deletion_answered()
        return begun

    def deleted(self) -> frozenset[bytes]:
        """Topics whose replicas are deleted, but for this node's."""
        return frozenset(id for id in self.states.deleting if self.states.are_deleted(id))

    def _log_steps(self, steps: Iterable[ReplicaStep]) -> None:
        """Lines of replicas' steps; Kafka's KRaft controllers write none, also while they tell brokers on ZooKeeper."""
        if self._sender is not None and not self._to_migrating:
            author = Author(self._sender.controller_id, self._sender.controller_epoch)
            self._node.state_change_log.stepped(steps, author)

    def _channel(self, broker: Broker, *, just_registered: bool = False) -> Channel:
        channel = self._open.get(broker.id)
        if channel is None:
            channel = self._open[broker.id] = Channel(
                self._node,
                broker,
                self._answered,
                self._newer_controller,
                just_registered=just_registered,
                resends_when_stale=self._rules.resends_when_stale,
            )
        return channel

    def _answered(self, broker: Broker, message: Message, answer: Any) -> None:  # Any: as in OnResponse
        if isinstance(message, StopReplicaRequest):
            self._log_steps(self.undeleted.stop_replica_answered(self._node.metadata.image, broker.id, message, answer))
            channel = self._open[broker.id]
            slow = any(one.error_code == Code.REQUEST_TIMED_OUT for one in answer.partition_errors)
            if slow and channel not in self._soon:
                self._soon.add(channel)
                self._node.world.tasks.spawn(self._tell_slow(channel), f"what broker {broker.id} has yet to delete")
            self._deletion_answered()
        elif isinstance(message, LeaderAndIsrRequest) and not answer.error_code and self.on_roles_answered:
            codes = partition_codes(message, answer)
            for listener in self.on_roles_answered:
                listener(broker.id, broker.epoch, codes)
            self._find_later_log_epochs(message, codes)

    def _find_later_log_epochs(self, message: LeaderAndIsrRequest, codes: Mapping[Key, Code]) -> None:
        fenced = {key for key, code in codes.items() if code is Code.FENCED_LEADER_EPOCH}
        if fenced:
            epochs = {(id, state.partition_index): state.leader_epoch for _, id, state in roles_in(message)}
            for listener in self.on_later_log_epochs:
                listener({key: epochs[key] for key in fenced if key in epochs})

    def _newer_controller(self, broker_id: int) -> None:
        for listener in self.on_newer_controller:
            listener(broker_id)

    def _deletion_answered(self) -> None:
        for listener in self.on_deletion_answered:
            listener()

    def send_roles_again(self, broker_id: int) -> None:
        """Tell a broker its roles, so that it answers which of them it can have; nothing without a channel to it."""
        channel, sender = self._open.get(broker_id), self._sender
        if channel is not None and sender is not None and (told := self._begin()) is not None:
            image = self._node.metadata.image
            # Also what the broker was told to delete and has not done yet: it would make these logs anew (C8).
            states = (
                ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE, ReplicaState.DELETION_SUCCESSFUL
            )  # fmt: skip
            gone = {key for state in states for key in self.states.on_broker(broker_id, state)}
            told[broker_id] = [batch.roles(image, channel.broker, sender, gone)]
            self._send([channel], told, image.offset)

    def readers(self) -> dict[int, int]:
        """Broker id -> offset up to which it has been told everything."""
        return {id: channel.sent_offset for id, channel in self._open.items()}

    def is_deleting(self, topic: str) -> bool:
        """Whether a live broker has yet to answer that it deletes replicas of a topic."""
        return any(
            isinstance(message, StopReplicaRequest) and any(t.topic_name == topic for t in message.topic_states)
            for channel in self._open.values()
            for message in channel.queue
        )
