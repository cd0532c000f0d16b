"""Adds a topic to which transactional producers write, in a share of the plans or with the scene ``transactions``.

It is no topic of ``plan.topics``. In a third of the plans that have it, it is compacted. Leaders do not ask the
coordinator whether it knows of a partition: it is the producer itself (``transactional.py``), and no broker. Drawn by
an rng of its own. Decides nothing while the run goes on.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import Plan, TopicPlan
from moldau.simulator.plan_keyed import busy

TOPIC = "transacted"
SHARE = 0.2
COMPACTED_SHARE = 0.35
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


def with_transactions(plan: Plan, *, always: bool = False) -> Plan:
    """Return the plan, with a topic of transactions where its rng draws one, or ``always``."""
    rng = random.Random(f"transactions plan {plan.seed}")
    drawn = plan.scene is None and rng.random() < SHARE
    if not drawn and not always:
        return plan
    compacted = rng.random() < COMPACTED_SHARE
    configs = {
        "min.insync.replicas": "2",
        "internal.segment.bytes": str(rng.choice((700, 3_000) if compacted else (1_000, 5_000, 1_048_576))),
        "index.interval.bytes": str(rng.choice((0, 1_000))),
    }
    if compacted:
        configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        configs["delete.retention.ms"] = str(rng.choice((300, 1_000, 86_400_000)))
    if plan.flush:
        configs["flush.messages"] = "1"
    topic = TopicPlan(
        name=TOPIC,
        partitions=1 if compacted else rng.randint(1, 2),
        replication_factor=min(3, len(plan.brokers)),
        keys=rng.choice((3, 8)) if compacted else 0,
        tombstones_stay=configs.get("delete.retention.ms") == "86400000",
        configs=configs,
    )
    plan = replace(plan, transactions=topic, settings={**plan.settings, **UNVERIFIED})
    return busy(rng, plan) if compacted else plan
