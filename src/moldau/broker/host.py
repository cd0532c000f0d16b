"""What parts of a node ask of the node around them, in pieces: each part declares as one Protocol the pieces it uses.

So a part names its collaborators, and a test builds just these. Handlers of requests use ``services.py`` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.metadata.applied import WithMetadata
from moldau.model.protocol import Protocol

if TYPE_CHECKING:
    from moldau.broker.network.peers import Peers
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


class WithOwnEndpoints(Protocol):
    """A broker that is reached at addresses."""

    def own_endpoints(self) -> list[Endpoint]: ...


class WithIncarnation(Protocol):
    """A broker's life under one registration."""

    @property
    def incarnation_id(self) -> bytes: ...
