"""What a broker is told in ZooKeeper mode: a controller's requests, fenced, one after the other, into the image.

Fences: a controller epoch older than the newest seen is STALE_CONTROLLER_EPOCH, as is one far ahead to which nobody
was elected; another life of this broker is STALE_BROKER_EPOCH (law Z3). A newer controller epoch deposes this node's
own. Nothing else says who speaks, so what no controller says is refused: a broker epoch that is left out, or is
nobody's, and a list of live brokers without the one that is told. This broker's logs may object as well:
``own_logs.py``. What a request means is ``translation.py``; this file adds what no request says and ZooKeeper knows:
epochs of brokers, settings of new topics. Once everything has been told, the image is complete and the replicas may
act on it. Our controllers say so (type FULL). Kafka's do not (type UNKNOWN): the first that they tell a broker that
registered is the whole cluster, and then, in one request, what it leads and follows
(KafkaController.onBrokerStartup).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from moldau.broker.loop import sleep, yield_to_loop
from moldau.broker.metadata.state_change_log import Line
from moldau.broker.replicas.folder_work import LAST_WORD_MS, RENAME_WAIT_MS
from moldau.broker.replicas.manager import REMOVED_AT_ONCE
from moldau.broker.zookeeper import own_logs, request_lines, translation
from moldau.broker.zookeeper.batch import FULL, UNKNOWN
from moldau.broker.zookeeper.outcomes import RoleOutcome, StopOutcome
from moldau.broker.zookeeper.parts import PlaneParts, ZooKeeperNode
from moldau.broker.zookeeper.request_lines import Request
from moldau.image.partition import Key
from moldau.model import Code, TopicPartition
from moldau.ports.zookeeper import ZooKeeperError
from moldau.storage.errors import LogError
from moldau.storage.folder import LogDir
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.records.metadata import PartitionRecord, TopicRecord
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.survey import get_each
from moldau.zookeeper.znodes import parse_controller_epoch

log = logging.getLogger(__name__)

RETRY_MS = 100
LOOK_MS = 10
HEAR_MS = 20_000
"""So long a registration that a controller knows of may take to be known here: less than Kafka's wait for an answer."""
LEAP = 1 << 16
"""So many elections at once this broker has not missed: an epoch that is further ahead is looked up in ZooKeeper."""


class RequestLog:
    """What the state-change log says of one request, before it is carried out and afterwards."""

    def __init__(
        self,
        node: ZooKeeperNode,
        request: Request,
        correlation_id: int,
    ) -> None:
        self._node = node
        self._request = request
        self._id = correlation_id
        self._began_ms = node.world.clock.monotonic_ms()
        self._say(request_lines.received)

    def fenced(self, known_epoch: int) -> None:
        """It comes from a controller of an older epoch."""
        self._say(request_lines.fenced, known_epoch)

    def done(self, outcomes: Iterable[RoleOutcome | StopOutcome] = ()) -> None:
        """It was carried out, without the partitions that were refused."""
        refused = {(one.topic, one.partition): one.code for one in outcomes if one.code is not Code.NONE}
        if refused:
            self._say(request_lines.refused, refused, self._node.metadata.image)
        self._say(request_lines.finished, self._node.world.clock.monotonic_ms() - self._began_ms)

    def _say(self, lines: Callable[..., Iterator[Line]], *more: object) -> None:
        self._node.state_change_log.say(lines, self._node.config.node_id, self._request, self._id, *more)


