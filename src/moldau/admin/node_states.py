"""How each node of a cluster on this machine stands: does it run, does it answer, and do the others count on it.

Each node is asked itself, at its own port and for seconds only: a process may run and answer nothing, and what answers
at a node's port may be somebody else. Read next: up.py (``moldau status``), probe.py.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from moldau.admin.probe import why_not_kafka
from moldau.cluster.cluster import Cluster
from moldau.cluster.nodes import HOST, NodeSpec, is_alive, is_paused
from moldau.cluster.serving import brief_client, is_broker
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.client.view import Partition

ANSWER_MS = 4_000
"""How long a node, or the cluster, may take for an answer."""


class NodeState(Enum):
    """The value is what is printed."""

    STOPPED = "stopped"
    STARTING = "starting"
    SERVING = "serving"
    NOT_ANSWERING = "not answering"


class NodeStates(NamedTuple):
    """The state of each node by id; one broker's address that answered; what else is to be told, a line each."""

    states: dict[int, NodeState]
    answered: tuple[str, int] | None
    notes: list[str]


def look_at_nodes(cluster: Cluster) -> NodeStates:
    """How every node of the cluster stands now. A broker serves when it answers, and others who answer show it too, or
    nobody else answers: by its own word alone one that was cut off would serve."""
    states: dict[int, NodeState] = {}
    shown: dict[int, set[int]] = {}
    answered = None
    notes = []
    for node in cluster.spec.nodes:
        states[node.id], why = _state(node)
        if why:
            notes.append(why)
        if states[node.id] is not NodeState.SERVING or not node.is_broker:
            continue
        brokers = _shown_by(cluster, node)
        if brokers is None:
            states[node.id] = NodeState.NOT_ANSWERING
            notes.append(f"what answers at {HOST}:{node.port} is not node {node.id} of this cluster")
            continue
        shown[node.id] = brokers
        answered = answered or (HOST, node.port)
    for id in shown:
        others = [brokers for other, brokers in shown.items() if other != id] or [shown[id]]
        if not any(id in brokers for brokers in others):
            states[id] = NodeState.STARTING
    return NodeStates(states, answered, notes)


def _state(node: NodeSpec) -> tuple[NodeState, str]:
    """What its process and its port say of a node, and why it does not answer."""
    if not is_alive(node.pid):
        return NodeState.STOPPED, ""
    if is_paused(node.pid):
        return NodeState.NOT_ANSWERING, _paused(node)
    try:
        other = why_not_kafka(HOST, node.port or node.controller_port, ANSWER_MS / 1000)
    except ConnectionRefusedError:
        return NodeState.STARTING, ""
    except OSError as error:
        other = f"{HOST}:{node.port or node.controller_port} cannot be reached: {error}"
    if other is None:
        return NodeState.SERVING, ""
    return NodeState.NOT_ANSWERING, _paused(node) if is_paused(node.pid) else f"node {node.id}: {other}"


def _paused(node: NodeSpec) -> str:
    return f"node {node.id} is stopped by a signal: `kill -CONT {node.pid}` lets it go on"


def _shown_by(cluster: Cluster, node: NodeSpec) -> set[int] | None:
    """The brokers that a node shows, without fenced ones; None when what answers at its port is another node or
    another cluster's."""
    from moldau.client.admin import describe_cluster
    from moldau.client.client import Refused

    with brief_client(f"{HOST}:{node.port}", ANSWER_MS) as asking:
        try:
            answer = asking.run(describe_cluster(asking.client))
            brokers = {broker.broker_id for broker in answer.brokers}
            is_ours = answer.cluster_id in cluster.cluster_ids()
            if is_ours and node.id in brokers and not is_broker(asking, node.id):
                return None
        except (OSError, Refused):
            return set()
    return brokers if is_ours else None


def has_controller(cluster: Cluster) -> bool:
    """Whether a controller answers; it is asked what only a controller can say."""
    from moldau.client.admin import reassignments
    from moldau.client.client import Refused
    from moldau.model import Code

    try:
        client = cluster.client(ANSWER_MS)
        return client.run(reassignments(client.client))[0].code not in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT)
    except (OSError, Refused):
        return False


def partitions_of(cluster: Cluster) -> list[Partition]:
    """All partitions of the cluster."""
    return [p for topic in cluster.client(ANSWER_MS).topics().values() for p in topic.partitions.values()]
