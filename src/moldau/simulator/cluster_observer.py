"""``ClusterObserver`` shows a cluster from outside: the newest committed metadata (the truth), replicas, who leads.

It is told of every node's start and of every committed batch, and writes the run's trace from them: elections, ISRs,
brokers that come and go. It checks nothing; the laws do, in laws/. Read next: laws/__init__.py.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from moldau.broker.kraft.plane import QuorumPlane
from moldau.broker.node import Node
from moldau.broker.replicas.replica import Replica
from moldau.image import Delta, Image
from moldau.image.partition import Partition
from moldau.model import TopicPartition
from moldau.simulator.cluster import SimCluster

BatchListener = Callable[[int, Node, Delta, bool], None]
"""(node id, node, what its batch changed, whether that is news to the whole cluster)."""


class ClusterObserver:
    """``image`` is the newest committed state that any node has had; ``listeners`` get every node's batches."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.image = Image()
        self.offset = -1
        self.changes = 0
        self.listeners: list[BatchListener] = []
        self.controllers: list[tuple[int, int]] = []
        cluster.on_start = self._on_start

    def _on_start(self, id: int, node: Node) -> None:
        node.metadata.watch(lambda image, delta: self._committed(id, node, delta))

    def _committed(self, id: int, node: Node, delta: Delta) -> None:
        is_news = node.metadata.offset > self.offset
        if is_news:
            self.offset, self.image = node.metadata.offset, node.metadata.image
            self._record_changes(delta)
        for listener in self.listeners:  # outside every process: a checker reads a failing disk as it is
            contextvars.Context().run(listener, id, node, delta, is_news)

    def _record_changes(self, delta: Delta) -> None:
        record_event = self.cluster.record_event
        for topic, key, before, after in delta.partition_changes(self.image):
            if before is None or after is None:
                continue
            name = f"{topic}-{key[1]}"
            self.changes += 1
            if after.leader != before.leader:
                who = "nobody leads" if after.leader < 0 else f"n{after.leader} leads"
                record_event(f"  {who} {name} in epoch {after.leader_epoch}, ISR {_nodes(after.isr)}")
            elif after.isr != before.isr:
                record_event(f"  the ISR of {name} is {_nodes(after.isr)}")
            if after.replicas != before.replicas:
                record_event(f"  {name} has its replicas on {_nodes(after.replicas)}")
        for id, was in delta.brokers.items():
            now = self.image.brokers.get(id)
            if now is not None and was is not None and now.fenced != was.fenced:
                record_event(f"  the controller {'fences' if now.fenced else 'lets in'} n{id}")

    def note_controller(self) -> None:
        """Record a new active controller, once."""
        for id, node in self.nodes():
            active = node.config.is_controller and _active_epoch(node)
            if active and (not self.controllers or active > self.controllers[-1][1]):
                self.controllers.append((id, active))
                self.cluster.record_event(f"  n{id} is the controller, in epoch {active}")

    # ---- what there is

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """Nodes that live, with their ids."""
        for id, host in self.cluster.hosts.items():
            if host.node is not None:
                yield id, host.node

    def replicas(self, topic: str | None = None) -> dict[Any, dict[int, Any]]:
        """(topic id, partition) -> node -> its replica, of nodes that live and as each of them has it."""
        found: dict[Any, dict[int, Any]] = {}
        for id, node in self.nodes():
            if node.loaded:
                for partition, replica in node.replicas.by_partition.items():
                    if topic is None or partition.topic == topic:
                        found.setdefault(replica.key, {})[id] = replica
        return found

    def key(self, where: TopicPartition) -> tuple[bytes, int]:
        """The key of a partition in ``replicas``; that of none where nobody knows the topic."""
        return self.image.names.get(where.topic, b""), where.partition

    def partitions(self) -> Iterator[tuple[str, Any, Any]]:
        """(name, key, committed state) of all partitions."""
        for id, topic in self.image.topics.items():
            for number, partition in topic.partitions.items():
                yield f"{topic.name}-{number}", (id, number), partition

    def marked(self) -> frozenset[str]:
        """Topics that are to be deleted and still there, by name."""
        return frozenset()

    def unfenced(self, ids: list[int]) -> bool:
        """Whether all these live, serve, and are seen unfenced by each other."""
        for id in ids:
            node = self.cluster.hosts[id].node
            if node is None or not self.cluster.hosts[id].serves:
                return False
            if any(one not in node.metadata.image.brokers or node.metadata.image.brokers[one].fenced for one in ids):
                return False
        return True

    def in_sync(self, ids: list[int], *, moving: bool = False, written: str | None = None) -> str:
        """What is missing until every partition is led, and all its replicas on ``ids`` are in its ISR and at its end.

        Empty when nothing is. With ``moving`` the ends need not agree: somebody writes; nor those of the topic
        ``written``. A follower is told a watermark with the next records, or when its fetch has waited its time: under
        a steady trickle all replicas need never be at the same.
        """
        replicas, marked = self.replicas(), self.marked()
        for name, key, partition in self.partitions():
            wanted = set(partition.replicas) & set(ids)
            if (topic := name.rpartition("-")[0]) in marked:
                if {id for one in self.image.topics[key[0]].partitions.values() for id in one.replicas} <= set(ids):
                    return f"{topic} is still being deleted"
                continue  # those that live may be gone already, and the topic stays until its last broker is back
            if partition.leader not in wanted:
                return f"{name} is led by {partition.leader}"
            if set(partition.isr) != wanted:
                return f"the ISR of {name} is {sorted(partition.isr)}, not {sorted(wanted)}"
            if partition.adding or partition.removing:
                return f"{name} is still being moved"
            here = {id: one for id, one in replicas.get(key, {}).items() if id in wanted}
            if set(here) != wanted:
                return f"{name} has replicas on {sorted(here)}, not {sorted(wanted)}"
            ends = {(one.machine.high_watermark, one.log.log_end_offset) for one in here.values()}
            if not moving and len(ends) != 1 and here[partition.leader].partition.topic != written:
                return f"the replicas of {name} are at {sorted(ends)} (watermark, end)"
        return ""


def _active_epoch(node: Node) -> int:
    plane = node.plane if node.has_joined else None
    driver = plane._driver if isinstance(plane, QuorumPlane) else None
    return (driver.quorum.active_epoch or 0) if driver is not None else 0


def _nodes(ids: Any) -> str:
    return ", ".join(f"n{id}" for id in ids) or "empty"


def partitions_of(
    observer: ClusterObserver, topic_name: str
) -> Iterator[tuple[TopicPartition, Partition, dict[int, Replica]]]:
    """Yield each partition of a topic with its committed state and its running replicas by node."""
    replicas = observer.replicas(topic_name)
    for name, key, state in observer.partitions():
        topic, _, number = name.rpartition("-")
        if topic == topic_name:
            yield TopicPartition(topic, int(number)), state, replicas.get(key, {})
