"""Three controllers over one log whose tail may be lost: who was told of success finds it in the log for ever (C13)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from moldau.controller.asks import (
    BrokerRefused,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Heartbeat,
    NewTopic,
    RegisterBroker,
    Tick,
)
from moldau.controller.facts import Facts, Settings
from moldau.controller.laws import Watch
from moldau.controller.office import Office
from moldau.controller.replies import Refused, Registered, TopicsCreated, TopicsDeleted
from moldau.image import Delta, Image, image_hash
from moldau.terms import Code


class Node:
    def __init__(self) -> None:
        self.office = Office(Settings(cluster_id="c"))
        self.image = Image()
        self.applied = 0


class World:
    """A log with a committed length; the leader appends, a change of leader may cut the uncommitted tail."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.nodes = [Node() for _ in range(3)]
        self.log: list[Any] = []
        self.ends: list[int] = [0]
        """Ends of batches: records of one decision are committed together or not at all."""
        self.hw = 0
        self.epoch = 0
        self.now_ms = 0
        self.leader = self.nodes[0]
        self.waiting: dict[tuple[int, int], Any] = {}
        self.told: list[tuple[Any, Any]] = []
        self.watch = Watch(self.nodes[0].image)
        self.elect()

    def facts(self) -> Facts:
        return Facts(now_ms=self.now_ms, next_offset=len(self.log), seed=self.dice.randbytes(8))

    def elect(self) -> None:
        """Another node leads. What was not committed is lost, or kept by it and committed with its start."""
        for node in self.nodes:
            self.settle(node, node.office.lose_office())
        assert not self.waiting, "somebody was not told"
        if self.dice.random() < 0.5:
            del self.log[self.hw :]
            self.ends = [end for end in self.ends if end <= self.hw]
        self.hw = len(self.log)
        self.epoch += 1
        self.leader = self.dice.choice(self.nodes)
        self.catch_up()
        answer = self.leader.office.take_office(self.epoch, self.leader.image, self.facts())
        self.append(answer, None)

    def append(self, answer: Any, ask: Any) -> None:
        self.log += answer.records
        if answer.records:
            self.ends.append(len(self.log))
        if answer.token is None:
            self.told.append((ask, answer.reply))
        else:
            self.waiting[self.epoch, answer.token] = ask

    def commit(self) -> None:
        self.hw = self.dice.choice([end for end in self.ends if end >= self.hw])
        self.catch_up()
        self.settle(self.leader, self.leader.office.committed(self.hw - 1))

    def settle(self, node: Node, ready: list[tuple[int, Any]]) -> None:
        for token, reply in ready:
            self.told.append((self.waiting.pop((self.epoch, token)), reply))

    def catch_up(self) -> None:
        for node in self.nodes:
            for end in self.ends:
                if node.applied < end <= self.hw:
                    delta = Delta()
                    node.image.apply_all(self.log[node.applied : end], end - 1, delta)
                    node.applied = end
                    if node is self.nodes[0]:
                        self.watch.after(node.image, delta, None, node.office.settings)

    def step(self) -> None:
        self.now_ms += self.dice.randrange(300)
        roll = self.dice.random()
        if roll < 0.06:
            self.elect()
        elif roll < 0.4:
            self.commit()
        else:
            ask = self.some_ask()
            self.append(self.leader.office.ask(ask, self.facts()), ask)

    def some_ask(self) -> Any:
        working = self.leader.office.working
        assert working is not None
        id = self.dice.randrange(4)
        broker = working.brokers.get(id)
        if broker is None or self.dice.random() < 0.1:
            incarnation = bytes([id, self.dice.randrange(3)]) * 8
            return RegisterBroker(broker_id=id, cluster_id="c", incarnation_id=incarnation, previous_is_gone=True)
        beat = Heartbeat(broker_id=id, broker_epoch=broker.epoch, metadata_offset=self.hw)
        name = f"t{self.dice.randrange(4)}"
        return self.dice.choice(
            [
                beat,
                beat,
                beat,
                Tick(),
                BrokerRefused(broker_id=id, broker_epoch=broker.epoch),
                CreateTopics(topics=(NewTopic(name=name, partitions=2, replication_factor=2),)),
                DeleteTopics(topics=(name,)),
                ElectLeaders(election_type=0),
            ]
        )


def replayed(log: list[Any]) -> Image:
    image = Image()
    image.apply_all(log, len(log) - 1)
    return image


@pytest.mark.parametrize("seed", range(40))
def test_what_was_told_is_in_the_log_and_every_image_is_the_log_s(seed: int) -> None:
    world = World(seed)
    for _ in range(250):
        world.step()
    world.elect()
    assert len({image_hash(node.image) for node in world.nodes}) == 1
    final = replayed(world.log[: world.hw])
    assert image_hash(final) == image_hash(world.nodes[0].image)
    made = {bytes(record.topic_id) for record in world.log if type(record).__name__ == "TopicRecord"}
    gone = {bytes(record.topic_id) for record in world.log if type(record).__name__ == "RemoveTopicRecord"}
    epochs = {record.broker_epoch for record in world.log if type(record).__name__ == "RegisterBrokerRecord"}
    kinds = set()
    for _, reply in world.told:
        kinds.add(type(reply))
        match reply:
            case TopicsCreated(topics=topics):
                assert all(t.topic_id in made for t in topics if t.problem.code is Code.NONE)
            case TopicsDeleted(topics=topics):
                assert all(t.topic_id in gone for t in topics if t.problem.code is Code.NONE)
            case Registered(broker_epoch=epoch):
                assert epoch in epochs
            case Refused(code=code):
                assert code in (Code.NOT_CONTROLLER, Code.STALE_BROKER_EPOCH)
    assert {TopicsCreated, Registered} <= kinds, "a run in which nothing happened proves nothing"


def test_answering_before_the_commit_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant of C4: a reply at once."""
    real = Office._take

    def hasty(self: Office, decision: Any, facts: Facts) -> Any:
        answer = real(self, decision, facts)
        self._waiting.clear()
        return answer._replace(token=None, reply=decision.reply)

    monkeypatch.setattr(Office, "_take", hasty)
    with pytest.raises(AssertionError):
        all_seeds()


def all_seeds() -> None:
    for seed in range(40):
        test_what_was_told_is_in_the_log_and_every_image_is_the_log_s(seed)
