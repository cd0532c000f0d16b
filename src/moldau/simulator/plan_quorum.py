"""What a seed stands for on the quorum's plane: plan.py's draw, and what only this plane has, by dice of its own.

Clusters that keep no eligible leader replicas; a topic for which somebody allows unclean elections. Read next:
faults.py, laws/data.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import Plan, TopicPlan, draw


def draw_quorum(seed: int, scene: str | None = None) -> Plan:
    """The plan of a seed; ``scene`` allows one kind of trouble only."""
    plan = draw(seed, scene)
    dice = random.Random(f"quorum plan {seed}")
    elr = dice.random() >= 0.25
    risky = _risky(dice, plan)
    return replace(plan, elr=elr, topics=(*plan.topics, *risky))


def _risky(dice: random.Random, plan: Plan) -> tuple[TopicPlan, ...]:
    """A topic whose records may be lost, but only in an election that is marked. Its ISR may shrink to one."""
    if dice.random() >= 0.3:
        return ()
    configs = {**plan.topics[0].configs, "min.insync.replicas": "1"}
    if dice.random() < 0.7:  # else by hand only
        configs["unclean.leader.election.enable"] = "true"
    return (TopicPlan(name="risky", partitions=1, replication_factor=3, unclean=True, configs=configs),)
