"""What parts of a node ask of the node around them, in pieces: each part declares as one Protocol the pieces it uses.

So a part names its collaborators, and a test builds just these. Handlers of requests use ``services.py`` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.metadata.applied import WithMetadata

if TYPE_CHECKING:
    from moldau.broker.controller.channel import ControllerChannel
    from moldau.broker.controller.service import ControllerService
    from moldau.broker.metadata.state_change_log import StateChangeLog
    from moldau.broker.network.peers import Peers
    from moldau.broker.replicas.manager import ReplicaManager
    from moldau.client.connection import ConnectionOptions
    from moldau.image import Endpoint


class Host(WithMetadata, Protocol):
    """A node: its settings, its ports and its committed metadata."""

    @property
    def config(self) -> NodeConfig: ...


class WithClusterId(Protocol):
    """A node that knows which cluster it belongs to."""

    @property
    def cluster_id(self) -> str: ...


class WithPeers(Protocol):
    """A node with connections to others."""

    @property
    def peers(self) -> Peers: ...


class WithChannel(Protocol):
    """A node that asks the active controller."""

    @property
    def asking(self) -> ControllerChannel: ...


class WithController(Protocol):
    """A node that may be the active controller."""

    @property
    def controller(self) -> ControllerService: ...


class WithReplicas(Protocol):
    """A broker whose logs are loaded."""

    @property
    def replicas(self) -> ReplicaManager: ...


class WithChannels(WithController, Protocol):
    """A controller that tells brokers in ZooKeeper mode what it decided."""

    @property
    def connection_options(self) -> ConnectionOptions: ...

    @property
    def state_change_log(self) -> StateChangeLog: ...


class WithOwnEndpoints(Protocol):
    """A broker that is reached at addresses."""

    def own_endpoints(self) -> list[Endpoint]: ...


class WithIncarnation(Protocol):
    """A broker's life under one registration."""

    @property
    def incarnation_id(self) -> bytes: ...
