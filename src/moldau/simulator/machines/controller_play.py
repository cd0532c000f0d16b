"""Turns any list of (what, a, b, c) into a run of requests to a controller, with the laws after each.

Numbers are taken modulo what there is, so that every list means something, and shrinks well. controller_swarm.py draws
such lists, and brings the cluster to quiescence after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ElectUncleanLeaders,
    FeatureUpdate,
    IncrementalAlterConfigs,
    MorePartitions,
    Move,
    NewTopic,
    RebalanceLeaders,
    Tick,
    UnregisterBroker,
    UpdateFeatures,
)
from moldau.image import NO_LEADER, Partition
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.simulator.machines.record import RunRecord

Step = tuple[int, int, int, int]
BROKERS = 5


class Play:
    """One run. ``record`` gets a line for every request."""

    brokers = BROKERS

    def __init__(
        self, *, elr: bool = True, zookeeper_mode: bool = False, brokers: int = BROKERS, record: RunRecord | None = None
    ) -> None:
        """``zookeeper_mode``: where there are no eligible leader replicas, nor levels of features."""
        self.zookeeper_mode = zookeeper_mode
        self.harness = ControllerHarness(
            min(4, brokers),
            elr=elr and not zookeeper_mode,
            deletions_wait=zookeeper_mode,
            zookeeper_mode=zookeeper_mode,
            record=record,
        )
        self.brokers = brokers
        self.incarnations = dict.fromkeys(range(brokers), 0)
        n = min(4, brokers)
        wheel = [tuple((first + at) % n for at in range(min(3, n))) for first in (0, 1, 2)]
        self.harness.create("t0", *wheel, configs={"min.insync.replicas": "2"})

    def run(self, steps: Iterable[Step]) -> None:
        for what, a, b, c in steps:
            self.do(ACTIONS[what % len(ACTIONS)], a, b, c)

    def do(self, action: Action, a: int, b: int, c: int) -> None:
        action(self, a, b, c)
        harness = self.harness
        harness.now_ms += 1
        told = ", ".join(type(record).__name__.removesuffix("Record") for record in harness.records)
        harness.record.event(harness.now_ms - 1_000_000, f"{action.__name__} {a} {b} {c} -> {told or 'nothing'}")

    def some(self, a: int, *, led: bool = False) -> tuple[str, Partition] | None:
        image = self.harness.image
        every = [
            (name, partition)
            for name in sorted(image.names)
            for partition in image.topics[image.names[name]].partitions.values()
            if not led or partition.leader != NO_LEADER
        ]
        return every[a % len(every)] if every else None

    def topic(self, a: int) -> str:
        return f"t{a % 3}"

    # ---- actions

    def heartbeat(self, a: int, b: int, c: int) -> None:
        id = a % self.brokers
        if id in self.harness.image.brokers:
            self.harness.heartbeat(id, want_shut_down=b % 7 == 1, want_fence=b % 11 == 1)
        else:
            self.harness.register(id, self.incarnations[id])

    def register_again(self, a: int, b: int, c: int) -> None:
        """The same process, whose first answer got lost."""
        id = a % self.brokers
        self.harness.register(id, self.incarnations[id] % 256)

    def restart(self, a: int, b: int, c: int) -> None:
        id = a % self.brokers
        self.incarnations[id] += 1
        broker = self.harness.image.brokers.get(id)
        clean = broker is not None and b % 3 == 0
        self.harness.register(
            id,
            self.incarnations[id] % 256,
            previous_is_gone=c % 2 == 0,
            previous_broker_epoch=broker.epoch if clean and broker is not None else -1,
        )

    def refuse(self, a: int, b: int, c: int) -> None:
        id = a % self.brokers
        if id in self.harness.image.brokers:
            self.harness.submit(BrokerRefused(broker_id=id, broker_epoch=self.harness.broker(id).epoch))

    def silence(self, a: int, b: int, c: int) -> None:
        for _ in range(10):
            self.harness.now_ms += 1000
            for id in sorted(self.harness.image.brokers):
                if (a >> id) & 1 and not self.harness.broker(id).fenced:
                    self.harness.heartbeat(id)
            self.harness.submit(Tick())

    def oversleep(self, a: int, b: int, c: int) -> None:
        """The controller's own process stands still; no broker was silent by its own fault (KAFKA-15019)."""
        harness = self.harness
        harness.submit(Tick())
        here = [id for id in sorted(harness.image.brokers) if not harness.broker(id).fenced]
        for id in here:
            harness.heartbeat(id)
        harness.submit(Tick())
        here = [id for id in here if not harness.broker(id).fenced]
        harness.now_ms += 2000 + (b % 20) * 1000
        harness.submit(Tick())
        gone = [id for id in here if id in harness.image.brokers and harness.broker(id).fenced]
        harness.record.check(nobody_is_fenced_for_the_controllers_sleep, gone)

    def unregister(self, a: int, b: int, c: int) -> None:
        if b % 3 == 0:
            self.harness.submit(UnregisterBroker(broker_id=a % self.brokers))

    def create(self, a: int, b: int, c: int) -> None:
        configs = (("min.insync.replicas", str(1 + c % 3)),) if c % 2 else ()
        topic = NewTopic(name=self.topic(a), partitions=1 + b % 3, replication_factor=1 + c % 4, configs=configs)
        self.harness.submit(CreateTopics(topics=(topic,)))

    def delete(self, a: int, b: int, c: int) -> None:
        topic = self.harness.image.topic(self.topic(a))
        deleted = frozenset() if topic is None or b % 3 == 0 else frozenset({topic.id})
        self.harness.submit(DeleteTopics(topics=(self.topic(a),), deleted=deleted))

    def grow(self, a: int, b: int, c: int) -> None:
        self.harness.submit(CreatePartitions(topics=(MorePartitions(name=self.topic(a), count=1 + b % 6),)))

    def set_isr(self, a: int, b: int, c: int) -> None:
        found = self.some(a, led=True)
        if found is None:
            return
        topic, partition = found
        stranger = (c % self.brokers,) if b > 224 else ()  # a leader that proposes a stranger (KAFKA-9672)
        isr = [r for n, r in enumerate(partition.replicas) if r == partition.leader or (b >> n) & 1]
        isr = [r for r in (*isr, *stranger) if r in self.harness.image.brokers]
        recovery = partition.recovery if c % 3 == 0 else 0
        stale = int(b > 160)  # what a leader says of followers that have been restarted since
        epochs = tuple((r, self.harness.broker(r).epoch - stale * (r != partition.leader)) for r in dict.fromkeys(isr))
        self.harness.set_isr(topic, partition.id, isr=epochs, recovery=recovery)

    def elect(self, a: int, b: int, c: int) -> None:
        found = self.some(a)
        named = None if found is None or b % 3 == 0 else ((found[0], found[1].id),)
        self.harness.submit(ElectLeaders(election_type=1 if c % 5 == 0 else 0, partitions=named))

    def background(self, a: int, b: int, c: int) -> None:
        self.harness.submit(RebalanceLeaders() if a % 2 else ElectUncleanLeaders())

    def move(self, a: int, b: int, c: int) -> None:
        found = self.some(a)
        if found is None:
            return
        start, count = b % self.brokers, 1 + c % 4
        replicas = None if c % 6 == 0 else tuple(dict.fromkeys((start + n) % self.brokers for n in range(count)))
        move = Move(topic=found[0], partition=found[1].id, replicas=replicas)
        self.harness.submit(AlterPartitionReassignments(moves=(move,)))

    def configure(self, a: int, b: int, c: int) -> None:
        key, value = (
            ("min.insync.replicas", str(1 + c % 3)) if b % 2 else
            ("unclean.leader.election.enable", "true" if c % 2 else "false")
        )  # fmt: skip
        name = self.topic(a) if b % 4 < 2 else ""
        change = ConfigChange(resource_type=2 if name else 4, resource_name=name, changes=((key, 0, value),))
        self.harness.submit(IncrementalAlterConfigs(resources=(change,)))

    def feature(self, a: int, b: int, c: int) -> None:
        level = self.harness.image.features.get("eligible.leader.replicas.version", 0)
        if b % 3 == 0 and not self.zookeeper_mode:
            update = FeatureUpdate(
                feature="eligible.leader.replicas.version", level=1 - level, upgrade_type=2 if level else 1
            )
            self.harness.submit(UpdateFeatures(updates=(update,)))

    def new_controller(self, a: int, b: int, c: int) -> None:
        harness = self.harness
        harness.controller.renounce()
        harness.controller.claim((harness.controller.epoch or 0) + harness.rounds + 10, harness.image, harness.facts())


Action = Callable[[Play, int, int, int], object]


def nobody_is_fenced_for_the_controllers_sleep(gone: list[int]) -> None:
    """L11: brokers whose heartbeats arrived just before the controller's process stood still are not fenced for it."""
    assert not gone, f"brokers {gone} were fenced because the controller slept"


ACTIONS: tuple[Action, ...] = (
    Play.heartbeat,
    Play.set_isr,
    Play.refuse,
    Play.restart,
    Play.create,
    Play.move,
    Play.elect,
    Play.set_isr,
    Play.heartbeat,
    Play.configure,
    Play.silence,
    Play.delete,
    Play.grow,
    Play.background,
    Play.unregister,
    Play.feature,
    Play.new_controller,
    Play.heartbeat,
    Play.set_isr,
    Play.oversleep,
    Play.register_again,
)