class ControllerRequestHandler:
    """One broker's. ``controller_epoch`` is the newest that was seen, in a request or won here."""

    def __init__(self, node: ZooKeeperNode, plane: PlaneParts) -> None:
        self._node = node
        self._plane = plane
        self._order = asyncio.Lock()
        self._cluster_known = self._looking = self._blind = False
        self._epochs_named = -1
        """Newest controller epoch under which this broker's epoch was named: whoever does so once always does."""
        self._registrations = -1
        """The last change of who is registered after which all epochs were looked up."""
        self._outdated: dict[Key, int] = {}
        """Later leader epochs of logs, which were named in the log already."""
        self._copies: set[tuple[str, str]] = set()
        """Topics with the ids of others, which were named in the log already."""
        self._asks_once = False
        """Whether the controller was Kafka's when it spoke last, which tells nobody again to delete a replica."""
        self._undeleted: dict[TopicPartition, LogDir] = {}
        """Directories of logs that went and whose folders may be there still."""
        self.controller_epoch = 0
        self.complete = False
        """Whether the image holds the whole cluster, so that what it does not hold is not there."""

    # ---- requests

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, correlation_id: int = 0
    ) -> tuple[Code, list[RoleOutcome]]:
        """The code of the whole, and the outcome of each partition."""
        await self._hear_of_registration(request)
        async with self._order:
            request_log = RequestLog(self._node, request, correlation_id)
            refusal = await self._forged(request) or self._refusal(request, request_log) or self._without_id(request)
            if refusal is not None:
                return refusal, []
            node = self._node
            image, me, logs = node.metadata.image, node.config.node_id, node.replicas.logs.logs
            believed, copies = own_logs.without_copies(request, logs, self._copies)
            records, outcomes = node.rules.leader_and_isr(image, me, believed, node.replicas.stopped)
            outdated, raised = list(own_logs.outdated(believed, logs, outcomes)), own_logs.is_raised(request)
            own_logs.name_outdated(outdated, self._outdated, raised=raised)
            if raised:
                outcomes = own_logs.held_back(outdated, records, outcomes)
            if (refusal := await self._apply(request, records)) is not None:
                return refusal, []
            self.complete |= request.type in {FULL, UNKNOWN} and self._cluster_known
            self._asks_once = request.type == UNKNOWN
            node.lifecycle.metadata_changed()
            outcomes = [
                one._replace(code=Code.KAFKA_STORAGE_ERROR) if node.replicas.is_offline(one.key) else one
                for one in (*outcomes, *copies)
            ]
            request_log.done(outcomes)
            return Code.NONE, outcomes

    async def update_metadata(self, request: UpdateMetadataRequest, correlation_id: int = 0) -> Code:
        """The code of the answer."""
        await self._hear_of_registration(request)
        async with self._order:
            request_log = RequestLog(self._node, request, correlation_id)
            refusal = await self._forged(request) or self._refusal(request, request_log) or self._without_id(request)
            if refusal is not None:
                return refusal
            node = self._node
            epochs = await self._epochs(await self._whose_epochs(request))
            gone = await self._gone(node.rules.unnamed(node.metadata.image, request))
            if (refusal := self._refusal(request)) is not None:
                return refusal
            records = node.rules.update_metadata(node.metadata.image, node.config.node_id, request, epochs, gone)
            self._set_aside(gone)
            if (refusal := await self._apply(request, records)) is not None:
                return refusal
            self._told_cluster(request)
            self._asks_once = request.type == UNKNOWN
            node.lifecycle.metadata_changed()
            request_log.done()
        if self._blind and not self._looking:
            self._looking = True
            node.world.tasks.spawn(self._look_again(), "epochs of brokers")
        return Code.NONE

    async def stop_replica(
        self, request: StopReplicaRequest, correlation_id: int = 0
    ) -> tuple[Code, list[StopOutcome]]:
        """The code of the whole, and the outcome of each partition. Of those that are deleted the folders
        have other names by then: a kill later brings none of their logs back. KAFKA_STORAGE_ERROR where a directory
        failed meanwhile, REQUEST_TIMED_OUT where its disk takes too long: what is in it may come back with it, so that
        the topic has to be kept until it is deleted. Kafka's brokers rename within the request, and answer no sooner.
        """
        there: dict[TopicPartition, LogDir] = {}
        code, outcomes = await self.stop(request, correlation_id, there)
        stopped = [one.topic_partition for one in outcomes]
        slow = await self._node.replicas.folders.given_up(stopped, LAST_WORD_MS if self._asks_once else RENAME_WAIT_MS)
        late = dict.fromkeys(slow, Code.REQUEST_TIMED_OUT)
        late |= {one: Code.KAFKA_STORAGE_ERROR for one, dir in there.items() if dir.offline is not None}
        for one, dir in there.items():
            if one in late:
                self._undeleted[one] = dir
            else:
                self._undeleted.pop(one, None)
        return code, [
            one._replace(code=late.get(one.topic_partition, Code.NONE)) if one.code is Code.NONE else one
            for one in outcomes
        ]

    async def stop(
        self, request: StopReplicaRequest, correlation_id: int, there: dict[TopicPartition, LogDir]
    ) -> tuple[Code, list[StopOutcome]]:
        """Stop the replicas that a request names: what ``stop_replica`` returns, before folders are renamed. ``there``
        is told in which directories logs were."""
        await self._hear_of_registration(request)
        async with self._order:
            request_log = RequestLog(self._node, request, correlation_id)
            if (refusal := await self._forged(request) or self._refusal(request, request_log)) is not None:
                return refusal, []
            node = self._node
            image, me = node.metadata.image, node.config.node_id
            records, outcomes = node.rules.stop_replica(image, me, request)
            outcomes = self._with_offline(outcomes)
            stops = translation.stops(image, me, request)
            logs = node.replicas.logs.logs
            for one in (outcome.topic_partition for outcome in outcomes):
                if (partition_log := logs.get(one)) is not None:
                    there[one] = partition_log.dir
                elif one in self._undeleted:
                    there[one] = self._undeleted[one]
            unbegun = self._unbegun(request, outcomes)
            if (refusal := await self._apply(request, records)) is not None:
                return refusal, []
            self._delete_unbegun(unbegun)
            for at, key in enumerate(stops, 1):
                node.replicas.stopped.stop(key)
                if not at % REMOVED_AT_ONCE:
                    await yield_to_loop(node.world.tasks)
            request_log.done(outcomes)
            return Code.NONE, outcomes

    def _unbegun(self, request: StopReplicaRequest, outcomes: Iterable[StopOutcome]) -> dict[TopicPartition, bytes]:
        """Partitions that are to be deleted, with their topics' ids, which have a log here of just that topic, but no
        replica yet: this broker is about to serve, or was never told of their part."""
        names, replicas = self._node.metadata.image.names, self._node.replicas
        fine = {one.topic_partition for one in outcomes if one.code is Code.NONE}
        found = {}
        for name, number, _, delete in translation.stopped_in(request):
            partition = TopicPartition(name, number)
            log_here = replicas.logs.logs.get(partition)
            id = None if log_here is None else log_here.topic_id
            if id is None or not delete or partition not in fine or replicas.has((id, number)):
                continue
            if id in (names.get(name), replicas.undecided.awaited.get(partition)):
                found[partition] = id
        return found

    def _delete_unbegun(self, partitions: Mapping[TopicPartition, bytes]) -> None:
        """Delete the logs of those that have no replica here by now, and are to have none: without one, nothing else
        would, and the next start would take them for strays."""
        image, replicas, me = self._node.metadata.image, self._node.replicas, self._node.config.node_id
        for partition, id in partitions.items():
            assigned = image.partition(id, partition.partition)
            is_needed = replicas.has((id, partition.partition)) or (assigned is not None and me in assigned.replicas)
            if is_needed or partition not in replicas.logs.logs:
                continue
            try:
                replicas.logs.delete_all((partition,), self._node.world.clock.wall_ms())
            except LogError as error:
                replicas.failed(error)

    def _with_offline(self, outcomes: Iterable[StopOutcome]) -> list[StopOutcome]:
        """The outcomes of a StopReplica: a replica in a directory that failed can be neither stopped nor deleted."""
        names, is_offline = self._node.metadata.image.names, self._node.replicas.is_offline
        return [
            one._replace(code=Code.KAFKA_STORAGE_ERROR)
            if one.code is Code.NONE and one.topic in names and is_offline((names[one.topic], one.partition))
            else one
            for one in outcomes
        ]

    def _told_cluster(self, request: UpdateMetadataRequest) -> None:
        me = self._node.config.node_id
        without_type = request.type == UNKNOWN and any(shown.id == me for shown in request.live_brokers)
        self._cluster_known |= request.type == FULL or without_type
        if without_type and not self.complete:  # Kafka's controller sends a broker without replicas nothing more
            self.complete = not translation.names_replica(request, me)

    # ---- fences

    async def _hear_of_registration(self, request: Request) -> None:
        """A controller may hear of this broker's registration before the broker hears that it is made. Kafka's brokers
        take what such a one says (``KafkaApis.isBrokerEpochStale``), and its controllers say it once: refused, this
        broker would never serve."""
        own, clock = self._node.lifecycle, self._node.world.clock
        until_ms = clock.monotonic_ms() + HEAR_MS
        while not own.registered and request.broker_epoch > own.epoch and clock.monotonic_ms() < until_ms:
            await sleep(self._node.world.tasks, LOOK_MS)

    async def _forged(self, request: Request) -> Code | None:
        """The code for a request that no controller sends, as far as its fences tell."""
        if await self._unelected(request):
            return Code.STALE_CONTROLLER_EPOCH
        node = self._node
        if not node.lifecycle.registered or request.controller_epoch < self.controller_epoch:
            return None  # refused for that
        if request.controller_epoch == self._plane.claimed_epoch:
            return None  # and for that
        if await self._misaddressed(request):
            log.warning(
                "controller %d of epoch %d names broker epoch %d: refused, this broker's is %d",
                request.controller_id,
                request.controller_epoch,
                request.broker_epoch,
                node.lifecycle.epoch,
            )
            return Code.STALE_BROKER_EPOCH
        if isinstance(request, UpdateMetadataRequest) and not translation.names_broker(
            request, node.config.node_id, node.own_endpoints()
        ):
            log.warning("controller %d tells of a cluster without this broker: refused", request.controller_id)
            return Code.INVALID_REQUEST
        return None

    async def _misaddressed(self, request: Request) -> bool:
        """Whether a request names a registration of this broker that there never was, or leaves it out where the same
        controller named it before: Kafka's name it since 2.2, and go by other numbers in a migration only (KIP-866)."""
        if request.is_k_raft_controller:
            return not self._node.config.migrates
        if request.broker_epoch < 0:
            return request.controller_epoch <= self._epochs_named
        if request.broker_epoch <= self._node.lifecycle.epoch:
            return False
        try:  # a controller may hear of a new registration before its broker does
            stat = await self._plane.zk.exists(paths.broker(self._node.config.node_id))
        except ZooKeeperError:
            return True
        return stat is None or stat.czxid != request.broker_epoch

    async def _unelected(self, request: Request) -> bool:
        """Whether the request's epoch is far ahead of all that were heard of, and ZooKeeper knows of no such election.

        Believed, it would be passed over by the next candidacy, and an epoch near the largest number ends them all. Who
        names no broker epoch is looked up for any election that was not heard of.
        """
        if request.controller_epoch - self.controller_epoch <= (LEAP if request.broker_epoch >= 0 else 0):
            return False
        try:
            await self._plane.zk.sync()  # a server that lags would know of fewer
            elected = parse_controller_epoch((await self._plane.zk.get(paths.CONTROLLER_EPOCH))[0])
        except (ZooKeeperError, BadZnode):
            elected = self.controller_epoch
        if request.controller_epoch <= elected:
            return False
        log.warning(
            "controller %d claims epoch %d, to which nobody was elected: %d is the newest",
            request.controller_id,
            request.controller_epoch,
            elected,
        )
        return True

    def _refusal(self, request: Request, request_log: RequestLog | None = None) -> Code | None:
        if request.controller_epoch < self.controller_epoch:
            if request_log is not None:
                request_log.fenced(self.controller_epoch)
            log.warning(
                "controller %d of epoch %d is refused: epoch %d is known",
                request.controller_id,
                request.controller_epoch,
                self.controller_epoch,
            )
            return Code.STALE_CONTROLLER_EPOCH
        if request.controller_epoch == self._plane.claimed_epoch:
            log.warning("controller %d claims our own epoch, %d", request.controller_id, request.controller_epoch)
            return Code.STALE_CONTROLLER_EPOCH  # the controller's image is its own decisions, and nobody else's word
        own = self._node.lifecycle
        if not own.registered or 0 <= request.broker_epoch < own.epoch:
            return Code.STALE_BROKER_EPOCH
        self.saw(request.controller_epoch)
        if request.broker_epoch >= 0 and not request.is_k_raft_controller:
            self._epochs_named = max(self._epochs_named, request.controller_epoch)
        return None

    def _without_id(self, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> Code | None:
        """The code for a request that names topics and not their ids. An id of this broker's own would be written into
        the replica's folder: no leader of Kafka's knows it, and the one that the topic is given later is another."""
        name = translation.topic_without_id(request)
        if name is None:
            return None
        log.error(
            "controller %d names topic %s without a topic id: this broker takes no part until all brokers have"
            " inter.broker.protocol.version 2.8 or later",
            request.controller_id,
            name,
        )
        return Code.UNSUPPORTED_VERSION

    def saw(self, controller_epoch: int) -> None:
        """A controller of that epoch exists: older ones are deposed, this node among them."""
        self.controller_epoch = max(self.controller_epoch, controller_epoch)
        if self._plane.claimed_epoch is not None and self._plane.claimed_epoch < self.controller_epoch:
            self._plane.deposed(f"a controller of epoch {controller_epoch} speaks")

    def forget(self) -> None:
        """The session is over: what was told in it is no ground to serve on (law Z6)."""
        self.complete = False
        self._cluster_known = False

    # ---- what requests do not say

    async def _whose_epochs(self, request: UpdateMetadataRequest) -> list[int]:
        """Brokers whose epochs are to be looked up. Kafka's controllers name a broker that has registered again as if
        nothing had happened: without its new epoch it joined no ISR any more. So all are looked up under such a one
        whenever the list of registrations has changed."""
        named = translation.newly_live(self._node.metadata.image, request)
        if request.type != UNKNOWN:
            return named
        live = [shown.id for shown in request.live_brokers]
        try:
            await self._plane.zk.sync()
            stat = await self._plane.zk.exists(paths.BROKER_IDS)
        except ZooKeeperError:
            return live
        changed = stat is None or stat.pzxid != self._registrations
        self._registrations = -1 if stat is None else stat.pzxid
        return live if changed or self._blind else named

    async def _epochs(self, brokers: Sequence[int]) -> dict[int, int]:
        """Epochs of registrations: the transactions that made them. Who is not registered in ZooKeeper has -1: it is a
        KRaft broker (KIP-866), or the next request tells of it. So has who cannot be looked up."""
        found = {}
        self._blind = False
        if any(id != self._node.config.node_id for id in brokers):
            try:
                await self._plane.zk.sync()  # a server that lags would tell of an earlier life
            except ZooKeeperError:
                self._blind = True
        for id in brokers:
            if id == self._node.config.node_id:
                found[id] = self._node.lifecycle.epoch
                continue
            try:
                stat = await self._plane.zk.exists(paths.broker(id))
            except ZooKeeperError as error:
                log.warning("the epoch of broker %d cannot be looked up: %s", id, error)
                stat, self._blind = None, True
            found[id] = -1 if stat is None else stat.czxid
        return found

    async def _gone(self, topics: Sequence[str]) -> list[str]:
        """The topics that ZooKeeper does not know any more. A topic that the controller does not name and that
        stands there is one that it cannot read; while nobody answers none is gone."""
        if not topics:
            return []
        try:
            await self._plane.zk.sync()
            found = await get_each(self._plane.zk, [paths.topic(name) for name in topics])
        except ZooKeeperError as error:
            log.warning("the controller does not name topics %s, and nobody says whether they stand: %s", topics, error)
            return []
        kept = [name for name, one in zip(topics, found, strict=True) if one is not None]
        if kept:
            log.warning(
                "topics %s stay as they are: they stand in ZooKeeper, and the controller cannot read them", kept
            )
        return [name for name in topics if name not in kept]

    def _set_aside(self, topics: Sequence[str]) -> None:
        """Nobody told this broker to delete them: it was away when somebody did, or another client removed their
        znodes, or ZooKeeper is an older copy of itself. Their logs are an operator's to delete."""
        image = self._node.metadata.image
        undecided, has = self._node.replicas.undecided, self._node.replicas.has
        known = [(name, undecided.whole(image.topics[image.names[name]])) for name in topics]
        undecided.vanish(
            TopicPartition(name, n) for name, topic in known for n in topic.partitions if has((topic.id, n))
        )

    def _keep_replaced(self, records: Sequence[Message]) -> None:
        """A topic has another id, and nobody told this broker to delete its replicas of the one before, as whoever
        deletes a topic does (TD-2): it may be a tool's doing. Their logs are an operator's to delete."""
        image, replicas = self._node.metadata.image, self._node.replicas
        for record in (one for one in records if isinstance(one, TopicRecord)):
            before = image.topic(record.name)
            if before is not None and before.id != record.topic_id:
                keys = ((before.id, number) for number in replicas.undecided.whole(before).partitions)
                replicas.undecided.vanish(TopicPartition(before.name, key[1]) for key in keys if replicas.has(key))

    async def _look_again(self) -> None:
        """Epochs that could not be looked up, as soon as they can: until then those brokers join no ISR here."""
        while await self._plane.connected():
            async with self._order:
                image = self._node.metadata.image
                epochs = await self._epochs([broker.id for broker in image.live_brokers() if broker.epoch < 0])
                await self._plane.publisher.free()
                await self._plane.feed(translation.with_epochs(self._node.metadata.image, epochs))
                if not self._blind:
                    break
            await sleep(self._node.world.tasks, RETRY_MS)
        self._looking = False

    async def _apply(self, request: Request, records: list[Message]) -> Code | None:
        """Feed records, and the settings of topics that are new here; or why not: ZooKeeper was asked meanwhile, and
        carrying it out took its turns. A session that ended in one of these has been told nothing."""
        new = [record.name for record in records if isinstance(record, TopicRecord)]
        settings = await self._plane.settings.of_topics(new) if new else []
        await self._plane.publisher.free()
        if (refusal := self._refusal(request)) is not None:
            return refusal
        self._keep_replaced(records)
        if isinstance(request, LeaderAndIsrRequest):
            self._node.replicas.stopped.resume((role.topic_id, role.partition_id) for role in _roles(records))
        await self._plane.feed([*records, *settings])
        return self._refusal(request)


def _roles(records: Iterable[Message]) -> Iterator[PartitionRecord]:
    return (record for record in records if isinstance(record, PartitionRecord))
