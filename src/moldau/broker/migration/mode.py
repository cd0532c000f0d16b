"""Brokers that are still in ZooKeeper mode, as the quorum's ruling controller sees them.

They are alive as long as their znodes stand, and their epochs are ZooKeeper's (czxid). So this file sends heartbeats
for them: a session of the quorum's must not run out on somebody who has none. Who wants to take part says so by
BrokerRegistration, which proves that it reaches the quorum; the znode proves who it is. Source: KIP-866.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from moldau.broker.host import Host, WithClusterId, WithPeers
from moldau.broker.node_parts import WithController
from moldau.broker.zookeeper.channels import Channels
from moldau.broker.zookeeper.translation import incarnation
from moldau.controller import requests
from moldau.controller.replies import Refused
from moldau.image import Broker, Image
from moldau.model import Code
from moldau.model.ids import is_topic_name
from moldau.model.protocol import Protocol
from moldau.ports import Handle
from moldau.ports.zookeeper import NoNode, ZooKeeper, ZooKeeperError
from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import BrokerZnode, parse_broker, parse_topic

log = logging.getLogger(__name__)

BEAT_MS = 500


class MetadataLogPlane(Protocol):
    """The metadata log."""

    @property
    def next_offset(self) -> int: ...


class Counting(Host, WithController, WithClusterId, WithPeers, Protocol):
    """A controller that speaks for brokers in ZooKeeper mode."""

    @property
    def plane(self) -> MetadataLogPlane: ...


class ZooKeeperMode:
    """All brokers in that mode. ``channels``: how they are told. ``take_notes``: takes what they left in ZooKeeper."""

    def __init__(
        self, node: Counting, zk: ZooKeeper, channels: Channels, take_notes: Callable[[], Awaitable[object]]
    ) -> None:
        self._node = node
        self._zk = zk
        self._channels = channels
        self._take_notes = take_notes
        self._news = asyncio.Event()
        self._task: Handle | None = None
        self._armed_in = 0
        self.seen: dict[int, tuple[BrokerZnode, int]] | None = None
        """Broker -> its znode and the epoch of its registration; None until ZooKeeper has answered."""

    def open(self) -> None:
        """Begin to speak for them."""
        self.close()
        self._task = self._node.world.tasks.spawn(self._live(), "brokers in ZooKeeper mode")

    def close(self) -> None:
        self.seen = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _live(self) -> None:
        while True:
            self._news.clear()
            try:
                await self.read_registrations()
                await self._take_notes()
            except ZooKeeperError as error:
                log.debug("no look at the registrations: %s", error)  # as they were last, then
            await self._send_heartbeat()
            timer = self._node.world.tasks.call_later(BEAT_MS, self._news.set)
            await self._news.wait()
            timer.cancel()

    async def read_registrations(self) -> None:
        """See who is registered in ZooKeeper; whoever was and is not any more is fenced."""
        names = await self._registered()
        ids, _ = paths.broker_ids(names)
        seen = {}
        for id, found in zip(ids, await self._zk.get_many([paths.broker(id) for id in ids]), strict=True):
            try:
                if found is not None:
                    seen[id] = parse_broker(id, found[0]), found[1].czxid
            except BadZnode as error:
                log.error("broker %d does not count: %s", id, error)
        self.seen = seen
        gone = tuple((broker.id, broker.epoch) for broker in self._all() if not broker.fenced and not self._is(broker))
        if gone:
            log.info("brokers %s are not registered in ZooKeeper any more", [id for id, _ in gone])
            await self._node.controller.submit(requests.BrokersGone(brokers=gone))

    async def _registered(self) -> list[str]:
        """With one watch at a time: it is looked twice a second, and every watch stays until something happens."""
        if self._armed_in == (session := self._zk.session_id):
            return await self._zk.children(paths.BROKER_IDS)
        self._armed_in = session
        try:
            return await self._zk.children(paths.BROKER_IDS, self._came_or_went)
        except ZooKeeperError:
            self._armed_in = 0
            raise

    def _came_or_went(self, happened: object, path: str) -> None:
        self._armed_in = 0
        self._news.set()

    def _all(self) -> list[Broker]:
        return [broker for broker in self._node.metadata.image.brokers.values() if broker.is_migrating]

    def _is(self, broker: Broker) -> bool:
        """Whether the registration that we know is the one that stands."""
        return self.seen is None or (broker.id in self.seen and self.seen[broker.id][1] == broker.epoch)

    async def _send_heartbeat(self) -> None:
        read = self._channels.readers()
        for broker in self._all():
            if not self._is(broker):
                continue
            offset = read.get(broker.id, -1)
            if broker.fenced:
                where = broker.endpoints[0] if broker.endpoints else None
                if self.seen is None or broker.in_controlled_shutdown or where is None:
                    continue
                if await self._node.peers.refuses(where.host, where.port):
                    continue  # its process is gone; its session will follow
                offset = self._node.plane.next_offset
            ask = requests.BrokerHeartbeat(broker_id=broker.id, broker_epoch=broker.epoch, metadata_offset=offset)
            await self._node.controller.submit(ask)

    # ---- who takes part

    async def missing(self) -> list[str]:
        """In words: brokers of which there is a trace in ZooKeeper, and that are not ready to be led by the quorum."""
        await self.read_registrations()
        assert self.seen is not None
        if not self.seen:
            return ["any broker (none is registered in ZooKeeper)"]
        listener = self._node.config.inter_broker_listener
        found = []
        for id, (znode, epoch) in sorted(self.seen.items()):
            known = self._node.metadata.image.brokers.get(id)
            if known is None or not known.is_migrating or known.epoch != epoch or known.fenced:
                found.append(f"broker {id} (not registered with the quorum: restart it to migrate)")
            elif not any(endpoint.name == listener for endpoint in znode.endpoints):
                found.append(f"broker {id} (no listener {listener}: set inter.broker.listener.name on the controllers)")
        if not found:
            absent = sorted(await self._with_replicas() - self.seen.keys())
            found = [f"broker {id} (it holds replicas, and is not registered in ZooKeeper: start it)" for id in absent]
        return found

    async def _with_replicas(self) -> set[int]:
        names = [name for name in await self._zk.children(paths.TOPICS) if is_topic_name(name)]
        topics = await self._zk.get_many([paths.topic(name) for name in names])
        ids: set[int] = set()
        for name, found in zip(names, topics, strict=True):
            if found is not None:
                for assignment in parse_topic(name, found[0]).partitions.values():
                    ids.update(assignment.replicas)
        return ids

    async def admit(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """A broker in ZooKeeper mode wants to take part."""
        if not self._node.controller.active:
            return BrokerRegistrationResponse(error_code=Code.NOT_CONTROLLER)
        if request.cluster_id != self._node.cluster_id:
            return BrokerRegistrationResponse(error_code=Code.INCONSISTENT_CLUSTER_ID)
        try:
            data, stat = await self._zk.get(paths.broker(request.broker_id))
            znode = parse_broker(request.broker_id, data)
        except (NoNode, BadZnode) as error:
            log.info("broker %d is not taken in: %s", request.broker_id, error)
            return BrokerRegistrationResponse(error_code=Code.BROKER_ID_NOT_REGISTERED)
        except ZooKeeperError:
            return BrokerRegistrationResponse(error_code=Code.REQUEST_TIMED_OUT)
        if znode.incarnation_id != request.incarnation_id:
            return BrokerRegistrationResponse(error_code=Code.DUPLICATE_BROKER_REGISTRATION)
        known = self._node.metadata.image.brokers.get(znode.id)
        if known is not None and (known.is_migrating, known.epoch, known.endpoints) == (
            True,
            stat.czxid,
            znode.endpoints,
        ):
            return BrokerRegistrationResponse(broker_epoch=stat.czxid)
        return await self._take_in(znode, stat.czxid, known)

    async def _take_in(self, znode: BrokerZnode, epoch: int, known: Broker | None) -> BrokerRegistrationResponse:
        controller = self._node.controller
        gone = known is None or known.is_migrating or await controller.predecessor_is_gone(znode.id)
        reply = await controller.submit(
            requests.RegisterBroker(
                broker_id=znode.id,
                cluster_id=self._node.cluster_id,
                incarnation_id=incarnation(epoch),
                endpoints=znode.endpoints,
                features=znode.features,
                rack=znode.rack,
                is_migrating_zk_broker=True,
                previous_is_gone=gone,
                broker_epoch=epoch,
            )
        )
        self._news.set()
        if isinstance(reply, Refused):
            return BrokerRegistrationResponse(error_code=reply.code)
        log.info("broker %d is in ZooKeeper mode and takes part, epoch %d", znode.id, epoch)
        return BrokerRegistrationResponse(error_code=reply.code, broker_epoch=reply.broker_epoch)


def controllers_missing(image: Image, voters: Iterable[int]) -> list[str]:
    """In words: controllers that might rule one day and are not set up to migrate."""
    ready = {id for id, controller in image.controllers.items() if controller.zk_migration_ready}
    return [f"controller {id} (not started, or not with the setting)" for id in sorted(set(voters) - ready)]
