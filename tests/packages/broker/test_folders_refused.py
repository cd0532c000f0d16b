"""Folders of new partitions that cannot be made: they cost their replica, are told once, and nothing else suffers."""

from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.broker.zookeeper import batch
from moldau.model import Code, TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.wire.batch import build
from tests.packages.broker.data_cluster import TOPIC, DataCluster, records_of, run, until
from tests.packages.broker.test_hung_directory import scene
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.test_zookeeper_stopped import stop, told
from tests.packages.broker.zookeeper_nodes import Nodes

MANY = 10


def test_a_folder_whose_name_is_taken_is_told_of_once_and_used_when_it_is_free(tmp_path: Path) -> None:
    """Each try was told to the controller, and each word of the controller was a reason to try again."""

    async def work() -> None:
        async with scene(tmp_path) as its:
            node = its.node
            for directory in ("one", "two"):
                (tmp_path / directory / "later-0").write_bytes(b"a file")
            await its.create("later", 1)
            replicas, image = node.replicas, lambda: node.metadata.image
            await until(lambda: len(replicas.unreachable) == 1 and not len(replicas.assignments), "it is out of reach")
            (key,) = replicas.unreachable
            for number in range(MANY):
                await its.create(f"topic-{number}", 1)
            await until(lambda: not len(replicas.assignments), "all is told")
            assert image().at(key).partition_epoch <= 4
            for directory in ("one", "two"):
                (tmp_path / directory / "later-0").unlink()
            replicas._assign("later", image().at(key), False)
            await until(lambda: not replicas.unreachable and not len(replicas.assignments), "it is there, and told")
            where = replicas.by_key[key].log.dir.id
            await until(lambda: image().at(key).directory(node.config.node_id) == where, "the controller knows where")

    run(work)


def test_a_topic_whose_folder_had_no_room_is_deleted_and_the_node_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory was offline, its log taken note of no more, and the deletion ended the node by a KeyError."""

    async def work() -> None:
        async with scene(tmp_path) as its:
            make = its.disk.make_dirs

            def refuse(path: str) -> None:
                if "/two/later" in path:
                    raise OSError(errno.ENOSPC, "no space", path)
                make(path)

            for one in its.node.data.log_dirs.dirs:
                monkeypatch.setattr(one.disk, "make_dirs", refuse)
            await its.create("later", 2)
            await until(lambda: its.node.data.log_dirs.offline, "the directory is offline")
            await its.delete("later")
            await until(lambda: "later" not in its.node.metadata.image.names, "the topic is gone")
            await until(lambda: not any(p.topic == "later" for p in its.node.replicas.by_partition), "its replicas too")
            assert await its.append(TOPIC, its.other.partition.partition) is Code.NONE

    run(work)


def test_a_session_comes_to_a_replica_whose_folder_is_made_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept the replica that had failed, and its consumer was told KAFKA_STORAGE_ERROR for ever."""

    async def work() -> None:
        go, make, is_refused = threading.Event(), RealDisk.make_dirs, [True]

        def refuse(disk: RealDisk, path: str) -> None:
            if path.endswith(f"{TOPIC}-0") and is_refused[0]:
                go.wait(60)
                raise OSError(errno.EACCES, "not allowed", path)
            make(disk, path)

        monkeypatch.setattr(RealDisk, "make_dirs", refuse)
        async with DataCluster(tmp_path, 1) as cluster:
            cluster.folders_at_once = False
            cluster.create(0)
            request = cluster.fetch_request((0, 0), session_epoch=0)
            id = (await cluster.ask(0, request, 17)).session_id
            go.set()
            replicas = cluster.brokers[0].replicas
            await until(lambda: replicas.unreachable and not replicas.by_key, "the replica is offline")
            refused = await cluster.ask(0, cluster.fetch_request(session_id=id, session_epoch=1), 17)
            assert refused.responses[0].partitions[0].error_code == Code.KAFKA_STORAGE_ERROR
            is_refused[0] = False
            cluster.elect(0, (0,))
            await until(lambda: not replicas.unreachable and not cluster.brokers[0].replica().log.awaits_folder)
            assert (await cluster.produce(0, build([(0, b"k", b"v", [])] * 2))).error_code == Code.NONE
            answer = await cluster.ask(0, cluster.fetch_request(session_id=id, session_epoch=2), 17)
            (part,) = answer.responses[0].partitions
            assert (part.error_code, part.high_watermark) == (Code.NONE, 2)
            assert records_of(part)

    run(work)


def test_a_stopped_replica_whose_folder_could_not_be_made_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StopReplica raised, and what else its image change held was not carried out."""
    go, seen, make = threading.Event(), threading.Event(), RealDisk.make_dirs

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            victim = next(node for node in nodes.nodes.values() if node is not nodes.controller)
            place = f"node-{victim.config.node_id}/t-0"

            def refuse(disk: RealDisk, path: str) -> None:
                if path.endswith(place):
                    seen.set()
                    go.wait(60)
                    raise OSError(errno.EACCES, "not allowed", path)
                make(disk, path)

            monkeypatch.setattr(RealDisk, "make_dirs", refuse)
            making = asyncio.ensure_future(topic(nodes, "t", partitions=1))
            partition = TopicPartition("t", 0)
            await until(seen.is_set, "a worker makes the folder")
            await until(lambda: partition in victim.replicas.by_partition, "the replica is there")
            assert [code for *_, code in await told(victim, stop(nodes, 0, delete=False))] == [Code.NONE]
            go.set()
            await until(lambda: partition not in victim.replicas.logs.logs, "its log is out of use")
            codes = await told(victim, stop(nodes, batch.DURING_DELETE, delete=True))
            assert [code for *_, code in codes] == [Code.NONE]
            assert not nodes.ended
            assert not nodes.failures
            making.cancel()
            with suppress(asyncio.CancelledError, AssertionError):
                await making
            raise Done  # the cluster's laws do not hold of what only one broker was told

    with pytest.raises(Done):
        run(scenario)


class Done(Exception):
    """The test is over."""
