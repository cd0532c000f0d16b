"""A cluster as the simulator's laws and faults see it, without nodes: what was agreed, and each broker's replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moldau.image import Image, Partition
from moldau.model import TopicPartition
from moldau.replication.roles import Role
from moldau.simulator.cluster import SimCluster
from moldau.simulator.cluster_observer import BatchListener, ClusterObserver
from moldau.simulator.cluster_observer_zookeeper import ZooKeeperObserver
from tests.packages.doubles import UNUSED

KEY = (b"t" * 16, 0)


def partition(*replicas: int, isr: tuple[int, ...] | None = None, leader: int = 1, leader_epoch: int = 0) -> Partition:
    """What was agreed of a partition; without ``isr`` all replicas are in sync."""
    return Partition(*KEY, replicas, replicas if isr is None else isr, leader, leader_epoch)


@dataclass
class Starts:
    """Where logs begin, as far as a directory's file has it."""

    on_file: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass
class Directory:
    """A log directory that works."""

    offline: str | None = None
    starts: Starts = field(default_factory=Starts)


@dataclass
class ReplicaLog:
    """A replica's log."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    dir: Directory = field(default_factory=Directory)


@dataclass
class Machine:
    """What replication knows of a replica."""

    high_watermark: int = 0
    leader_epoch: int = 0
    role: Role = Role.FOLLOWER


@dataclass
class Replica:
    """A broker's replica of a partition."""

    partition: TopicPartition = field(default_factory=lambda: TopicPartition("safe", 0))
    machine: Machine = field(default_factory=Machine)
    log: ReplicaLog = field(default_factory=ReplicaLog)


@dataclass(kw_only=True)
class ObservedCluster(SimCluster):
    """A cluster of this plan; ``broken`` are the laws that do not hold."""

    plan: Any = UNUSED
    directories: dict[int, bytes] = field(default_factory=dict)
    unclean: set[TopicPartition] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)

    def violated(self, law: str) -> None:
        self.broken.append(law)


@dataclass(kw_only=True)
class Observer(ClusterObserver):
    """Eyes that see one partition, as ``state`` and each broker's replica, or none."""

    cluster: ObservedCluster = field(default_factory=ObservedCluster)
    state: Partition | None = None
    of: dict[int, Replica] = field(default_factory=dict)
    topic: str = "safe"
    image: Image = field(default_factory=Image)
    listeners: list[BatchListener] = field(default_factory=list)

    def partitions(self) -> Iterator[tuple[str, tuple[bytes, int], Partition]]:
        return iter([] if self.state is None else [(f"{self.topic}-0", KEY, self.state)])

    def replicas(self, topic: str | None = None) -> dict[tuple[bytes, int], dict[int, Replica]]:
        return {KEY: self.of} if self.of else {}


class ObserverOfZnodes(Observer, ZooKeeperObserver):
    """The same of a cluster in ZooKeeper mode."""
