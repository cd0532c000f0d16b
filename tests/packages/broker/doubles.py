"""A node as its parts, and handlers of requests, see it: real values where there are any, and doubles of its planes.

Settings, metadata and services are what a node has. What a test does not give fails it when it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.broker.controller.service import ControllerService
from moldau.broker.groups.coordinator import Coordinator
from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.metadata.encoded_topics import EncodedTopics
from moldau.broker.metadata.recently_gone import RecentlyGone
from moldau.broker.metadata.state_change_log import StateChangeLog
from moldau.broker.metadata.undecided import Undecided
from moldau.broker.network.listener import SocketListener
from moldau.broker.network.peers import Peers
from moldau.broker.quotas.clients import ClientQuotas
from moldau.broker.replicas.manager import ReplicaManager
from moldau.broker.services import BrokerServices, ControllerServices, Deciding, Plane
from moldau.client.connection import ConnectionOptions
from moldau.controller.replies import Refused
from moldau.image import Endpoint, Image
from moldau.ports import World
from moldau.quorum import Quorum
from moldau.storage import LogDirs
from tests.packages.doubles import UNUSED, Unused, manual_world

CLUSTER_ID = "a cluster"


def node_config(node_id: int = 1, /, **given: str) -> NodeConfig:
    """The settings of a broker in KRaft mode; ``log_dirs`` stands for log.dirs."""
    return NodeConfig(
        {
            "node.id": str(node_id), "process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "100@localhost:1",
            **{name.replace("_", "."): text for name, text in given.items()},
        }
    )  # fmt: skip


def combined_config(node_id: int = 1, **given: str) -> NodeConfig:
    """The settings of a node that is broker and controller in KRaft mode."""
    return node_config(
        node_id,
        process_roles="broker,controller",
        listeners="PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        controller_quorum_voters=f"{node_id}@localhost:1",
        **given,
    )


def zookeeper_config(node_id: int = 1, **given: str) -> NodeConfig:
    """The settings of a broker in ZooKeeper mode."""
    return NodeConfig(
        {
            "broker.id": str(node_id), "zookeeper.connect": "127.0.0.1:1", "listeners": "PLAINTEXT://127.0.0.1:0",
            **{name.replace("_", "."): text for name, text in given.items()},
        }
    )  # fmt: skip


def metadata(image: Image | None = None) -> MetadataCache:
    """Committed metadata that are this image."""
    cache = MetadataCache()
    if image is not None:
        cache.image = image
    return cache


@dataclass(kw_only=True)
class PlaneDouble:
    """A control plane: who is the active controller, at which address each is, and how far it has told each node."""

    leader: tuple[int | None, int] = (None, 0)
    next_offset: int = 0
    is_cut_off: bool = False
    why_no_controller: str = ""
    missing_log: str = ""
    quorum: Quorum | None = None
    unregistered: str = ""
    addresses: dict[int, tuple[str, int]] = field(default_factory=dict)
    told: dict[int, int] = field(default_factory=dict)

    def voters(self) -> Mapping[int, tuple[str, int]]:
        return self.addresses

    def readers(self) -> Mapping[int, int]:
        return self.told

    async def mark_for_deletion(self, topics: Sequence[str]) -> bool:
        raise AssertionError("nothing is to be deleted")

    def refused_deletion(self, topic_id: bytes) -> Refused | None:
        raise AssertionError("nothing is to be deleted")


@dataclass(kw_only=True)
class NodeDouble:
    """A node of the parts that a test gives, as ``moldau.broker.host`` and ``node_parts`` describe them."""

    config: NodeConfig = field(default_factory=node_config)
    world: World = field(default_factory=manual_world)
    metadata: MetadataCache = field(default_factory=MetadataCache)
    cluster_id: str = CLUSTER_ID
    connection_options: ConnectionOptions = field(default_factory=ConnectionOptions)
    controller: ControllerService = UNUSED
    controller_channel: NodeToControllerChannel = UNUSED
    coordinator: Coordinator = UNUSED
    endpoints: Sequence[Endpoint] = ()
    failed_tasks: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    listeners: list[SocketListener] = field(default_factory=list)
    peers: Peers = UNUSED
    plane: PlaneDouble = UNUSED
    replicas: ReplicaManager = UNUSED
    state_change_log: StateChangeLog = UNUSED

    @property
    def image(self) -> Image:
        return self.metadata.image

    def own_endpoints(self) -> list[Endpoint]:
        return list(self.endpoints)

    def failed(self, task: str, error: BaseException) -> None:
        self.failed_tasks.append(task)
        self.failures.append(error)

    def handler_failed(self, header: Hashable, error: BaseException) -> None:
        self.failures.append(error)


class NothingUndecided(Unused):
    """Replicas of a broker that has read of all partitions; whatever else is asked of them fails the test."""

    def __init__(self) -> None:
        self.undecided = Undecided()


def nothing_undecided() -> Any:  # Any: it stands for a ReplicaManager
    return NothingUndecided()


def broker_services(
    image: Image | None = None,
    *,
    config: NodeConfig | None = None,
    world: World | None = None,
    plane: Plane = UNUSED,
    replicas: ReplicaManager | None = None,
    log_dirs: LogDirs = UNUSED,
    coordinator: Coordinator = UNUSED,
    quotas: ClientQuotas = UNUSED,
    controller_channel: NodeToControllerChannel = UNUSED,
    creating: Counter[str] | None = None,
    suspects_a_death: Callable[[], bool] = lambda: False,
) -> BrokerServices:
    """What a handler of a broker's listener is given, over an image that stands still unless the test changes it."""
    world = manual_world() if world is None else world
    cache = metadata(image)
    return BrokerServices(
        config=node_config() if config is None else config,
        world=world,
        cluster_id=CLUSTER_ID,
        metadata=cache,
        plane=plane,
        replicas=nothing_undecided() if replicas is None else replicas,
        log_dirs=log_dirs,
        load_coordinator=lambda: coordinator,
        encoded_topics=EncodedTopics(),
        recently_gone=RecentlyGone(world.clock, cache),
        quotas=quotas,
        controller_channel=controller_channel,
        creating=Counter() if creating is None else creating,
        suspects_a_death=suspects_a_death,
    )


def controller_services(
    image: Image | None = None,
    *,
    world: World | None = None,
    plane: Plane = UNUSED,
    controller: Deciding = UNUSED,
) -> ControllerServices:
    """What a handler of a controller is given; its requests cost nobody anything."""
    return ControllerServices(
        config=node_config(),
        world=manual_world() if world is None else world,
        cluster_id=CLUSTER_ID,
        metadata=metadata(image),
        plane=plane,
        controller=controller,
    )
