"""A ``Plan`` is what a seed draws: how many nodes, which configs, topics and clients, which faults, how they overlap.

Swarm testing: everything that could matter is drawn, because a bug often needs a combination that nobody would choose.
Decides nothing while the run goes on. Read next: run.py.
Source: Groce et al., "Swarm Testing"; the settings are small on purpose, so that segments roll and snapshots are taken.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from moldau.history.checks import SAFE, Promise
from moldau.simulator.net import NetworkConditions
from moldau.simulator.scenes import DRAWN, QUORUM, RARER

BOTH, CONTROLLER, BROKER = "broker,controller", "controller", "broker"
GOOD_NETWORK = NetworkConditions()
NETWORKS = (
    GOOD_NETWORK,
    GOOD_NETWORK,
    NetworkConditions(0.005),
    NetworkConditions(0.0005, 0.002, 3.0),
    NetworkConditions(0.02, 0.001, 1.0),
)
"""What a seed draws from; the good one is twice as likely as each other."""
PIPELINED_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic that is written all the time. ``unclean``: an unclean election is allowed there, by its settings or by
    the administrator's hand. ``keys``: it is compacted, and has so many; ``tombstones_stay``: longer than the run.
    """

    name: str
    partitions: int
    replication_factor: int
    acks: int = -1
    idempotent: bool = True
    unclean: bool = False
    keys: int = 0
    tombstones_stay: bool = False
    configs: Mapping[str, str]

    @property
    def promise(self) -> Promise:
        if self.keys:
            return Promise(compacted=True, tombstones=self.tombstones_stay)
        return SAFE if self.idempotent else Promise(acked=self.acks == -1, once=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. ``hosts`` has each node's roles; the fault phase lasts ``span_s``, and ``at_once`` faults may overlap.
    ``elr``: whether the cluster keeps eligible leader replicas (KIP-966); ``levels``: of other features, where all
    begins lower than it might. ``first_voters``: controllers that the quorum begins with, where voters may change
    (KIP-853); empty where they are static, and ``joins`` where they add themselves. ``group_log``: configs of
    __consumer_offsets, where it is compacted all the time. ``kafka``: brokers that go by Apache Kafka's rules
    (kafka_rules.py). ``pipelined``: whether a producer has several requests under way (pipelined_producer.py).
    ``deletions``: the topic whose records a client deletes (deleter.py); they expire after ``expires_ms``, if not 0.
    ``transactions``: the topic to which transactional producers write (transactional.py).
    ``racks``: of brokers, where readers read from followers in their rack (plan_racks.py).
    ``buggify``: whether production code takes buggify points now and then (buggify.py). ``step``: how much one step of
    a node's loop holds; None: little, by the seed.
    """

    seed: int
    plane: str
    scene: str | None
    hosts: Mapping[int, str]
    settings: Mapping[str, str]
    log_dirs: int
    topics: tuple[TopicPlan, ...]
    flush: bool
    faults: tuple[str, ...]
    at_once: int
    pause_s: float
    span_s: float
    core_only: bool
    members: int
    delivery_timeout_ms: int
    session_timeout_ms: int
    network: NetworkConditions
    drift: float
    elr: bool = False
    levels: Mapping[str, int] = field(default_factory=dict)
    first_voters: tuple[int, ...] = ()
    joins: bool = False
    group_log: Mapping[str, str] = field(default_factory=dict)
    kafka: tuple[int, ...] = ()
    pipelined: bool = False
    deletions: TopicPlan | None = None
    expires_ms: int = 0
    transactions: TopicPlan | None = None
    racks: Mapping[int, str] = field(default_factory=dict)
    buggify: bool = True
    step: int | None = None

    @property
    def controllers(self) -> list[int]:
        return [id for id, roles in self.hosts.items() if roles != BROKER]

    @property
    def voters(self) -> list[int]:
        """The controllers that vote when a run begins."""
        return list(self.first_voters) or self.controllers

    @property
    def rack_names(self) -> list[str]:
        return sorted(set(self.racks.values()))

    def broker_rack(self, id: int) -> tuple[str, ...]:
        """The line of a broker's properties with its rack, where it stands in one."""
        return (f"broker.rack={self.racks[id]}",) if id in self.racks else ()

    @property
    def brokers(self) -> list[int]:
        return [id for id, roles in self.hosts.items() if roles != CONTROLLER]

    def text(self) -> str:
        """What was drawn, in a few lines."""
        shape = ", ".join(f"n{id} {roles}{' (Kafka)' if id in self.kafka else ''}" for id, roles in self.hosts.items())
        topics = "; ".join(
            f"{one.name}: {one.partitions} partitions on {one.replication_factor}, acks={'all' if one.acks < 0 else 1}"
            f"{', idempotent' if one.idempotent else ''}{', unclean elections allowed' if one.unclean else ''}"
            f"{f', {one.keys} keys, compacted' if one.keys else ''}"
            for one in self.topics
        )
        topics += "; a pipelined producer" if self.pipelined else ""
        topics += f"; readers in racks {', '.join(self.rack_names)}" if self.racks else ""
        if self.deletions is not None:
            expire = f", and expire after {self.expires_ms} ms" if self.expires_ms else ""
            topics += f"; {self.deletions.name}: {self.deletions.partitions} partitions, records are deleted{expire}"
        if self.transactions is not None:
            compacted = ", compacted" if self.transactions.keys else ""
            topics += (
                f"; {self.transactions.name}: {self.transactions.partitions} partitions, in transactions{compacted}"
            )
        kept = "" if self.elr else "no "
        voters = f"voters {', '.join(map(str, self.first_voters))}, who change; " if self.first_voters else ""
        kept = "".join((f"{kept}eligible leader replicas", *(f"; {name} {at}" for name, at in self.levels.items())))
        return (
            f"nodes: {shape}; {voters}{self.log_dirs} log dirs; {kept}\ntopics: {topics}\n"
            f"faults: {', '.join(self.faults)}, up to {self.at_once} at once, for {self.span_s:.0f} s; "
            f"then {'a core heals' if self.core_only else 'all heal'}"
        )


def draw(seed: int, scene: str | None = None) -> Plan:
    """The plan of a seed; ``scene`` allows one kind of fault only."""
    rng = random.Random(f"plan {seed}")
    hosts = _hosts(rng)
    brokers = sum(roles != CONTROLLER for roles in hosts.values())
    flush = rng.random() < 0.15
    some = tuple(one for one in DRAWN if one not in RARER and rng.random() < 0.4)
    more = random.Random(f"more of plan {seed}")  # what came later has an rng of its own: old seeds stay what they were
    some += tuple(one for one in RARER if more.random() < 0.2)
    return Plan(
        seed=seed,
        plane=QUORUM,
        scene=scene,
        hosts=hosts,
        settings=_settings(rng, flush) | {"offsets.topic.replication.factor": str(min(3, brokers))},
        log_dirs=rng.choice((1, 1, 2)),
        topics=_topics(rng, brokers, flush),
        flush=flush,
        faults=(scene,) if scene else some or DRAWN,
        at_once=rng.choice((1, 1, 2, 3)),
        pause_s=rng.choice((0.2, 1.0, 3.0)),
        span_s=rng.choice((8.0, 15.0, 30.0)),
        core_only=rng.random() < 0.4,
        members=rng.choice((0, 1, 2, 3)),
        delivery_timeout_ms=rng.choice((10_000, 30_000, 120_000)),
        session_timeout_ms=rng.choice((6_000, 10_000)),
        network=rng.choice(NETWORKS),
        drift=rng.choice((0.0, 0.0, 0.001, 0.01)),
    )


def with_pipelined(plan: Plan, *, always: bool = False) -> Plan:
    """Return the plan, with a producer that has several requests under way where its rng draws it, or ``always``."""
    drawn = plan.scene is None and random.Random(f"pipelined plan {plan.seed}").random() < PIPELINED_SHARE
    return replace(plan, pipelined=True) if drawn or always else plan


def _hosts(rng: random.Random) -> dict[int, str]:
    shape = rng.random()
    if shape < 0.7:
        return dict.fromkeys((1, 2, 3), BOTH)
    if shape < 0.85:
        return {**dict.fromkeys((1, 2, 3), BOTH), 4: BROKER}
    return {**dict.fromkeys((1, 2, 3), CONTROLLER), **dict.fromkeys((4, 5, 6), BROKER)}


def _settings(rng: random.Random, flush: bool) -> dict[str, str]:
    settings = {
        "broker.session.timeout.ms": str(rng.choice((3_000, 6_000, 9_000))),
        "broker.heartbeat.interval.ms": str(rng.choice((500, 1_000))),
        "replica.lag.time.max.ms": str(rng.choice((1_000, 5_000, 10_000, 30_000))),
        "replica.fetch.wait.max.ms": str(rng.choice((50, 500))),
        "replica.high.watermark.checkpoint.interval.ms": str(rng.choice((200, 5_000))),
        "metadata.log.max.record.bytes.between.snapshots": str(rng.choice((500, 5_000, 20_971_520))),
        "metadata.max.retention.bytes": "2000",  # what is cut must be had from snapshots
        "internal.metadata.log.segment.bytes": str(rng.choice((1_000, 20_000, 1_000_000))),
        "log.segment.bytes": str(1 << 20),
        "log.index.interval.bytes": str(rng.choice((0, 500, 4_096))),
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((500, 60_000))),
        "leader.imbalance.check.interval.seconds": str(rng.choice((5, 300))),
        "log.segment.delete.delay.ms": str(rng.choice((0, 1_000, 60_000))),
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": str(rng.choice((1, 3))),
        "group.initial.rebalance.delay.ms": str(rng.choice((0, 3_000))),
        "controlled.shutdown.retry.backoff.ms": str(rng.choice((500, 5_000))),
        "fetch.max.bytes": str(rng.choice((1_024, 1 << 20))),
    }
    if flush:
        settings["log.flush.interval.messages"] = "1"
    return settings


def _topics(rng: random.Random, brokers: int, flush: bool) -> tuple[TopicPlan, ...]:
    configs = {
        "min.insync.replicas": "2",
        "internal.segment.bytes": str(rng.choice((1_048_576, 20_000, 2_000))),
        "index.interval.bytes": str(rng.choice((0, 1_000, 4_096))),
    }
    if flush:
        configs["flush.messages"] = "1"
    safe = TopicPlan(name="safe", partitions=rng.randint(1, 3), replication_factor=min(3, brokers), configs=configs)
    more = []
    if rng.random() < 0.3:
        more.append(TopicPlan(name="plain", partitions=1, replication_factor=3, idempotent=False, configs=configs))
    if rng.random() < 0.3:
        more.append(
            TopicPlan(name="hasty", partitions=1, replication_factor=3, acks=1, idempotent=False, configs=configs)
        )
    return (safe, *more)
