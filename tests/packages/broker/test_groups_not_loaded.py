"""Groups that cannot be loaded when their partition is led here: loaded later, or led by another broker.

A broker that had no free file descriptor as it became the leader said once that the groups cannot be loaded, and that
it is not their coordinator for as long as it led: with descriptors again, too, while it was named as the coordinator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.groups import coordinator as coordinators
from moldau.broker.groups.offsets_log import Replay
from moldau.model import Code
from moldau.storage.errors import CorruptLog, LogError, UnusableFile
from moldau.wire.messages.k16_list_groups import ListGroupsRequest
from moldau.wire.records import metadata as records
from tests.packages.broker import data_cluster
from tests.packages.broker.data_cluster import TOPIC_ID, run, until
from tests.packages.broker.group_cluster import GroupBroker, GroupCluster


@pytest.fixture(autouse=True)
def _brokers_coordinate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cluster, "MiniBroker", GroupBroker)


def play(folder: Path, scene: Callable[[GroupCluster], Awaitable[None]]) -> None:
    async def work() -> None:
        async with GroupCluster(folder, 2) as cluster:
            await cluster.make_topics()
            await scene(cluster)

    run(work)


def too_many_files() -> LogError:
    error = UnusableFile("[Errno 24] Too many open files: 0.index")
    error.passing = True
    return error


def damaged() -> LogError:
    return CorruptLog("0.log", 70, "its checksum is another one")


class Loads:
    """Lets logs be loaded once ``left`` attempts have failed, each after the first record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Callable[[], LogError], left: int) -> None:
        self.left, self.error = left, error
        loads = self

        class Failing(Replay):
            def records(self) -> Iterator[Any]:
                for record in super().records():
                    yield record
                    if loads.left:
                        loads.left -= 1
                        raise loads.error()

        monkeypatch.setattr(coordinators, "Replay", Failing)
        monkeypatch.setattr(coordinators, "AGAIN_MS", 1)
        monkeypatch.setattr(coordinators, "AGAIN_MAX_MS", 20)


async def committed_on_both(cluster: GroupCluster) -> None:
    for offset in (4, 5):
        assert await cluster.commit_offset(0, offset) == Code.NONE
    await until(lambda: cluster.log(1).log_end_offset == cluster.log(0).log_end_offset, "a follower that has all")


@pytest.mark.parametrize("error", [too_many_files, damaged])
def test_groups_are_loaded_again_while_this_broker_leads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Callable[[], LogError]
) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await committed_on_both(cluster)
        loads = Loads(monkeypatch, error, 1 << 30)
        cluster.kill(0)  # there is nobody else to lead
        cluster.lead(1, (1,))
        await until(lambda: loads.left < (1 << 30) - 3, "some attempts")
        assert await cluster.committed(1) == (Code.COORDINATOR_LOAD_IN_PROGRESS, -1)
        assert (await cluster.ask(1, ListGroupsRequest(), 5)).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        loads.left = 0
        await cluster.loaded(1)
        assert await cluster.committed(1) == (Code.NONE, 5)
        assert await cluster.commit_offset(1, 6) == Code.NONE

    play(tmp_path, scene)


def test_a_broker_whose_log_of_groups_is_damaged_gives_it_up_to_one_that_has_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await committed_on_both(cluster)
        loads = Loads(monkeypatch, damaged, 1)
        lost: list[bool] = []
        cluster.brokers[1].replicas.on_lost = lambda: lost.append(True)
        cluster.lead(1, (0, 1))
        await until(lambda: bool(lost), "a replica that is given up")
        assert not cluster.coordinator(1).shards
        assert not loads.left
        cluster.lead(0, (0,))
        await cluster.loaded(0)
        assert await cluster.committed(0) == (Code.NONE, 5)

    play(tmp_path, scene)


def test_nothing_is_loaded_again_once_another_broker_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await committed_on_both(cluster)
        loads = Loads(monkeypatch, too_many_files, 1 << 30)
        cluster.lead(1, (0, 1))
        await until(lambda: loads.left < 1 << 30, "an attempt")
        waiting = cluster.coordinator(1).shards[0]
        loads.left = 0
        monkeypatch.setattr(coordinators, "AGAIN_MS", 1 << 30)
        cluster.lead(0, (0, 1))
        assert waiting.done
        assert not cluster.coordinator(1).shards
        await cluster.loaded(0)
        assert await cluster.committed(0) == (Code.NONE, 5)
        assert await cluster.committed(1) == (Code.NOT_COORDINATOR, -1)

    play(tmp_path, scene)


def test_offsets_of_a_topic_that_is_deleted_between_two_attempts_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await committed_on_both(cluster)
        loads = Loads(monkeypatch, too_many_files, 1 << 30)
        cluster.lead(1, (0, 1))
        await until(lambda: loads.left < 1 << 30, "an attempt")
        cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
        before = loads.left
        await until(lambda: loads.left < before, "another attempt")
        loads.left = 0
        await cluster.loaded(1)
        await until(
            lambda: "g" not in cluster.shard(1).groups or not cluster.shard(1).groups["g"].offsets, "no offsets"
        )
        assert await cluster.committed(1) == (Code.NONE, -1)

    play(tmp_path, scene)
