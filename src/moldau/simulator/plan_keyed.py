"""Adds a compacted topic, or compaction of __consumer_offsets, to a share of the plans, with the fault ``compaction``.

A topic with keys and tombstones replaces those that are less than safe, so that a run has no more to do; members of a
group commit to __consumer_offsets, which is made with the run. Segments are small. Drawn by an rng of their own.
Decides nothing while the run goes on. Read next: laws/compacted.py, storage_faults.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import Plan, TopicPlan
from moldau.simulator.scenes import COMPACTION, DAMAGED, KEYED

SHARE, GROUPS_SHARE = 0.15, 0.1
STAY_MS, GO_MS = 86_400_000, 1_000
"""delete.retention.ms: tombstones outlast the run, or they go soon, and then with them what a replica that was away
for longer should have forgotten (KIP-534)."""


def with_keys(plan: Plan) -> Plan:
    """The plan, with a compacted topic where its scene asks for one, or its rng draws one."""
    rng = random.Random(f"keyed plan {plan.seed}")
    drawn = rng.random() < SHARE
    if plan.scene not in KEYED and (plan.scene is not None or not drawn):
        return plan
    stay = rng.random() < 0.5
    configs = {
        "min.insync.replicas": "2",
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(rng.choice((400, 1_000, 3_000))),
        "index.interval.bytes": str(rng.choice((0, 1_000))),
        "min.cleanable.dirty.ratio": str(rng.choice((0.01, 0.5))),
        "delete.retention.ms": str(STAY_MS if stay else GO_MS),
        "min.compaction.lag.ms": str(rng.choice((0, 0, 2_000))),
    }
    if plan.flush:
        configs["flush.messages"] = "1"
    keyed = TopicPlan(
        name="keyed",
        partitions=1,
        replication_factor=min(3, len(plan.brokers)),
        keys=rng.choice((3, 12, 30)),
        tombstones_stay=stay,
        configs=configs,
    )
    topics = tuple(one for one in plan.topics if one.idempotent)
    return busy(rng, replace(plan, topics=(*topics, keyed)))


def with_group_log(plan: Plan) -> Plan:
    """Return the plan, with a compacted __consumer_offsets where members commit."""
    rng = random.Random(f"group log plan {plan.seed}")
    drawn = rng.random() < GROUPS_SHARE
    if not plan.members or (plan.scene not in KEYED and (plan.scene is not None or not drawn)):
        return plan
    configs = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(rng.choice((2_000, 6_000))),  # a group's members go into one batch
        "min.cleanable.dirty.ratio": "0.01",
    }
    return busy(rng, replace(plan, group_log=configs))


def busy(rng: random.Random, plan: Plan) -> Plan:
    """Return the plan with cleaners that look often, and a fault for them."""
    settings = {
        **plan.settings,
        "log.cleaner.backoff.ms": str(rng.choice((300, 1_000, 3_000))),
        "log.flush.offset.checkpoint.interval.ms": "500",  # what is not durable is not compacted
    }
    fault = () if plan.scene == DAMAGED else (COMPACTION,)
    return replace(plan, settings=settings, faults=tuple(dict.fromkeys((*plan.faults, *fault))))
