"""The observer of a cluster in ZooKeeper mode, where the truth is what stands in the servers' znodes.

The image of ``ClusterObserver`` is read again from the znodes after every transaction that touches the cluster's state,
so that it is the truth before any node knows. Checks nothing. Read next: laws/zookeeper.py.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from moldau.broker.metadata.cache import difference
from moldau.broker.node import Node
from moldau.image import Delta, Image, image_from
from moldau.model.ids import is_topic_name
from moldau.ports.zookeeper import Op, Stat
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.cluster_zookeeper import CHROOT, ZooKeeperCluster
from moldau.simulator.zookeeper_servers import ZnodeChange, ZnodeTree
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.reading import Survey, read
from moldau.zookeeper.znodes import parse_controller, parse_controller_epoch, parse_topic

_STATE = tuple(
    f"{CHROOT}{folder}/"
    for folder in (paths.TOPICS, paths.BROKER_IDS, *(f"{paths.CONFIG}/{kind}" for kind in paths.CONFIG_KINDS))
)
Found = tuple[bytes, Stat]
NOBODY: Any = None
"""Stands for the node that applied a batch: here the znodes are the source."""


class ZooKeeperObserver(ClusterObserver):
    """``births``: called with every node as it starts."""

    cluster: ZooKeeperCluster

    def __init__(self, cluster: ZooKeeperCluster) -> None:
        super().__init__(cluster)
        self.ensemble = cluster.ensemble
        self.births: list[Callable[[int, Node], object]] = []
        self.ensemble.witnesses.append(self._changed)

    def _on_start(self, id: int, node: Node) -> None:
        for birth in self.births:
            birth(id, node)

    def note_controller(self) -> None:
        """Record a new controller as /controller names it."""

    @property
    def controller(self) -> Node | None:
        """Return the node that is the active controller in its own view, if one is."""
        planes = ((node, plane_of(node)) for _, node in self.nodes())
        active = [node for node, plane in planes if plane is not None and plane.claimed_epoch is not None]
        return active[0] if len(active) == 1 else None

    def marked(self) -> frozenset[str]:
        folder = f"{CHROOT}{paths.DELETE_TOPICS}/"
        return frozenset(path.removeprefix(folder) for path in self.ensemble.tree.znodes if path.startswith(folder))

    def _changed(self, session: int, ops: Sequence[Op], changes: Sequence[ZnodeChange]) -> None:
        for change in changes:
            if change.path == CHROOT + paths.CONTROLLER:
                self._note_controller(change.data)
        if not any(change.path.startswith(_STATE) for change in changes):
            return
        before, self.image = self.image, _image(self.ensemble.tree)
        self.offset += 1
        delta = difference(before, self.image)
        if delta:
            self._record_changes(delta)
            for listener in self.listeners:  # outside every process: a checker reads a failing disk as it is
                contextvars.Context().run(listener, -1, NOBODY, delta, True)

    def _note_controller(self, data: bytes | None) -> None:
        if data is None:
            self.cluster.record_event("  nobody is the controller")
            return
        epoch = parse_controller_epoch(self.ensemble.tree.at(CHROOT + paths.CONTROLLER_EPOCH).data)
        self.controllers.append((parse_controller(data).broker_id, epoch))
        self.cluster.record_event(f"  n{self.controllers[-1][0]} is the controller, in epoch {epoch}")

    def _record_changes(self, delta: Delta) -> None:
        super()._record_changes(delta)
        for id, was in delta.brokers.items():
            if was is None or id not in self.image.brokers:
                self.cluster.record_event(f"  n{id} is {'' if was is None else 'not '}registered")


def plane_of(node: Node) -> Any:
    """A node's ZooKeeperPlane; None before it has a session."""
    return node.plane if node.has_joined else None


def survey_of(tree: ZnodeTree) -> Survey:
    """All that counts, in one instant."""
    brokers: dict[int, Found] = {}
    topics: dict[str, Found] = {}
    states: dict[tuple[str, int], Found] = {}
    for path, znode in _below(tree, paths.BROKER_IDS):
        for id in paths.broker_ids([path.rpartition("/")[2]])[0]:
            brokers[id] = znode.data, znode.stat
    for path, znode in _below(tree, paths.TOPICS):
        name = path.rpartition("/")[2]
        if not is_topic_name(name):
            continue
        topics[name] = znode.data, znode.stat
        for number in _numbers(name, znode.data):
            state = tree.znodes.get(CHROOT + paths.state(name, number))
            if state is not None:
                states[name, number] = state.data, state.stat
    configs = {
        f"{kind}/{path.rpartition('/')[2]}": znode.data
        for kind in paths.CONFIG_KINDS
        for path, znode in _below(tree, f"{paths.CONFIG}/{kind}")
    }
    block = tree.znodes.get(CHROOT + paths.PRODUCER_IDS)
    feature = tree.znodes.get(CHROOT + paths.FEATURE)
    return Survey(
        brokers=brokers,
        topics=topics,
        states=states,
        configs=configs,
        feature=None if feature is None else feature.data,
        producer_ids=None if block is None else (block.data, block.stat),
    )


def _numbers(name: str, data: bytes) -> Iterable[int]:
    try:
        return parse_topic(name, data).partitions
    except BadZnode:
        return ()


def _below(tree: ZnodeTree, folder: str) -> list[tuple[str, Any]]:
    above = tree.znodes.get(CHROOT + folder)
    return [] if above is None else [(path, tree.znodes[path]) for path in sorted(above.children)]


def _image(tree: ZnodeTree) -> Image:
    ids = count(1)  # of topics that an old tool made: each needs one of its own, which only the controller can say
    return image_from(read(survey_of(tree), lambda: next(ids).to_bytes(16)).records)
