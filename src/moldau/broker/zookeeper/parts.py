"""What the parts of the ZooKeeper plane ask of each other, of the plane and of the node; ``host.py`` is that node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from moldau.broker.host import Host, WithClusterId, WithOwnEndpoints, WithPeers
from moldau.broker.network.listener import SocketListener
from moldau.broker.node_parts import WithBrokerChannels, WithControllerChannel, WithReplicas
from moldau.broker.zookeeper.publishing import MetadataPublisher
from moldau.broker.zookeeper.rules import Rules
from moldau.image.partition import Key
from moldau.model import Code
from moldau.ports.zookeeper import CheckVersion, ZooKeeper
from moldau.wire.schema import Message
from moldau.zookeeper.known_znodes import KnownZnodes

T = TypeVar("T")


class Roles(Protocol):
    """Who tells brokers their roles, and hears what they answer."""

    @property
    def on_roles_answered(self) -> list[Callable[[int, int, dict[Key, Code]], object]]:
        """Called with broker, broker epoch and a code for each partition."""

    def send_roles_again(self, broker_id: int) -> object:
        """Tell a broker its roles once more."""


class PlaneChannels(Roles, Protocol):
    """A controller's channels to brokers."""

    @property
    def on_deletion_answered(self) -> list[Callable[[], object]]: ...

    def is_deleting(self, topic: str) -> bool:
        """Whether a live broker has yet to answer that it deletes replicas of a topic."""

    def delete(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Have brokers delete the replicas of topics; those of which that begins now are returned."""

    def deleted(self) -> frozenset[bytes]:
        """Topics whose replicas are deleted, but for this node's."""


class PlaneRequestHandler(Protocol):
    """What a controller tells this broker."""

    @property
    def complete(self) -> bool: ...


class PlaneSettings(Protocol):
    """Settings that stand in znodes."""

    async def of_topics(self, names: Iterable[str]) -> list[Message]:
        """Records of all settings that topics have."""


class PlaneWatching(Protocol):
    """What a controller watches."""

    def mark(self, what: str) -> None:
        """Something is to be looked at."""


class PlaneWriter(Protocol):
    """A controller's writes."""

    @property
    def guard(self) -> CheckVersion | None: ...

    @property
    def idle(self) -> bool: ...

    @property
    def known_znodes(self) -> KnownZnodes: ...


class PlaneLifecycle(Protocol):
    """This broker's registration."""

    @property
    def epoch(self) -> int: ...

    @property
    def registered(self) -> bool: ...

    @property
    def incarnation_id(self) -> bytes: ...

    async def register(self, zk: ZooKeeper) -> None:
        """Register in a session."""

    def lost(self) -> None:
        """The session expired."""

    def metadata_changed(self) -> None:
        """The image may have changed."""


class WriterPlane(Protocol):
    """Whose writes to ZooKeeper a ``Writer`` carries out."""

    @property
    def zk(self) -> ZooKeeper: ...

    async def connected(self) -> bool:
        """Wait while the link is SUSPENDED; whether the session lives."""

    async def deliver(
        self,
        records: Sequence[Message],
        offset: int,
        epoch: int,
    ) -> None:
        """Records are in the znodes."""

    def deposed(self, why: str) -> None:
        """A write was overtaken by another controller."""

    def denied(self, offset: int, why: str, code: Code = ...) -> None:
        """What was proposed up to ``offset`` cannot be written."""


class PlaneParts(Protocol):
    """The ZooKeeper plane, as its own parts see it."""

    claimed_epoch: int | None
    publisher: MetadataPublisher
    zk: ZooKeeper

    @property
    def channels(self) -> PlaneChannels: ...

    @property
    def controller_requests(self) -> PlaneRequestHandler: ...

    @property
    def settings(self) -> PlaneSettings: ...

    @property
    def watching(self) -> PlaneWatching: ...

    @property
    def writer(self) -> PlaneWriter: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def is_cut_off(self) -> bool: ...

    async def retire(self) -> None:
        """Be controller no longer, for this broker stops."""

    async def retry_until_connected(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat what may be repeated until it is answered."""

    async def connected(self) -> bool:
        """Wait while the link is SUSPENDED; whether the session lives."""

    async def feed(self, records: Sequence[Message]) -> None:
        """What another controller decided, or what stands in a znode."""

    def deposed(self, why: str) -> None:
        """This node may not be controller any more."""


class BrokerHost(
    Host, WithClusterId, WithControllerChannel, WithBrokerChannels, WithPeers, WithReplicas, WithOwnEndpoints, Protocol
):  # fmt: skip
    """The node, in whichever mode."""

    @property
    def listeners(self) -> list[SocketListener]: ...

    async def open_to_clients(self) -> None:
        """The controller has told this broker everything: act on it, and let clients in."""


class ZooKeeperNode(BrokerHost, Protocol):
    """One node in ZooKeeper mode."""

    @property
    def plane(self) -> PlaneParts: ...

    @property
    def lifecycle(self) -> PlaneLifecycle: ...

    @property
    def rules(self) -> Rules: ...
