"""Builds the parts of a run by its control plane: the cluster, its observer, the fault injector, the plane's laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from moldau.simulator.cluster import SimCluster
from moldau.simulator.cluster_observer import ClusterObserver
from moldau.simulator.cluster_observer_zookeeper import ZooKeeperObserver
from moldau.simulator.cluster_zookeeper import ZooKeeperCluster
from moldau.simulator.coverage_points import CoveragePoints
from moldau.simulator.coverage_points_zookeeper import ZooKeeperCoveragePoints
from moldau.simulator.fault_injector import FaultInjector
from moldau.simulator.faults import QuorumFaultInjector
from moldau.simulator.faults_zookeeper import ZooKeeperFaultInjector
from moldau.simulator.laws.control import ControlLaws
from moldau.simulator.laws.quorum import QuorumLaws
from moldau.simulator.laws.zookeeper import ZooKeeperLaws
from moldau.simulator.plan import Plan, with_pipelined
from moldau.simulator.plan_deletions import with_deletions
from moldau.simulator.plan_keyed import with_group_log, with_keys
from moldau.simulator.plan_quorum import draw_quorum
from moldau.simulator.plan_racks import with_racks
from moldau.simulator.plan_transactions import with_transactions
from moldau.simulator.plan_upkeep import with_upkeep
from moldau.simulator.plan_zookeeper import draw_zookeeper, with_kafka_brokers
from moldau.simulator.scenes import (
    DELETIONS,
    FOLLOWERS,
    KEYED,
    LOST_SEGMENT,
    MIXED,
    PIPELINED,
    QUORUM,
    TRANSACTIONS,
    UPKEEP,
    ZOOKEEPER,
)

__all__ = ["Parts", "parts_of", "plan_of"]


class Parts(NamedTuple):
    """``control`` checks batches and quiescence, ``plane`` between turns; ``coverage`` returns the points reached."""

    cluster: SimCluster
    observer: ClusterObserver
    injector: FaultInjector
    control: ControlLaws | ZooKeeperLaws
    plane: QuorumLaws | ZooKeeperLaws
    coverage: Callable[[], set[str]]


def plan_of(seed: int, scene: str | None, plane: str, *, buggify: bool = True) -> Plan:
    """Return the plan of a seed. Without buggify points it is what it was before there were any: old finds stay."""
    mixed, pipelined, transactional, racks = (scene == one for one in (MIXED, PIPELINED, TRANSACTIONS, FOLLOWERS))
    scene = None if mixed or pipelined or transactional or racks else scene
    plan = draw_zookeeper(seed, scene) if plane == ZOOKEEPER else draw_quorum(seed, scene)
    if plane == ZOOKEEPER and (buggify or mixed):
        plan = with_kafka_brokers(plan, always=mixed)
    if plane == QUORUM and (buggify or scene in UPKEEP):
        plan = with_upkeep(plan)
    if scene == LOST_SEGMENT:
        small = {"internal.segment.bytes": "1000"}
        plan = replace(plan, topics=tuple(replace(one, configs={**one.configs, **small}) for one in plan.topics))
    if buggify or scene in KEYED:
        plan = with_group_log(with_keys(plan))
    if buggify or pipelined:
        plan = with_pipelined(plan, always=pipelined)
    if buggify or transactional or racks:
        plan = with_transactions(plan, always=transactional or (racks and seed % 2 == 0))
    if buggify or racks:
        plan = with_racks(plan, always=racks)
    if scene == DELETIONS:
        plan = with_deletions(plan)
    return replace(plan, buggify=buggify)


def parts_of(plan: Plan) -> Parts:
    """Return a cluster that has not started, its observer, fault injector and laws."""
    if plan.plane == ZOOKEEPER:
        cluster = ZooKeeperCluster(plan)
        sight = ZooKeeperObserver(cluster)
        laws, noting = ZooKeeperLaws(sight), ZooKeeperCoveragePoints(sight)
        return Parts(cluster, sight, ZooKeeperFaultInjector(cluster, sight), laws, laws, lambda: noting.hit)
    nodes = SimCluster(plan)
    observer = ClusterObserver(nodes)
    control, quorum = ControlLaws(observer), QuorumLaws(observer)
    coverage = CoveragePoints(observer)
    return Parts(
        nodes, observer, QuorumFaultInjector(nodes, observer), control, quorum, lambda: coverage.hit | quorum.coverage
    )
