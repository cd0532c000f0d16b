"""Turns any list of (what, a, b, c) into a run of requests to a controller, with the laws after each.

Numbers are taken modulo what there is, so that every list means something, and shrinks well. controller_swarm.py draws
such lists, and brings the cluster to quiescence after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
from moldau.simulator.machines.controller_desk import Desk
from moldau.simulator.machines.record import RunRecord

Step = tuple[int, int, int, int]
BROKERS = 5


class Play:
    """One run. ``record`` gets a line for every request."""

    brokers = BROKERS

    def __init__(
        self, *, elr: bool = True, classic: bool = False, brokers: int = BROKERS, record: RunRecord | None = None
    ) -> None:
        """``classic``: in ZooKeeper mode, where there are no eligible leader replicas, nor levels of features."""
        self.classic = classic
        self.desk = Desk(
            min(4, brokers), elr=elr and not classic, deletions_wait=classic, classic=classic, record=record
        )
        self.brokers = brokers
        self.incarnations = dict.fromkeys(range(brokers), 0)
        n = min(4, brokers)
        wheel = [tuple((first + at) % n for at in range(min(3, n))) for first in (0, 1, 2)]
        self.desk.create("t0", *wheel, configs={"min.insync.replicas": "2"})

    def run(self, steps: Iterable[Step]) -> None:
        for what, a, b, c in steps:
            self.do(ACTIONS[what % len(ACTIONS)], a, b, c)

    def do(self, action: Action, a: int, b: int, c: int) -> None:
        action(self, a, b, c)
        desk = self.desk
        desk.now_ms += 1
        told = ", ".join(type(record).__name__.removesuffix("Record") for record in desk.records)
        desk.record.event(desk.now_ms - 1_000_000, f"{action.__name__} {a} {b} {c} -> {told or 'nothing'}")

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

    # ---- actions

    def beat(self, a: int, b: int, c: int) -> None:
        id = a % self.brokers
        if id in self.desk.image.brokers:
            self.desk.beat(id, want_shut_down=b % 7 == 1, want_fence=b % 11 == 1)
        else:
            self.desk.register(id, self.incarnations[id])

    def register_again(self, a: int, b: int, c: int) -> None:
        """The same process, whose first answer got lost."""
        id = a % self.brokers
        self.desk.register(id, self.incarnations[id] % 256)

    def restart(self, a: int, b: int, c: int) -> None:
        id = a % self.brokers
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
        id = a % self.brokers
        if id in self.desk.image.brokers:
            self.desk.ask(BrokerRefused(broker_id=id, broker_epoch=self.desk.broker(id).epoch))

    def silence(self, a: int, b: int, c: int) -> None:
        for _ in range(10):
            self.desk.now_ms += 1000
            for id in sorted(self.desk.image.brokers):
                if (a >> id) & 1 and not self.desk.broker(id).fenced:
                    self.desk.beat(id)
            self.desk.ask(Tick())

    def oversleep(self, a: int, b: int, c: int) -> None:
        """The controller's own process stands still; no broker was silent by its own fault (KAFKA-15019)."""
        desk = self.desk
        desk.ask(Tick())
        here = [id for id in sorted(desk.image.brokers) if not desk.broker(id).fenced]
        for id in here:
            desk.beat(id)
        desk.ask(Tick())
        here = [id for id in here if not desk.broker(id).fenced]
        desk.now_ms += 2000 + (b % 20) * 1000
        desk.ask(Tick())
        gone = [id for id in here if id in desk.image.brokers and desk.broker(id).fenced]
        desk.record.check(nobody_is_fenced_for_the_controllers_sleep, gone)

    def unregister(self, a: int, b: int, c: int) -> None:
        if b % 3 == 0:
            self.desk.ask(UnregisterBroker(broker_id=a % self.brokers))

    def create(self, a: int, b: int, c: int) -> None:
        configs = (("min.insync.replicas", str(1 + c % 3)),) if c % 2 else ()
        topic = NewTopic(name=self.topic(a), partitions=1 + b % 3, replication_factor=1 + c % 4, configs=configs)
        self.desk.ask(CreateTopics(topics=(topic,)))

    def delete(self, a: int, b: int, c: int) -> None:
        topic = self.desk.image.topic(self.topic(a))
        deleted = frozenset() if topic is None or b % 3 == 0 else frozenset({topic.id})
        self.desk.ask(DeleteTopics(topics=(self.topic(a),), deleted=deleted))

    def grow(self, a: int, b: int, c: int) -> None:
        self.desk.ask(CreatePartitions(topics=(MorePartitions(name=self.topic(a), count=1 + b % 6),)))

    def set_isr(self, a: int, b: int, c: int) -> None:
        found = self.some(a, led=True)
        if found is None:
            return
        topic, partition = found
        stranger = (c % self.brokers,) if b > 224 else ()  # a leader that proposes a stranger (KAFKA-9672)
        isr = [r for n, r in enumerate(partition.replicas) if r == partition.leader or (b >> n) & 1]
        isr = [r for r in (*isr, *stranger) if r in self.desk.image.brokers]
        recovery = partition.recovery if c % 3 == 0 else 0
        stale = int(b > 160)  # what a leader says of followers that have been restarted since
        epochs = tuple((r, self.desk.broker(r).epoch - stale * (r != partition.leader)) for r in dict.fromkeys(isr))
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
        start, count = b % self.brokers, 1 + c % 4
        wish = None if c % 6 == 0 else tuple(dict.fromkeys((start + n) % self.brokers for n in range(count)))
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
        if b % 3 == 0 and not self.classic:
            update = FeatureUpdate(
                feature="eligible.leader.replicas.version", level=1 - level, upgrade_type=2 if level else 1
            )
            self.desk.ask(UpdateFeatures(updates=(update,)))

    def new_controller(self, a: int, b: int, c: int) -> None:
        desk = self.desk
        desk.controller.renounce()
        desk.controller.claim((desk.controller.epoch or 0) + desk.rounds + 10, desk.image, desk.facts())


Action = Callable[[Play, int, int, int], object]


def nobody_is_fenced_for_the_controllers_sleep(gone: list[int]) -> None:
    """L11: brokers whose heartbeats arrived just before the controller's process stood still are not fenced for it."""
    assert not gone, f"brokers {gone} were fenced because the controller slept"


ACTIONS: tuple[Action, ...] = (
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
    Play.oversleep,
    Play.register_again,
)
