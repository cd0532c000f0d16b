"""A whole run by a seed: a topic, clients that write unique values, disturbances, healing, then the checks.

Safety while things break, liveness after they heal: everybody up, every produce answered, every replica in sync. The
laws are those of the reliability catalogue: S1, S4/S5, S15, S16, X7, L1. Read next: cluster.py.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from moldau.client.admin import NewTopic, create_topics
from moldau.client.client import Client
from moldau.client.lines import WorldLines
from moldau.client.producer import Producer, ProducerOptions
from moldau.simulator.cluster import SimCluster
from moldau.simulator.disk import SimDisk
from moldau.simulator.loop import Owner
from moldau.simulator.ports import SimClock
from moldau.terms import Code
from moldau.wire import batch

TOPIC = "sim"
PARTITIONS = 2
SCENES = ("kill", "pause", "isolate", "one-way", "power", "break")
HEALED_LIMIT_S = 90.0


@dataclass
class Outcome:
    """What a run came to; ``broken`` names the laws that did not hold."""

    seed: int
    digest: str
    acked: int
    story: list[str]
    broken: list[str] = field(default_factory=list)


class Load:
    """One producing client; ``acked`` is (partition, offset, value) in the order of sending."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        self.cluster, self.name = cluster, f"c{number}"
        owner = Owner(self.name)
        clock = SimClock(cluster.loop)
        self.world = cluster.world(owner, "client", SimDisk(clock.wall_ms), clock)
        self.owner = owner
        self.client = Client(WorldLines(self.world), cluster.bootstrap)
        self.acked: list[tuple[int, int, bytes]] = []
        self.refused = 0
        self.going = True

    async def produce(self) -> None:
        producer = Producer(self.client, ProducerOptions())
        while await producer.prepare(TOPIC) is not Code.NONE:  # noqa: ASYNC110  # virtual time: a look costs nothing
            await asyncio.sleep(0.1)
        sent: list[tuple[int, bytes, Any]] = []
        number = 0
        while self.going:
            partition, value = number % PARTITIONS, f"{self.name}-{number}".encode()
            sent.append((partition, value, producer.send(TOPIC, value, partition=partition)))
            number += 1
            await asyncio.sleep(0.02 + self.cluster.dice.random() * 0.05)
        await producer.close()
        for partition, value, delivery in sent:
            written = await delivery
            if written.code is Code.NONE:
                self.acked.append((partition, written.base_offset, value))
            else:
                self.refused += 1


def simulate(seed: int, scene: str | None = None) -> Outcome:
    """Run one seed; ``scene`` allows one kind of disturbance only."""
    cluster = SimCluster(seed)
    asyncio.set_event_loop(None)
    loads = [Load(cluster, number) for number in (1, 2)]
    try:
        cluster.loop.run_until_complete(_live(cluster, loads, scene))
    except Exception as error:
        cluster.broken.append(f"the run ended with {error!r}")
    broken = [*cluster.broken, *cluster.loop.failures]
    acked = sum(len(load.acked) for load in loads)
    outcome = Outcome(seed, cluster.digest, acked, cluster.story, broken)
    cluster.close()
    return outcome


async def _live(cluster: SimCluster, loads: list[Load], scene: str | None) -> None:
    for id in cluster.seats:
        cluster.start(id)
    loop = cluster.loop
    if not await cluster.until(cluster.all_unfenced, HEALED_LIMIT_S):
        cluster.broken.append("L1: not all brokers came up")
        return
    new = NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=3, configs={"min.insync.replicas": "2"})
    first = loads[0]
    made = await loop.create_task(create_topics(first.client, [new]), context=first.owner.context)
    if made[TOPIC].code is not Code.NONE or not await cluster.until(lambda: cluster.in_sync(TOPIC), HEALED_LIMIT_S):
        cluster.broken.append(f"L1: topic {TOPIC} did not come about: {made[TOPIC]}")
        return
    cluster.tell(f"topic {TOPIC} is in sync on all nodes")
    tasks = [loop.create_task(load.produce(), context=load.owner.context) for load in loads]
    allowed = [scene] if scene else [one for one in SCENES if cluster.dice.random() < 0.6] or list(SCENES)
    for _ in range(cluster.dice.randint(2, 4)):
        await asyncio.sleep(0.5 + cluster.dice.random())
        await _disturb(cluster, cluster.dice.choice(allowed))
    for load in loads:
        load.going = False
    done, late = await asyncio.wait(tasks, timeout=HEALED_LIMIT_S * 2)
    for task in done:
        task.result()
    if late:
        cluster.broken.append(f"L1: {len(late)} producers had no answer after all was healed")
    if not await cluster.until(lambda: cluster.in_sync(TOPIC), HEALED_LIMIT_S):
        cluster.broken.append("L1: replicas are not in sync after all was healed")
        return
    cluster.tell("all is healed and in sync")
    cluster.broken += check(cluster, loads)


async def _disturb(cluster: SimCluster, kind: str) -> None:
    """One trouble, and its end. Only one node is in trouble at a time: two of three hold what was acknowledged."""
    if not await cluster.until(lambda: cluster.in_sync_isr(TOPIC), HEALED_LIMIT_S):
        cluster.broken.append("L1: the ISR is not whole again after the last trouble ended")
        return
    id = cluster.dice.choice(list(cluster.seats))
    lasting_s = cluster.dice.choice((0.2, 2.0, 12.0))
    if kind in ("kill", "power"):
        cluster.kill(id, power=kind == "power")
        await asyncio.sleep(lasting_s)
        cluster.start(id)
    elif kind == "pause":
        cluster.pause(id)
        await asyncio.sleep(lasting_s)
        cluster.resume(id)
    elif kind == "break":
        cluster.tell("connections break")
        for end in list(cluster.wires.ends):
            if cluster.dice.random() < 0.5:
                end.break_now()
    else:
        cluster.isolate(id, ways=2 if kind == "isolate" else 1)
        await asyncio.sleep(lasting_s)
        cluster.heal()


def check(cluster: SimCluster, loads: list[Load]) -> list[str]:
    """The laws at rest: S4/S5 replicas alike, S1 nothing acknowledged is lost, S15/S16 order and no duplicates."""
    broken = []
    values: dict[int, dict[int, bytes]] = {}
    for partition, of in sorted(cluster.replicas(TOPIC).items()):
        texts = {bytes(r.log.read(0, 1 << 30, up_to=r.machine.high_watermark)) for r in of.values()}
        if len(texts) != 1:
            broken.append(f"S4: replicas of {TOPIC}-{partition} differ below the watermark")
        first = min(texts)
        values[partition] = {
            one.offset: bytes(one.value or b"") for at, _ in batch.headers(first) for one in batch.records(first, at)
        }
        found = list(values[partition].values())
        if len(found) != len(set(found)):
            broken.append(f"S16: {TOPIC}-{partition} holds a record twice")
        for load in loads:
            mine = [int(v.split(b"-")[1]) for v in found if v.startswith(load.name.encode() + b"-")]
            if mine != sorted(mine):
                broken.append(f"S15: records of {load.name} in {TOPIC}-{partition} are out of order")
    for load in loads:
        for partition, offset, value in load.acked:
            if values.get(partition, {}).get(offset) != value:
                broken.append(f"S1: {value!r} was acknowledged at {TOPIC}-{partition}@{offset} and is not there")
                break
    return broken
