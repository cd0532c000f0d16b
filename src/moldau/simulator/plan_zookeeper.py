"""The plan of a seed in ZooKeeper mode: the plan of KRaft mode, with an ensemble and its faults.

The same clients, topics, disks and nets as plan.py draws; sessions, and ZooKeeper's own faults, come on top. Every
node is a broker and may be elected controller; in a share of the plans some brokers go by Apache Kafka's rules. Read
next: cluster_zookeeper.py, faults_zookeeper.py, kafka_rules.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import BROKER, Plan, draw
from moldau.simulator.scenes import DRAWN, RARER_ON_ZOOKEEPER, ZOOKEEPER, ZOOKEEPER_SCENES

MIXED_SHARE = 0.35
_OF_THE_QUORUM = ("metadata.log.", "internal.metadata.log.", "broker.session.", "broker.heartbeat.")


def draw_zookeeper(seed: int, scene: str | None = None) -> Plan:
    """The plan of a seed; ``scene`` allows one kind of fault only."""
    plan = draw(seed)
    rng = random.Random(f"zookeeper plan {seed}")
    settings = {key: text for key, text in plan.settings.items() if not key.startswith(_OF_THE_QUORUM)}
    settings["zookeeper.session.timeout.ms"] = str(rng.choice((2_000, 4_000, 9_000)))
    settings["zookeeper.connection.timeout.ms"] = str(rng.choice((2_000, 15_000)))
    some = [one for one in DRAWN if one not in RARER_ON_ZOOKEEPER and rng.random() < 0.25]
    some += [one for one in ZOOKEEPER_SCENES if one not in RARER_ON_ZOOKEEPER and rng.random() < 0.5]
    some += [one for one in RARER_ON_ZOOKEEPER if _drawn(seed, one) < 0.2]
    return replace(
        plan,
        plane=ZOOKEEPER,
        scene=scene,
        hosts=dict.fromkeys(range(1, 4 if rng.random() < 0.75 else 5), BROKER),
        settings=settings | {"offsets.topic.replication.factor": "3"},
        faults=(scene,) if scene else tuple(some) or (*DRAWN, *ZOOKEEPER_SCENES),
    )


def with_kafka_brokers(plan: Plan, *, always: bool = False) -> Plan:
    """The plan, with brokers of both kinds where its rng draws it, or ``always``."""
    rng = random.Random(f"kafka plan {plan.seed}")
    drawn = rng.random() < MIXED_SHARE
    brokers = plan.brokers
    kafka = rng.sample(brokers, rng.randint(1, len(brokers) - 1))
    return replace(plan, kafka=tuple(sorted(kafka))) if drawn or always else plan


def _drawn(seed: int, scene: str) -> float:
    """An rng of each scene's own: a scene that is new changes no other's draws."""
    return random.Random(f"zookeeper {seed} {scene}").random()
