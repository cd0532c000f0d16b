"""The plan of a seed in KRaft mode: plan.py's draw, and what only this mode has, by an rng of its own.

Clusters that keep no eligible leader replicas; a topic for which the plan allows unclean elections; controllers that
are added to the voters and removed. Read next: faults.py, laws/data.py, administrator.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import BOTH, BROKER, CONTROLLER, Plan, TopicPlan, draw


def draw_quorum(seed: int, scene: str | None = None) -> Plan:
    """The plan of a seed; ``scene`` allows one kind of fault only."""
    plan = draw(seed, scene)
    rng = random.Random(f"quorum plan {seed}")
    elr = rng.random() >= 0.25
    risky = _risky(rng, plan)
    plan = replace(plan, elr=elr, topics=(*plan.topics, *risky))
    return _with_changing_voters(rng, plan) if rng.random() < 0.3 else plan


def _with_changing_voters(rng: random.Random, plan: Plan) -> Plan:
    """A plan with three or four controllers, of which all vote at first, or all but one, or one alone."""
    hosts = dict(plan.hosts)
    if hosts.get(4) == BROKER and CONTROLLER not in hosts.values():
        hosts[4] = BOTH
    controllers = [id for id, roles in hosts.items() if roles != BROKER]
    some = rng.choice((len(controllers), len(controllers) - 1, 1))
    return replace(plan, hosts=hosts, first_voters=tuple(controllers[:some]), joins=rng.random() < 0.3)


def _risky(rng: random.Random, plan: Plan) -> tuple[TopicPlan, ...]:
    """A topic whose records may be lost, but only in an election that is marked. Its ISR may shrink to one."""
    if rng.random() >= 0.3:
        return ()
    configs = {**plan.topics[0].configs, "min.insync.replicas": "1"}
    if rng.random() < 0.7:  # else by the administrator only
        configs["unclean.leader.election.enable"] = "true"
    return (TopicPlan(name="risky", partitions=1, replication_factor=3, unclean=True, configs=configs),)
