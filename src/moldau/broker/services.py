"""What request handlers may use of the node that they answer for.

``BrokerServices`` are given to the functions ``handle`` of ``broker/api``, ``ControllerServices`` to the functions
``control``. The node builds them once, when what they hold exists: a broker's logs are loaded before its listeners
open, a controller's before the control plane starts. Handlers of one control plane only take that plane's services.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.metadata.cache import MetadataCache
from moldau.controller.replies import Refused
from moldau.image import Image
from moldau.model.protocol import Protocol
from moldau.model.value import value
from moldau.ports import World
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.broker.controller.channel import NodeToControllerChannel
    from moldau.broker.groups.coordinator import Coordinator
    from moldau.broker.metadata.encoded_topics import EncodedTopics
    from moldau.broker.metadata.recently_gone import RecentlyGone
    from moldau.broker.quotas.clients import ClientQuotas
    from moldau.broker.replicas.manager import ReplicaManager
    from moldau.broker.zookeeper.controller_requests import ControllerRequestHandler
    from moldau.quorum import Quorum
    from moldau.quorum.messages import VoterChangeResponse
    from moldau.storage import LogDirs
    from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


class Plane(Protocol):
    """What handlers ask of either control plane."""

    @property
    def leader(self) -> tuple[int | None, int]:
        """The active controller as known here, and its epoch."""

    @property
    def next_offset(self) -> int:
        """The offset that the next record of the metadata gets."""

    @property
    def is_cut_off(self) -> bool:
        """Whether there has been no connection with ZooKeeper for so long that nothing can be decided. Never in KRaft
        mode, where a leader that hears no majority resigns."""

    @property
    def why_no_controller(self) -> str:
        """Why nobody is the active controller though ZooKeeper says that somebody is, and what is to be done; "" when
        that is not known, and in KRaft mode."""

    @property
    def quorum(self) -> Quorum | None:
        """The state of this node's Raft replica; None while it does not run, and in ZooKeeper mode."""

    def voters(self) -> Mapping[int, tuple[str, int]]:
        """Controller id -> address."""

    def readers(self) -> Mapping[int, int]:
        """Node -> offset up to which the active controller has told it everything."""

    async def mark_for_deletion(self, topics: Sequence[str]) -> bool:
        """Have topics deleted as soon as they are eligible (TD-1); False when this is not the active controller any
        more. In KRaft mode no deletion waits."""

    def refused_deletion(self, topic_id: bytes) -> Refused | None:
        """Why a topic that was marked cannot be deleted."""


class QuorumRequests(Plane, Protocol):
    """The plane of KRaft mode."""

    def handle(self, request: Message, api_version: int) -> Any:  # Any: the response of the request, or a future of it
        """The response to a request of the quorum."""

    async def change_voters(self, request: Message) -> VoterChangeResponse:
        """The outcome of AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter."""

    async def upgrade(self, timeout_ms: int) -> VoterChangeResponse:
        """The outcome of raising kraft.version to 1."""


class ZooKeeperRequests(Plane, Protocol):
    """The plane of ZooKeeper mode."""

    @property
    def controller_requests(self) -> ControllerRequestHandler:
        """Where the controller's requests to this broker are carried out."""


class Deciding(Protocol):
    """The active controller, as handlers use it."""

    @property
    def active(self) -> bool:
        """Whether it still is."""

    async def submit(self, request: object) -> Any:  # Any: each request has a reply of its own kind
        """The reply, once its records are committed; ``Refused`` when the request as a whole is refused."""

    def connection_is_of(self, connection: Hashable | None, broker_id: int) -> None:
        """From now on the end of this connection is news of that broker."""

    async def predecessor_is_gone(self, broker_id: int) -> bool:
        """Whether the process that is registered under an id is certainly dead."""


class MigrationMode(Protocol):
    """Brokers of ZooKeeper mode under a controller of the quorum (KIP-866)."""

    async def admit(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """The answer to the registration of such a broker."""


class Migrating(Protocol):
    """A migration that this controller carries out."""

    @property
    def mode(self) -> MigrationMode: ...


@value(kw_only=True)
class NodeServices:
    """What every handler may use."""

    config: NodeConfig
    world: World
    cluster_id: str
    metadata: MetadataCache
    plane: Plane

    @property
    def image(self) -> Image:
        """The committed image of this node."""
        return self.metadata.image

    def voters(self) -> Mapping[int, tuple[str, int]]:
        """Controller id -> address."""
        return self.plane.voters()

    def controller_shown(self, live: Collection[int]) -> int:
        """The controller id for clients: one of the ``live`` brokers that they are shown, since requests are forwarded.

        Never another (KIP-590 allows any): librdkafka would wait for a controller that no answer lists until its next
        look at the brokers, ten seconds later; a cluster that starts would seem dead to it.
        """
        if self.config.on_zookeeper:
            leader, _ = self.plane.leader  # here the controller is a broker, and its clients may know it
            if leader is not None and leader in live:
                return leader
        return self.config.node_id if self.config.node_id in live else min(live, default=-1)


@value(kw_only=True)
class BrokerServices(NodeServices):
    """What a handler of a broker's listener may use."""

    replicas: ReplicaManager
    log_dirs: LogDirs
    load_coordinator: Callable[[], Coordinator]
    """``coordinator``, which is loaded when it is asked for."""
    encoded_topics: EncodedTopics
    recently_gone: RecentlyGone
    quotas: ClientQuotas
    controller_channel: NodeToControllerChannel
    creating: Counter[str]
    """Topics whose creation this broker asked for by itself and has no answer to yet: how often."""
    suspects_a_death: Callable[[], bool]
    """Whether a broker that the image shows alive has just refused us: the image is about to change."""

    @property
    def coordinator(self) -> Coordinator:
        """The group coordinator of this broker."""
        return self.load_coordinator()


@value(kw_only=True)
class ControllerServices(NodeServices):
    """What a handler of a controller may use. ``quotas``: None where a request costs nobody anything."""

    controller: Deciding
    quotas: ClientQuotas | None = None
    migration: Migrating | None = None


@value(kw_only=True)
class QuorumServices(ControllerServices):
    """What a handler of a controller may use in KRaft mode."""

    plane: QuorumRequests


@value(kw_only=True)
class ZooKeeperServices(BrokerServices):
    """What a broker's handler may use in ZooKeeper mode."""

    plane: ZooKeeperRequests
