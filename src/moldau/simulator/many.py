"""Three whole brokers with any number of partitions: topics are created, nodes die, shut down, come back.

Nothing is drawn but ids and delays: no faults, no buggify points, steps as long as in production. After each action
every partition must be led by a living broker and followed by all others; ``wrong`` returns what is not so. Time is
virtual: an action costs only work, which ``bench/scale.py`` measures. Read next: cluster.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from moldau.broker.node import Node
from moldau.client.admin import NewTopic, create_topics, elect_leaders
from moldau.image import Image
from moldau.image.partition import Key
from moldau.model import Code
from moldau.replication.roles import Role
from moldau.simulator.cluster import SimCluster
from moldau.simulator.load import EXPECTED_ERRORS, Actor
from moldau.simulator.plan import BOTH, GOOD_NETWORK, Plan
from moldau.simulator.scenes import QUORUM

BROKERS = (1, 2, 3)
LIMIT_S = 600.0
"""Virtual seconds that any of it may take."""
AFTER = "after"
"""The topic that the next controller creates."""


class ManyPartitions:
    """``partitions`` in topics of ``in_a_topic``, each on all three brokers. Every action is one call of ``run``."""

    def __init__(self, partitions: int, in_a_topic: int = 1_000, *, step: int = 100) -> None:
        self.partitions, self.in_a_topic = partitions, in_a_topic
        self.cluster = SimCluster(_plan(step))
        self.client = Actor(self.cluster, "administrator")
        self._before: ManyPartitionsImage | None = None
        self._doubtful: tuple[int, Key] | None = None
        """Where something was wrong when one looked last."""

    def run(self, action: Callable[[], Any]) -> Any:
        """Run until an action is complete; TimeoutError says what is missing."""
        return self.cluster.loop.run_until_complete(action())

    def close(self) -> None:
        """The end of all of them."""
        self.cluster.close()

    # ---- what befalls them

    async def start(self) -> None:
        for id in BROKERS:
            self.cluster.start(id)
        await self._until(lambda: "" if all(host.serves for host in self._hosts()) else "not all serve", alive=3)

    async def create(self) -> None:
        """One request a topic, one after the other."""
        for number in range(self.partitions // self.in_a_topic):
            await self._create(f"many-{number:03}", self.in_a_topic)
        await self._until(self.wrong, alive=3)

    async def death(self) -> int:
        """kill -9 of a broker that is not the controller; which."""
        dead = next(id for id in BROKERS if id != self.controller)
        self.cluster.kill(dead)
        await self._until(self.wrong, alive=2)
        return dead

    async def shutdown(self) -> int:
        """A broker that is not the controller leaves in order; which."""
        leaver = next(id for id in BROKERS if id != self.controller)
        self.cluster.stop(leaver)
        await self._until(self.wrong, alive=2)
        return leaver

    async def failover(self) -> int:
        """kill -9 of the controller, until the next one has created a topic; which. ``settle`` waits for the rest."""
        dead = self.controller
        assert dead is not None
        self._before = ManyPartitionsImage(self._nodes(), dead)
        self.cluster.kill(dead)
        await self._create(AFTER, 1)
        return dead

    async def settle(self) -> None:
        """Until all is as it must be with who is alive."""
        await self._until(self.wrong, alive=len(self.cluster.alive))

    async def come_back(self, id: int) -> None:
        """Start a node again, until it is in every ISR."""
        self.cluster.start(id)
        await self._until(self.wrong, alive=3)

    async def spread(self) -> None:
        """Every broker leads its third again."""
        await self.client.begin(elect_leaders(self.client.client, None))
        await self._until(lambda: self.wrong() or self._astray(), alive=3)

    async def _create(self, name: str, partitions: int) -> None:
        replicas = len(self.cluster.alive)
        topic = NewTopic(name=name, partitions=partitions, replication_factor=replicas)
        for _ in range(100):
            try:
                code = (await self.client.begin(create_topics(self.client.client, [topic])))[name].code
            except EXPECTED_ERRORS:
                continue
            if code in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                return
        raise TimeoutError(f"{name} is not created")

    async def _until(self, what: Callable[[], str], *, alive: int) -> None:
        if not await self.cluster.until(lambda: len(self.cluster.alive) == alive and not what(), LIMIT_S):
            raise TimeoutError(f"not within {LIMIT_S:g} s of the simulation: {what()}")

    # ---- what there is

    @property
    def controller(self) -> int | None:
        """Who rules."""
        return next((id for id, node in self._nodes() if node.is_active_controller), None)

    def _hosts(self) -> Iterator[Any]:
        return iter(self.cluster.alive)

    def _nodes(self) -> Iterator[tuple[int, Node]]:
        return ((host.id, host.node) for host in self.cluster.alive if host.node is not None)

    def wrong(self) -> str:
        """The first thing that is not as it must be; empty when all is."""
        nodes = dict(self._nodes())
        broken = [*self.cluster.broken, *self.cluster.loop.failures]
        if broken:
            return broken[0]
        images = {id: node.metadata.image for id, node in nodes.items()}
        for id, image in images.items():
            if image.partition_count() < self.partitions:
                return f"n{id} knows {image.partition_count()} partitions"
            if any(image.index.led.get(other) for other in (-1, *BROKERS) if other not in nodes):
                return f"n{id} sees partitions that nobody alive leads"
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None and doubtful[0] in nodes:  # as long as it is so, nothing else is looked at
            id, key = doubtful
            if images[id].partition(*key) is not None and (wrong := _astray_on(id, nodes[id], key, set(nodes))):
                self._doubtful = doubtful
                return wrong
        for id, node in nodes.items():
            for key in images[id].index.assigned.get(id, ()):
                wrong = _astray_on(id, node, key, set(nodes))
                if wrong:
                    self._doubtful = (id, key)
                    return wrong
        return ""

    def _astray(self) -> str:
        image = next(self._nodes())[1].metadata.image
        return f"{len(image.index.astray)} partitions are not led by whom they should" if image.index.astray else ""

    def rebuilt(self) -> list[str]:
        """What the survivors of a failover made anew; empty when nothing."""
        assert self._before is not None, "there was no failover"
        return self._before.rebuilt(dict(self._nodes()))


def _astray_on(id: int, node: Node, key: Key, alive: set[int]) -> str:
    """How a broker does not lead or follow a partition as its image says, or that a follower has not come; or empty."""
    said, replica = node.metadata.image.at(key), node.replicas.by_key.get(key)
    if replica is None:
        return f"n{id} has not heard of {key[1]} of {node.metadata.image.topics[key[0]].name}"
    machine = replica.machine
    if (machine.leader_epoch, machine.partition_epoch) != (said.leader_epoch, said.partition_epoch):
        return f"n{id} has not heard of {key[1]} of {node.metadata.image.topics[key[0]].name}"
    if set(said.isr) != alive & set(said.replicas):
        return f"the ISR of {replica.partition} is {said.isr}"
    if said.leader == id and machine.role is not Role.LEADER:
        return f"n{id} does not lead {replica.partition}"
    if said.leader == id and not all(machine.followers[other].fetched for other in said.isr if other != id):
        return f"not all that are in sync fetch {replica.partition} from n{id}"
    return ""


class ManyPartitionsImage:
    """What the survivors of a controller's death hold, to be compared with what they hold when another one rules."""

    def __init__(self, nodes: Iterator[tuple[int, Node]], dead: int) -> None:
        self._images: dict[int, Image] = {}
        self._logs: dict[int, dict[Any, Any]] = {}
        self._offsets: dict[int, int] = {}
        self._touched = 0
        for id, node in nodes:
            if id != dead:
                self._images[id] = image = node.metadata.image
                self._logs[id] = {key: replica.log for key, replica in node.replicas.by_key.items()}
                self._offsets[id] = node.metadata.offset
                self._touched = len(image.index.in_sync.get(dead, ()))

    def rebuilt(self, nodes: dict[int, Node]) -> list[str]:
        """Another image, log or replica than before; more records than one for each partition the dead took part in."""
        found = []
        for id, before in self._images.items():
            node = nodes[id]
            if node.metadata.image is not before:
                found.append(f"n{id} has built its image anew")
            anew = sum(node.replicas.by_key[key].log is not log for key, log in self._logs[id].items())
            if anew:
                found.append(f"n{id} has opened {anew} logs again")
            records = node.metadata.offset - self._offsets[id]
            if records > self._touched + OTHER_RECORDS:
                found.append(f"{records} records were written for {self._touched} partitions of the dead")
        return found


OTHER_RECORDS = 20
"""How many records of a failover are about no partition: a new epoch, the dead broker's fencing in parts, a topic, a
registration, no-ops."""


def _plan(step: int) -> Plan:
    return Plan(
        seed=1,
        plane=QUORUM,
        scene=None,
        hosts=dict.fromkeys(BROKERS, BOTH),
        settings={},
        log_dirs=1,
        topics=(),
        flush=False,
        faults=(),
        at_once=0,
        pause_s=0,
        span_s=0,
        core_only=False,
        members=0,
        delivery_timeout_ms=120_000,
        session_timeout_ms=10_000,
        network=GOOD_NETWORK,
        drift=0.0,
        buggify=False,
        step=step,
    )
