"""A controller's requests are carried out in turns of the loop in ZooKeeper mode, in order, and never half."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.node import Node
from moldau.broker.replicas.manager import OPENED_AT_ONCE, REMOVED_AT_ONCE
from moldau.broker.zookeeper.publishing import MetadataPublisher
from moldau.client.admin import NewTopic, create_topics, delete_topics
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.zookeeper_nodes import Nodes
from tests.packages.doubles import LoopTasks

PARTITIONS = 170


class RecordingListener:
    """Notes what it is told, each batch in three parts."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def committed(self, records: Sequence[Any], offset: int, epoch: int) -> Iterator[None]:
        for part in range(3):
            self.heard.append((offset, part))
            yield

    def lost_active(self) -> None:
        self.heard.append("lost")

    def became_active(self, epoch: int) -> None:
        raise AssertionError("it is a broker's")

    def load_snapshot(self, records: Sequence[Any], offset: int, epoch: int) -> None:
        raise AssertionError("there are none in ZooKeeper mode")


def whole(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, part) for offset in offsets for part in range(3)]


def spoken(scene: Any) -> list[Any]:
    """What is heard while ``scene(telling)`` runs, which is given a loop."""
    listener = RecordingListener()

    async def work() -> None:
        await scene(MetadataPublisher((listener,), LoopTasks()), listener)

    asyncio.run(work())
    return listener.heard


def test_others_have_their_turn_in_between_and_the_next_batch_waits() -> None:
    async def scene(publisher: MetadataPublisher, listener: RecordingListener) -> None:
        async def second() -> None:
            await publisher.free()
            await publisher.committed((), 2, 1)

        both = asyncio.gather(publisher.committed((), 1, 1), second())
        await asyncio.sleep(0)
        listener.heard.append("another")
        await both

    heard = spoken(scene)
    assert "another" in heard[:3]
    assert [each for each in heard if each != "another"] == whole(1, 2)


def test_who_is_deposed_has_carried_out_what_was_under_way() -> None:
    async def scene(publisher: MetadataPublisher, listener: RecordingListener) -> None:
        task = asyncio.ensure_future(publisher.committed((), 1, 1))
        await asyncio.sleep(0)
        publisher.event(lambda listener: listener.lost_active())
        await task
        await publisher.free()

    assert spoken(scene) == [*whole(1), "lost"]


def test_what_was_begun_is_not_left_half_done_when_its_task_is_cancelled() -> None:
    async def scene(publisher: MetadataPublisher, listener: RecordingListener) -> None:
        task = asyncio.ensure_future(publisher.committed((), 1, 1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await publisher.free()

    assert spoken(scene) == whole(1)


class Turns:
    """The largest number of replicas that one node opened, and removed, in one turn of the loop."""

    def __init__(self, node: Node) -> None:
        self.opened = self.removed = 0
        self._now = {"_open": 0, "retire": 0}
        self._loop = asyncio.get_running_loop()
        self._count(node.replicas, "_open")
        self._count(node.replicas, "retire")
        self._tick()

    def _tick(self) -> None:
        self.opened, self.removed = max(self.opened, self._now["_open"]), max(self.removed, self._now["retire"])
        self._now = dict.fromkeys(self._now, 0)
        self._next = self._loop.call_soon(self._tick)

    def _count(self, replicas: Any, name: str) -> None:
        real = getattr(replicas, name)

        def counted(*given: Any, **named: Any) -> Any:
            self._now[name] += 1
            return real(*given, **named)

        setattr(replicas, name, counted)


def test_no_turn_of_the_loop_makes_or_deletes_more_than_a_step_s_worth_of_replicas(tmp_path: Path) -> None:
    """A broker that deleted 2,000 replicas served nobody meanwhile, and neither did its controller."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            await until(lambda: len(nodes.controllers) == 1, "there is a controller")
            turns = [Turns(node) for node in nodes.nodes.values()]
            client = nodes.client()
            made = await create_topics(client, [NewTopic(name="t", partitions=PARTITIONS, replication_factor=2)])
            assert made["t"].code == 0, made
            held = [node.replicas.by_key for node in nodes.nodes.values()]
            await until(lambda: [len(each) for each in held] == [PARTITIONS] * 2, "both hold all replicas")
            gone = await delete_topics(client, ["t"])
            client.close()
            assert gone["t"].code == 0, gone
            await until(lambda: held == [{}, {}], "both have deleted all replicas")
            for one in turns:
                assert 0 < one.opened <= OPENED_AT_ONCE
                assert 0 < one.removed <= REMOVED_AT_ONCE

    run(scenario)
