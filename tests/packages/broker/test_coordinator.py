"""Coordinating groups over a replicated log: load, commit, fail over, unload."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code
from moldau.model.value import replace
from moldau.wire.batch import headers
from moldau.wire.messages.k16_list_groups import ListGroupsRequest
from moldau.wire.records import metadata as records
from tests.packages.broker import data_cluster
from tests.packages.broker.data_cluster import TOPIC_ID, run, until
from tests.packages.broker.group_cluster import OFFSETS_ID, GroupBroker, GroupCluster


@pytest.fixture(autouse=True)
def _brokers_coordinate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cluster, "MiniBroker", GroupBroker)


def play(folder: Path, scene: Any, brokers: int = 1, **settings: str) -> None:
    async def work() -> None:
        async with GroupCluster(folder, brokers, **settings) as cluster:
            await cluster.make_topics()
            await scene(cluster)

    run(work)


def test_an_offset_is_there_after_a_restart(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        assert await cluster.commit_offset(0, 41) == Code.NONE
        assert await cluster.commit_offset(0, 42) == Code.NONE
        cluster.brokers[0].replicas.logs.close(1)
        cluster.kill(0)
        await cluster.boot(0)
        await cluster.loaded(0)
        assert await cluster.committed(0) == (Code.NONE, 42)

    play(tmp_path, scene)


def test_a_group_goes_on_under_the_coordinator_that_takes_over(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        joined = await cluster.member(0)
        assert (await cluster.sync(0, joined, given={joined.member_id: b"mine"})).assignment == b"mine"
        facts: dict[str, Any] = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
        assert await cluster.commit_offset(0, 7, **facts) == Code.NONE
        cluster.kill(0)
        cluster.lead(1, (1, 2))
        await cluster.loaded(1)
        assert await cluster.heartbeat(1, joined) == Code.NONE
        assert await cluster.committed(1) == (Code.NONE, 7)
        assert (await cluster.sync(1, joined)).assignment == b"mine"
        assert await cluster.commit_offset(1, 8, **facts) == Code.NONE
        assert await cluster.heartbeat(2, joined) == Code.NOT_COORDINATOR

    play(tmp_path, scene, brokers=3)


def test_whoever_waits_hears_that_the_coordinator_moved(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.sync(0, await cluster.member(0))
        waiting = asyncio.ensure_future(cluster.join(0, 3))
        await until(lambda: cluster.shard(0).groups["g"].joins)
        cluster.lead(1, (0, 1))
        assert (await waiting).error_code == Code.NOT_COORDINATOR
        await cluster.loaded(1)
        assert cluster.shard(0) is None

    play(tmp_path, scene, brokers=2)


def test_a_commit_is_acknowledged_when_the_followers_have_it(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        assert await cluster.commit_offset(0, 1) == Code.NONE
        await until(lambda: cluster.log(1).log_end_offset == cluster.log(0).log_end_offset)
        shard = cluster.shard(0)  # only what follows is to be late, on whatever machine
        shard.config = replace(shard.config, offset_commit_timeout_ms=200)
        cluster.kill(1)
        answer = asyncio.ensure_future(cluster.commit_offset(0, 2))
        await until(lambda: cluster.log(0).log_end_offset == 2)
        assert await cluster.committed(0) == (Code.NONE, 1), "not committed: nobody may read it"
        assert await answer == Code.COORDINATOR_NOT_AVAILABLE
        cluster.commit(cluster.dead(1), records.PartitionChangeRecord(topic_id=OFFSETS_ID, partition_id=0, isr=[0]))
        await until(lambda: cluster.shard(0).groups["g"].in_flight == {}, "the commit, by an ISR that shrank")
        assert await cluster.committed(0) == (Code.NONE, 2), "late, and landed after all"

    play(tmp_path, scene, brokers=2)


def test_too_few_replicas_refuse_a_commit_and_nothing_is_written(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        cluster.configure("__consumer_offsets", min_insync_replicas="2")
        assert await cluster.commit_offset(0, 1) == Code.NONE
        cluster.kill(1)
        cluster.commit(cluster.dead(1), records.PartitionChangeRecord(topic_id=OFFSETS_ID, partition_id=0, isr=[0]))
        end = cluster.log(0).log_end_offset
        assert await cluster.commit_offset(0, 2) == Code.COORDINATOR_NOT_AVAILABLE
        assert cluster.log(0).log_end_offset == end
        assert await cluster.committed(0) == (Code.NONE, 1)

    play(tmp_path, scene, brokers=2)


def test_a_new_coordinator_answers_only_when_what_it_read_is_committed(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        assert await cluster.commit_offset(0, 1) == Code.NONE
        await until(lambda: cluster.log(1).log_end_offset == 1)
        await until(lambda: cluster.log(2).log_end_offset == 1)
        cluster.kill(2)
        late = asyncio.ensure_future(cluster.commit_offset(0, 2))
        await until(lambda: cluster.log(1).log_end_offset == 2)
        late.cancel()
        cluster.kill(0)
        cluster.lead(1, (1, 2))
        await until(lambda: cluster.shard(1) is not None)
        assert (await cluster.ask(1, ListGroupsRequest(), 5)).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        assert await cluster.committed(1) == (Code.COORDINATOR_LOAD_IN_PROGRESS, -1)
        await cluster.boot(2)
        await cluster.loaded(1)
        assert await cluster.committed(1) == (Code.NONE, 2)

    play(tmp_path, scene, brokers=3)


def test_commits_that_come_together_are_written_together(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.committed(0)
        codes = await asyncio.gather(*(cluster.commit_offset(0, offset) for offset in range(50)))
        assert set(codes) == {Code.NONE}
        written = list(headers(cluster.log(0).read(0, 1 << 20)))
        assert sum(header.count for _, header in written) == 50
        assert len(written) < 25
        assert await cluster.committed(0) == (Code.NONE, 49)

    play(tmp_path, scene)


def test_a_silent_member_is_removed_in_time(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        joined = await cluster.member(0, 3, session_timeout_ms=150)  # in one step: no machine is late for the second
        await cluster.sync(0, joined)
        await until(lambda: cluster.shard(0).groups["g"].state.value == "Empty", "the session to end")
        assert await cluster.heartbeat(0, joined) == Code.UNKNOWN_MEMBER_ID

    play(tmp_path, scene)


def test_a_deleted_topic_takes_its_offsets_along_even_while_loading(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        assert await cluster.commit_offset(0, 5) == Code.NONE
        cluster.lead(1, (0, 1))
        cluster.commit(records.RemoveTopicRecord(topic_id=TOPIC_ID))
        await cluster.loaded(1)
        await until(lambda: "g" not in cluster.shard(1).groups or not cluster.shard(1).groups["g"].offsets)
        assert await cluster.committed(1) == (Code.NONE, -1)

    play(tmp_path, scene, brokers=2)


def test_a_large_log_is_loaded_in_slices_while_the_broker_answers(tmp_path: Path) -> None:
    async def scene(cluster: GroupCluster) -> None:
        for start in range(0, 3_000, 100):
            await asyncio.gather(*(cluster.commit_offset(0, start + n) for n in range(100)))
        await until(lambda: cluster.log(1).log_end_offset == 3_000)
        cluster.lead(1, (0, 1))
        answers = 0
        while cluster.shard(1) is None or cluster.shard(1).phase.value != "active":
            code, _ = await cluster.committed(1)
            answers += code in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR)
        assert answers > 0
        assert await cluster.committed(1) == (Code.NONE, 2_999)

    play(tmp_path, scene, brokers=2)
