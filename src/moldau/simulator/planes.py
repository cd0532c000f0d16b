"""What a run is made of, by its plane: the cluster, the eyes on it, the hand that breaks things, the plane's laws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from moldau.simulator.cluster import SimCluster
from moldau.simulator.cluster_zookeeper import ZooKeeperCluster
from moldau.simulator.faults import Chaos
from moldau.simulator.faults_zookeeper import ZooKeeperChaos
from moldau.simulator.laws.control import ControlLaws
from moldau.simulator.laws.quorum import QuorumLaws
from moldau.simulator.laws.zookeeper import ZooKeeperLaws
from moldau.simulator.looking import Eyes
from moldau.simulator.looking_zookeeper import ZnodeEyes
from moldau.simulator.marks import Marks
from moldau.simulator.marks_zookeeper import ZooKeeperMarks
from moldau.simulator.plan import Plan
from moldau.simulator.plan_keyed import with_group_log, with_keys
from moldau.simulator.plan_quorum import draw_quorum
from moldau.simulator.plan_upkeep import with_upkeep
from moldau.simulator.plan_zookeeper import draw_zookeeper
from moldau.simulator.scenes import KEYED, LOST_SEGMENT, QUORUM, UPKEEP, ZOOKEEPER

__all__ = ["Parts", "parts_of", "plan_of"]


class Parts(NamedTuple):
    """``control`` judges batches and rest, ``plane`` looks between turns; ``marks`` gives what was hit so far."""

    cluster: SimCluster
    eyes: Eyes
    chaos: Chaos
    control: ControlLaws | ZooKeeperLaws
    plane: QuorumLaws | ZooKeeperLaws
    marks: Callable[[], set[str]]


def plan_of(seed: int, scene: str | None, plane: str, *, rare: bool = True) -> Plan:
    """The plan of a seed on a plane. Without rare ways, it is what it was before there were any: found seeds stay."""
    plan = draw_zookeeper(seed, scene) if plane == ZOOKEEPER else draw_quorum(seed, scene)
    if plane == QUORUM and (rare or scene in UPKEEP):
        plan = with_upkeep(plan)
    if scene == LOST_SEGMENT:
        small = {"internal.segment.bytes": "1000"}
        plan = replace(plan, topics=tuple(replace(one, configs={**one.configs, **small}) for one in plan.topics))
    return replace(with_group_log(with_keys(plan)) if rare or scene in KEYED else plan, rare=rare)


def parts_of(plan: Plan) -> Parts:
    """A cluster that has not started, and who watches and breaks it."""
    if plan.plane == ZOOKEEPER:
        cluster = ZooKeeperCluster(plan)
        sight = ZnodeEyes(cluster)
        laws, noting = ZooKeeperLaws(sight), ZooKeeperMarks(sight)
        return Parts(cluster, sight, ZooKeeperChaos(cluster, sight), laws, laws, lambda: noting.hit)
    nodes = SimCluster(plan)
    eyes = Eyes(nodes)
    control, quorum = ControlLaws(eyes), QuorumLaws(eyes)
    marks = Marks(eyes)
    return Parts(nodes, eyes, Chaos(nodes, eyes), control, quorum, lambda: marks.hit | quorum.marks)
