"""A clumsy cluster in a few lines: any list of (what, a, b, c) is a run of asks, with the laws after each.

Numbers are taken modulo what there is, so that every list means something, and shrinks well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from moldau.controller.asks import (
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
from tests.rooms.controller.desk import Desk

Step = tuple[int, int, int, int]
BROKERS = 5


class Play:
    """One run."""

    def __init__(self, *, elr: bool = True) -> None:
        self.desk = Desk(4, elr=elr)
        self.incarnations = dict.fromkeys(range(BROKERS), 0)
        self.desk.create("t0", (0, 1, 2), (1, 2, 3), (2, 3, 0), configs={"min.insync.replicas": "2"})

    def run(self, steps: Iterable[Step]) -> None:
        for what, a, b, c in steps:
            DEEDS[what % len(DEEDS)](self, a, b, c)
            self.desk.now_ms += 1

    def some(self, a: int, *, led: bool = False) -> tuple[str, Partition] | None:
        image = self.desk.image
        every = [
            (name, partition)
            for name in sorted(image.names)
            for partition in image.topics[image.names[name]].partitions.values()
            if not led or partition.leader != NO_LEADER
        ]
        return every[a % len(every)] if every else None

    def topic(self, a: int) -> str:
        return f"t{a % 3}"

    # ---- deeds

    def beat(self, a: int, b: int, c: int) -> None:
        id = a % BROKERS
        if id in self.desk.image.brokers:
            self.desk.beat(id, want_shut_down=b % 7 == 1, want_fence=b % 11 == 1)
        else:
            self.desk.register(id, self.incarnations[id])

    def restart(self, a: int, b: int, c: int) -> None:
        id = a % BROKERS
        self.incarnations[id] += 1
        broker = self.desk.image.brokers.get(id)
        clean = broker is not None and b % 3 == 0
        self.desk.register(
            id,
            self.incarnations[id] % 256,
            previous_is_gone=c % 2 == 0,
            previous_broker_epoch=broker.epoch if clean and broker is not None else -1,
        )

    def refuse(self, a: int, b: int, c: int) -> None:
        id = a % BROKERS
        if id in self.desk.image.brokers:
            self.desk.ask(BrokerRefused(broker_id=id, broker_epoch=self.desk.broker(id).epoch))

    def silence(self, a: int, b: int, c: int) -> None:
        for _ in range(10):
            self.desk.now_ms += 1000
            for id in sorted(self.desk.image.brokers):
                if (a >> id) & 1 and not self.desk.broker(id).fenced:
                    self.desk.beat(id)
            self.desk.ask(Tick())

    def unregister(self, a: int, b: int, c: int) -> None:
        if b % 3 == 0:
            self.desk.ask(UnregisterBroker(broker_id=a % BROKERS))

    def create(self, a: int, b: int, c: int) -> None:
        configs = (("min.insync.replicas", str(1 + c % 3)),) if c % 2 else ()
        topic = NewTopic(name=self.topic(a), partitions=1 + b % 3, replication_factor=1 + c % 4, configs=configs)
        self.desk.ask(CreateTopics(topics=(topic,)))

    def delete(self, a: int, b: int, c: int) -> None:
        self.desk.ask(DeleteTopics(topics=(self.topic(a),)))

    def grow(self, a: int, b: int, c: int) -> None:
        self.desk.ask(CreatePartitions(topics=(MorePartitions(name=self.topic(a), count=1 + b % 6),)))

    def set_isr(self, a: int, b: int, c: int) -> None:
        found = self.some(a, led=True)
        if found is None:
            return
        topic, partition = found
        isr = [r for n, r in enumerate(partition.replicas) if r == partition.leader or (b >> n) & 1]
        isr = [r for r in isr if r in self.desk.image.brokers]
        recovery = partition.recovery if c % 3 == 0 else 0
        stale = int(b > 160)  # what a leader says of followers that have been restarted since
        epochs = tuple((r, self.desk.broker(r).epoch - stale * (r != partition.leader)) for r in isr)
        self.desk.set_isr(topic, partition.id, isr=epochs, recovery=recovery)

    def elect(self, a: int, b: int, c: int) -> None:
        found = self.some(a)
        named = None if found is None or b % 3 == 0 else ((found[0], found[1].id),)
        self.desk.ask(ElectLeaders(election_type=1 if c % 5 == 0 else 0, partitions=named))

    def background(self, a: int, b: int, c: int) -> None:
        self.desk.ask(RebalanceLeaders() if a % 2 else ElectUncleanLeaders())

    def move(self, a: int, b: int, c: int) -> None:
        found = self.some(a)
        if found is None:
            return
        start, count = b % BROKERS, 1 + c % 4
        wish = None if c % 6 == 0 else tuple((start + n) % BROKERS for n in range(count))
        move = Move(topic=found[0], partition=found[1].id, replicas=wish)
        self.desk.ask(AlterPartitionReassignments(moves=(move,)))

    def configure(self, a: int, b: int, c: int) -> None:
        key, value = (
            ("min.insync.replicas", str(1 + c % 3)) if b % 2 else
            ("unclean.leader.election.enable", "true" if c % 2 else "false")
        )  # fmt: skip
        name = self.topic(a) if b % 4 < 2 else ""
        change = ConfigChange(resource_type=2 if name else 4, resource_name=name, changes=((key, 0, value),))
        self.desk.ask(IncrementalAlterConfigs(resources=(change,)))

    def feature(self, a: int, b: int, c: int) -> None:
        level = self.desk.image.features.get("eligible.leader.replicas.version", 0)
        if b % 3 == 0:
            update = FeatureUpdate(
                feature="eligible.leader.replicas.version", level=1 - level, upgrade_type=2 if level else 1
            )
            self.desk.ask(UpdateFeatures(updates=(update,)))

    def new_controller(self, a: int, b: int, c: int) -> None:
        desk = self.desk
        desk.office.lose_office()
        desk.office.take_office((desk.office.epoch or 0) + desk.rounds + 10, desk.image, desk.facts())


DEEDS: tuple[Callable[[Play, int, int, int], Any], ...] = (
    Play.beat,
    Play.set_isr,
    Play.refuse,
    Play.restart,
    Play.create,
    Play.move,
    Play.elect,
    Play.set_isr,
    Play.beat,
    Play.configure,
    Play.silence,
    Play.delete,
    Play.grow,
    Play.background,
    Play.unregister,
    Play.feature,
    Play.new_controller,
    Play.beat,
    Play.set_isr,
)
