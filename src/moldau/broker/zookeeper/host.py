"""A node in ZooKeeper mode.

``node.py`` makes one ``ZooKeeperHost`` for a node in this mode: it holds what is particular to the mode, and tells the
rest of the node on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.zookeeper.lifecycle import ZooKeeperLifecycle
from moldau.broker.zookeeper.parts import BrokerHost
from moldau.broker.zookeeper.rules import Rules

if TYPE_CHECKING:
    from moldau.broker.config.node_config import NodeConfig
    from moldau.broker.controller.channel import NodeToControllerChannel
    from moldau.broker.controller.service import ControllerService
    from moldau.broker.metadata.cache import MetadataCache
    from moldau.broker.metadata.state_change_log import StateChangeLog
    from moldau.broker.network.listener import SocketListener
    from moldau.broker.network.peers import Peers
    from moldau.broker.replicas.manager import ReplicaManager
    from moldau.broker.zookeeper.plane import ZooKeeperPlane
    from moldau.client.connection import ConnectionOptions
    from moldau.image import Endpoint
    from moldau.ports import World


class ZooKeeperHost:
    """One node in ZooKeeper mode. ``plane`` is there from the joining on; ``rules`` count from the start on."""

    def __init__(self, node: BrokerHost) -> None:
        self._node = node
        self.plane: ZooKeeperPlane
        self.rules = Rules()
        self.lifecycle: ZooKeeperLifecycle = ZooKeeperLifecycle(self)

    @property
    def config(self) -> NodeConfig:
        return self._node.config

    @property
    def world(self) -> World:
        return self._node.world

    @property
    def metadata(self) -> MetadataCache:
        return self._node.metadata

    @property
    def cluster_id(self) -> str:
        return self._node.cluster_id

    @property
    def peers(self) -> Peers:
        return self._node.peers

    @property
    def controller_channel(self) -> NodeToControllerChannel:
        return self._node.controller_channel

    @property
    def controller(self) -> ControllerService:
        return self._node.controller

    @property
    def replicas(self) -> ReplicaManager:
        return self._node.replicas

    @property
    def connection_options(self) -> ConnectionOptions:
        return self._node.connection_options

    @property
    def state_change_log(self) -> StateChangeLog:
        return self._node.state_change_log

    @property
    def listeners(self) -> list[SocketListener]:
        return self._node.listeners

    def own_endpoints(self) -> list[Endpoint]:
        """Where clients and brokers reach this broker."""
        return self._node.own_endpoints()

    async def open_to_clients(self) -> None:
        """The controller has told this broker everything: act on it, and let clients in."""
        await self._node.open_to_clients()
