"""Three controllers over one log whose tail may be lost: what was answered with success stays in the log.

Laws: C3 (a new controller decides on the committed log and nothing else), C4 (no reply leaves before all that it saw is
committed), C5 (a deposed controller changes nothing), C13 (what was answered stays true). What single decisions may do
is checked in controller_swarm.py.
"""

from __future__ import annotations

import random
from typing import Any

from moldau.controller.active import ActiveController
from moldau.controller.facts import Facts, Settings
from moldau.controller.laws import LawChecker
from moldau.controller.replies import Refused, Registered, TopicsCreated, TopicsDeleted
from moldau.controller.requests import (
    BrokerHeartbeat,
    BrokerRefused,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ListPartitionReassignments,
    NewTopic,
    RegisterBroker,
    Tick,
)
from moldau.image import Delta, Image, image_hash
from moldau.model import Code
from moldau.simulator.machines.record import Broken, RunRecord

COVERAGE_POINTS = frozenset(
    {"a lost tail", "a tail kept by the next", "TopicsCreated", "TopicsDeleted", "Registered", "Refused"}
)


def play(seed: int, record: RunRecord) -> None:
    """Run one seed. Raises ``Broken``, or what a controller raised."""
    world = ControllerSimulation(seed, record)
    for _ in range(world.rng.choice([60, 150, 250])):
        world.step()
    world.elect()
    world.commit_all()
    record.check(all_told_is_in_the_log, world)
    record.check(every_image_is_the_logs, world)


class ControllerNode:
    """One controller, and the image that it has applied so far."""

    def __init__(self) -> None:
        self.controller = ActiveController(Settings(cluster_id="c"))
        self.image = Image()
        self.applied = 0


class ControllerSimulation:
    """A log with a committed length; the leader appends, a change of leader may cut the uncommitted tail."""

    def __init__(self, seed: int, record: RunRecord) -> None:
        self.rng = random.Random(f"office {seed}")
        self.record = record
        self.nodes = [ControllerNode() for _ in range(3)]
        self.log: list[Any] = []
        self.ends: list[int] = [0]
        """Ends of batches: records of one decision are committed together or not at all."""
        self.hw = 0
        self.epoch = 0
        self.now_ms = 0
        self.leader = self.nodes[0]
        self.waiting: dict[tuple[int, int], tuple[Any, int]] = {}
        self.told: list[tuple[Any, Any]] = []
        self.watch = LawChecker(self.nodes[0].image, record.check)
        self.change = self.rng.choice([0.02, 0.06, 0.2])
        self.commits = self.rng.choice([0.1, 0.4, 0.7])
        self.elect()

    def facts(self) -> Facts:
        return Facts(now_ms=self.now_ms, next_offset=len(self.log), seed=self.rng.randbytes(8))

    # ---- the quorum

    def elect(self) -> None:
        """Another node leads. What was not committed is lost, or kept by it and committed with its start."""
        for node in self.nodes:
            self.settle(node.controller.renounce())
        if self.waiting:
            raise Broken("L2", "somebody who waited for a deposed controller was not told")
        if len(self.log) > self.hw:
            if self.rng.random() < 0.5:
                del self.log[self.hw :]
                self.ends = [end for end in self.ends if end <= self.hw]
                self.record.coverage.add("a lost tail")
            else:
                self.record.coverage.add("a tail kept by the next")
        self.commit_all()
        self.epoch += 1
        self.leader = self.rng.choice(self.nodes)
        known = image_hash(self.leader.image)
        answer = self.leader.controller.claim(self.epoch, self.leader.image, self.facts())
        if not answer.records:
            self.record.check(a_new_controller_decides_on_the_log, self.leader.controller, known)
        self.append(answer, None)

    def commit_all(self) -> None:
        self.hw = len(self.log)
        self.catch_up()

    def commit(self) -> None:
        self.hw = self.rng.choice([end for end in self.ends if end >= self.hw])
        self.catch_up()
        self.settle(self.leader.controller.committed(self.hw - 1))

    def catch_up(self) -> None:
        for node in self.nodes:
            for end in self.ends:
                if node.applied < end <= self.hw:
                    delta = Delta()
                    node.image.apply_all(self.log[node.applied : end], end - 1, delta)
                    node.applied = end
                    if node is self.nodes[0]:
                        self.watch.after(node.image, delta, None, node.controller.settings)

    # ---- requests

    def append(self, answer: Any, request: Any) -> None:  # Any: each request has its own kind
        saw = len(self.log) + len(answer.records)
        self.log += answer.records
        if answer.records:
            self.ends.append(len(self.log))
        if answer.token is None:
            self.check_reply(request, answer.reply, saw)
        else:
            self.waiting[self.epoch, answer.token] = request, saw

    def settle(self, ready: list[tuple[int, Any]]) -> None:
        for token, reply in ready:
            request, saw = self.waiting.pop((self.epoch, token))
            self.check_reply(request, reply, saw)

    def check_reply(self, request: Any, reply: Any, saw: int) -> None:  # Any: each request's own kind
        self.record.check(a_reply_follows_its_commit, reply, saw, self.hw)
        self.record.coverage.add(type(reply).__name__)
        self.told.append((request, reply))

    def step(self) -> None:
        self.now_ms += self.rng.randrange(300)
        roll = self.rng.random()
        if roll < self.change:
            self.elect()
            what = "another controller"
        elif roll < self.change + self.commits:
            self.commit()
            what = "commit"
        elif roll > 0.97:
            self.ask_the_deposed()
            what = "somebody asks a deposed controller"
        else:
            request = self.some_ask()
            self.append(self.leader.controller.decide(request, self.facts()), request)
            what = type(request).__name__
        self.record.event(self.now_ms, f"{what} -> epoch {self.epoch} log {self.hw}/{len(self.log)}")

    def ask_the_deposed(self) -> None:
        for node in self.nodes:
            if node is not self.leader:
                request = CreateTopics(topics=(NewTopic(name="late", partitions=1, replication_factor=1),))
                self.record.check(a_deposed_controller_changes_nothing, node.controller.decide(request, self.facts()))

    def some_ask(self) -> Any:
        working = self.leader.controller.working
        assert working is not None
        id = self.rng.randrange(4)
        broker = working.brokers.get(id)
        if broker is None or self.rng.random() < 0.1:
            incarnation = bytes([id, self.rng.randrange(3)]) * 8
            return RegisterBroker(broker_id=id, cluster_id="c", incarnation_id=incarnation, previous_is_gone=True)
        heartbeat = BrokerHeartbeat(broker_id=id, broker_epoch=broker.epoch, metadata_offset=self.hw)
        name = f"t{self.rng.randrange(4)}"
        return self.rng.choice(
            [
                heartbeat,
                heartbeat,
                heartbeat,
                Tick(),
                BrokerRefused(broker_id=id, broker_epoch=broker.epoch),
                CreateTopics(topics=(NewTopic(name=name, partitions=2, replication_factor=2),)),
                DeleteTopics(topics=(name,)),
                ElectLeaders(election_type=0),
                ListPartitionReassignments(),
            ]
        )


