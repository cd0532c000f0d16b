"""Whether a cluster serves, by what its brokers say each for itself, and whether ZooKeeper is still that of its nodes.

One broker that shows all the others proves little in ZooKeeper mode: it may show registrations that dead
processes left behind, and those who are back have been told nothing yet.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from moldau.cluster.nodes import HOST, ClusterSpec, NodeSpec, cluster_ids_on_disk, is_alive, is_paused, last_words
from moldau.ports.zookeeper import ConnectionLoss, Ensemble, NoNode, ZooKeeper, ZooKeeperError
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.znodes import parse_cluster_id

if TYPE_CHECKING:
    from moldau.client import sync
    from moldau.zookeeper.session import Session

T = TypeVar("T")
LOOK_MS = 3_000
LISTENS_S = 1.0
"""How long a node may take to take a connection."""
WORDS = 6
"""Lines of what a node said last."""


def ask_zookeeper(
    where: str, work: Callable[[Session], Awaitable[T]], *, patience_ms: int = 10_000, session_ms: int = 6_000
) -> T:
    """What ``work`` makes of a session of its own with ZooKeeper at ``where``; ZooKeeperError as the port says."""
    from moldau.zookeeper.session import Session

    async def session() -> T:
        zk = Session(Ensemble(connect=where, session_timeout_ms=session_ms, connection_timeout_ms=patience_ms))
        await zk.start()
        try:
            return await work(zk)
        finally:
            await zk.stop()

    return asyncio.run(session())


def foreign_zookeeper(spec: ClusterSpec) -> str | None:
    """Why the ZooKeeper of a cluster cannot be its own any more, in a sentence: it holds no cluster, or another one
    than the nodes' directories. None when it is, or nothing can be said: no node has ever run."""
    ours = cluster_ids_on_disk(spec)
    if not spec.zookeeper or not ours:
        return None
    found = ask_zookeeper(spec.zookeeper, _cluster_id, patience_ms=LOOK_MS)
    if found in ours:
        return None
    there = f"holds cluster {found}" if found else "holds no cluster"
    return (
        f"ZooKeeper at {spec.zookeeper} {there}, and the directories of the nodes are of cluster {ours[0]}: it has lost"
        " its data, or its chroot is not that of this cluster. Topics stand in ZooKeeper: bring its data back from a"
        " copy, or begin anew with another folder; the logs of the nodes stay as they are"
    )


def zookeeper_trouble(spec: ClusterSpec) -> str | None:
    """What is wrong with the cluster's ZooKeeper, also that it does not answer; None when nothing is."""
    try:
        return foreign_zookeeper(spec)
    except (ConnectionLoss, TimeoutError):
        return f"ZooKeeper at {spec.zookeeper} does not answer: records are served, and nothing is decided"
    except (ZooKeeperError, BadZnode) as error:
        return f"ZooKeeper at {spec.zookeeper}: {error}"


async def _cluster_id(zk: ZooKeeper) -> str:
    try:
        return parse_cluster_id((await zk.get(paths.CLUSTER_ID))[0])
    except NoNode:
        return ""


def node_status(node: NodeSpec) -> str:
    """What can be told of a node that did not do in time what was waited for: what is wrong with its process or its
    port, and its last words."""
    return f"--- node {node.id}{_trouble(node)}:\n{last_words(node, WORDS)}"


def _trouble(node: NodeSpec) -> str:
    """A process may live and not listen: it loads its logs, waits for a controller or ZooKeeper, or is stopping."""
    place = (HOST, node.port or node.controller_port)
    if not is_alive(node.pid):
        return ", which does not run"
    if is_paused(node.pid):
        return f", which is stopped by a signal (`kill -CONT {node.pid}` lets it go on)"
    try:
        socket.create_connection(place, LISTENS_S).close()
    except OSError as error:
        why = error.strerror or str(error)
        return (
            f", whose process {node.pid} runs and takes no connections at {HOST}:{place[1]} ({why}): it is starting,"
            " is stopping, or hangs (`moldau down` stops it, by force in the end)"
        )
    return ""


def is_told(client: sync.Cluster, ids: Sequence[int], clusters: Collection[str]) -> bool:
    """Whether each of the brokers knows all of them and a controller, asked itself; ConnectionError when one does not
    answer. What answers at its address must be that broker, of one of these ``clusters`` (ids): while a node starts,
    another one may still have its port."""
    from moldau.client.admin import describe_broker

    for id in ids:
        shown = client.run(describe_broker(client.client, id))
        if shown.controller_id < 0 or not set(ids) <= {broker.broker_id for broker in shown.brokers}:
            return False
        if shown.cluster_id not in clusters or not is_broker(client, id):
            return False
    return True


def is_broker(client: sync.Cluster, id: int) -> bool:
    """Whether the broker that answers at the address of ``id`` says that it has this id: DescribeConfigs of another
    broker than itself is refused (INVALID_REQUEST)."""
    from moldau.client.admin import Resource, ResourceType, describe_configs

    asked = Resource(ResourceType.BROKER, str(id))
    answers = client.run(describe_configs(client.client, [asked], keys=["node.id"], synonyms=False))
    return asked in answers and answers[asked][0].ok


def brief_client(bootstrap: str, patience_ms: int, api_timeout_ms: int | None = None) -> sync.Cluster:
    """A client that waits no longer than ``patience_ms`` for a connection or an answer, nor tries again for longer than
    ``api_timeout_ms`` (the same)."""
    from moldau.client import sync
    from moldau.client.client import ClientOptions
    from moldau.client.lines import ConnectionOptions

    connection = ConnectionOptions(request_timeout_ms=patience_ms, connect_timeout_ms=patience_ms)
    options = ClientOptions(api_timeout_ms=patience_ms if api_timeout_ms is None else api_timeout_ms)
    return sync.Cluster(bootstrap, options=options, connection=connection)
