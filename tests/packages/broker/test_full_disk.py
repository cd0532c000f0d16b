"""No space for a leader's append: it gives its place to replicas that have some; a follower waits for space."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from moldau.model import Code
from moldau.replication.roles import Role
from moldau.storage.errors import DiskFull
from tests.packages.broker.data_cluster import DataCluster, batch, run, until


def full(*_: Any, **__: Any) -> NoReturn:
    raise DiskFull("no space")


def test_a_leader_without_space_goes_offline_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            replica = cluster.brokers[0].replica()
            with monkeypatch.context() as patch:
                patch.setattr(type(replica.log), "append_leader", full)
                refused = cluster.brokers[0].replicas.append(replica, bytearray(batch()), -1)
            assert refused.code is Code.KAFKA_STORAGE_ERROR
            assert replica.machine.role is Role.OFFLINE
            assert replica.log.dir.offline is not None

    run(scene)


def test_a_follower_without_space_follows_on_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with DataCluster(tmp_path, 2) as cluster:
            cluster.create(0, 1)
            follower = cluster.brokers[1].replica()
            with monkeypatch.context() as patch:
                patch.setattr(type(follower.log), "append_follower", full)
                leader = cluster.brokers[0].replica()
                assert cluster.brokers[0].replicas.append(leader, bytearray(batch(3)), 1).code is Code.NONE
                await until(lambda: leader.log.log_end_offset == 3)
                assert follower.log.log_end_offset == 0
            await until(lambda: follower.log.log_end_offset == 3, "the follower has caught up")
            assert follower.log.dir.offline is None

    run(scene)