# ---- laws


def a_reply_follows_its_commit(reply: Any, saw: int, hw: int) -> None:
    """C4: a reply leaves when everything it was decided on is committed; before that, only "not here"."""
    refused = isinstance(reply, Refused) and reply.code is Code.NOT_CONTROLLER
    assert refused or hw >= saw, f"{reply} was told at {hw}, and saw the log up to {saw}"


def a_deposed_controller_changes_nothing(answer: Any) -> None:
    """C5: a controller that is not active decides nothing."""
    refused = isinstance(answer.reply, Refused) and answer.reply.code is Code.NOT_CONTROLLER
    assert refused, f"a controller that is not active decides: {answer}"
    assert not answer.records, f"a controller that is not active decides: {answer}"


def a_new_controller_decides_on_the_log(controller: ActiveController, committed: bytes) -> None:
    """C3: nothing is left of what the same node had proposed and not committed when it was active before."""
    assert controller.working is not None
    assert image_hash(controller.working) == committed, "a new controller decides on something else than the log"


def every_image_is_the_logs(world: ControllerSimulation) -> None:
    """C3: the image of every node is that of the log."""
    final = Image()
    final.apply_all(world.log[: world.hw], world.hw - 1)
    for number, node in enumerate(world.nodes):
        assert image_hash(node.image) == image_hash(final), f"the image of {number} is not the log's"


def all_told_is_in_the_log(world: ControllerSimulation) -> None:
    """C13: topics that were said to be made or deleted, and epochs that were given, are in the log."""
    kinds = [(type(record).__name__, record) for record in world.log]
    made = {bytes(record.topic_id) for kind, record in kinds if kind == "TopicRecord"}
    gone = {bytes(record.topic_id) for kind, record in kinds if kind == "RemoveTopicRecord"}
    epochs = {record.broker_epoch for kind, record in kinds if kind == "RegisterBrokerRecord"}
    for request, reply in world.told:
        match reply:
            case TopicsCreated(topics=topics):
                assert all(t.topic_id in made for t in topics if t.problem.code is Code.NONE), f"{reply} is not so"
            case TopicsDeleted(topics=topics):
                assert all(t.topic_id in gone for t in topics if t.problem.code is Code.NONE), f"{reply} is not so"
            case Registered(broker_epoch=epoch):
                assert epoch in epochs, f"{reply} to {request} is not so"
