"""Adds a topic whose records are deleted by a client, and in half of the plans by retention too (scene ``deletions``).

It is no topic of ``plan.topics``, whose records stay. Drawn by an rng of its own. Decides nothing while the run goes
on. Read next: deleter.py, laws/deletions.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import Plan, TopicPlan
from moldau.simulator.scenes import ZOOKEEPER

TOPIC = "deleted"
MORE_FAULTS = ("stop", "pause", "isolate", "power", "clog", "break", "blackout", "moves")
SHARE = 0.35
EXPIRES_SHARE = 0.5


def with_deletions(plan: Plan) -> Plan:
    """The plan, with a topic whose records are deleted, with nodes that die, and some other faults."""
    rng = random.Random(f"deletions plan {plan.seed}")
    expires_ms = rng.choice((1_000, 3_000)) if rng.random() < EXPIRES_SHARE else 0
    configs = {
        "min.insync.replicas": "2",
        "internal.segment.bytes": str(rng.choice((1_000, 5_000, 1_048_576))),
        "index.interval.bytes": str(rng.choice((0, 1_000))),
        "file.delete.delay.ms": str(rng.choice((0, 1_000, 60_000))),
    }
    settings = {
        **plan.settings,
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((300, 2_000, 60_000))),
        "log.retention.check.interval.ms": str(rng.choice((300, 1_000, 300_000))),
    }
    if expires_ms:
        configs["retention.ms"] = str(expires_ms)
        settings["log.retention.check.interval.ms"] = str(rng.choice((300, 1_000)))
    if plan.flush:
        configs["flush.messages"] = "1"
    topic = TopicPlan(
        name=TOPIC, partitions=rng.randint(1, 3), replication_factor=min(3, len(plan.brokers)), configs=configs
    )
    some = [one for one in MORE_FAULTS if rng.random() < SHARE]
    if plan.plane == ZOOKEEPER:
        some += [one for one in ("expire", "lag") if rng.random() < SHARE]
    return replace(plan, deletions=topic, expires_ms=expires_ms, settings=settings, faults=("kill", *some), members=0)
