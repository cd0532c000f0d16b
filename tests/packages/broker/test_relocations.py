"""Replicas that move between a broker's log directories while they are written to and read, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.broker.api import k34_alter_replica_log_dirs, k35_describe_log_dirs
from moldau.broker.replicas.alter_log_dirs import RATE
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.wire.messages.k34_alter_replica_log_dirs import AlterReplicaLogDirsRequest
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from tests.packages.broker.context import ContextValue
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, MiniBroker, batch, run, until
from tests.packages.broker.doubles import broker_services

Asked = AlterReplicaLogDirsRequest


def services(broker: MiniBroker) -> BrokerServices:
    """What the two handlers ask of a node."""
    return broker_services(world=broker.world, replicas=broker.replicas, log_dirs=broker.replicas.logs)


def alter(cluster: DataCluster, *wishes: tuple[str, int, str]) -> dict[tuple[str, int], Code]:
    """(topic, partition, path) -> the code that each is answered with."""
    dirs = [
        Asked.AlterReplicaLogDir(path=path, topics=[Asked.AlterReplicaLogDirTopic(name=topic, partitions=[number])])
        for topic, number, path in wishes
    ]
    answer = k34_alter_replica_log_dirs.handle(services(cluster.brokers[0]), Asked(dirs=dirs), ContextValue())
    return {(t.topic_name, p.partition_index): Code(p.error_code) for t in answer.results for p in t.partitions}


def places(cluster: DataCluster, number: int = 0) -> dict[str, list[tuple[bool, int]]]:
    """Directory -> (is it a copy, how far behind) of the topic's partition."""
    answer = k35_describe_log_dirs.handle(
        services(cluster.brokers[0]), DescribeLogDirsRequest(topics=None), ContextValue()
    )
    return {
        Path(dir.log_dir).name: [
            (part.is_future_key, part.offset_lag)
            for topic in dir.topics
            if topic.name == TOPIC
            for part in topic.partitions
            if part.partition_index == number
        ]
        for dir in answer.results
    }


def limit(cluster: DataCluster, rate: int) -> None:
    config = cluster.brokers[0].config
    config.adopt({RATE: str(rate)} if rate else {})


def two(tmp_path: Path) -> str:
    return f"{tmp_path}/one,{tmp_path}/two"


def there(cluster: DataCluster, number: int = 0) -> str:
    return Path(cluster.brokers[0].replica(number).log.dir.path).name


def test_a_replica_moves_under_writes_and_nobody_notices(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1, log_dirs=two(tmp_path)) as cluster:
            cluster.create(0)
            source = there(cluster)
            target = {"one": "two", "two": "one"}[source]
            for _ in range(20):
                assert (await cluster.produce(0, batch(size=50_000))).error_code == 0
            limit(cluster, 100_000)
            assert alter(cluster, (TOPIC, 0, f"{tmp_path}/{target}/")) == {(TOPIC, 0): Code.NONE}
            await until(lambda: places(cluster)[target] != [(True, 20)], "the copy began")
            (is_copy, lag), *_ = places(cluster)[target]
            assert is_copy
            assert 0 < lag < 20
            assert places(cluster)[source] == [(False, 0)]
            limit(cluster, 0)
            count = 20
            while there(cluster) == source:
                assert (await cluster.produce(0, batch(size=1000))).error_code == 0
                count += 1
            for _ in range(3):
                assert (await cluster.produce(0, batch())).error_code == 0
            assert places(cluster) == {source: [], target: [(False, 0)]}
            replica = cluster.brokers[0].replica()
            assert replica.log.log_end_offset == count + 3 == replica.machine.high_watermark
            offset = 0
            while offset < count + 3:
                part = await cluster.fetch(0, offset)
                assert part.error_code == 0
                assert part.records
                offset += sum(1 for _ in _batches(part.records))
            assert not [p for p in (tmp_path / source).iterdir() if p.name == f"{TOPIC}-0"]

    run(work)


def _batches(records: Any) -> Any:
    from moldau.wire.batch import headers

    return headers(bytes(records))


def test_a_move_goes_on_after_the_broker_was_killed_and_is_called_off_by_asking_for_the_old_place(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1, log_dirs=two(tmp_path)) as cluster:
            cluster.create(0)
            source = there(cluster)
            target = {"one": "two", "two": "one"}[source]
            for _ in range(8):
                assert (await cluster.produce(0, batch(size=100_000))).error_code == 0
            limit(cluster, 100_000)
            alter(cluster, (TOPIC, 0, f"{tmp_path}/{target}"))
            await until(lambda: places(cluster)[target] not in ([(True, 8)], []), "the copy began")
            cluster.kill(0)  # nothing is closed or flushed
            await cluster.boot(0)
            await until(lambda: there(cluster) == target, "the move went on")
            assert cluster.brokers[0].replica().log.log_end_offset == 8

            limit(cluster, 1000)
            alter(cluster, (TOPIC, 0, f"{tmp_path}/{source}"))
            assert places(cluster)[source] == [(True, 8)]
            assert alter(cluster, (TOPIC, 0, f"{tmp_path}/{target}")) == {(TOPIC, 0): Code.NONE}
            assert places(cluster) == {source: [], target: [(False, 0)]}
            cluster.elect(0, (0,))
            assert (await cluster.produce(0, batch())).error_code == 0

    run(work)


def test_each_wish_has_its_own_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1, log_dirs=two(tmp_path)) as cluster:
            cluster.create(0, partitions=2)
            cluster.create(1, topic="elsewhere", id=bytes([4] * 16))
            long = "x" * 220
            cluster.create(0, topic=long, id=bytes([5] * 16))
            one = f"{tmp_path}/one"
            assert alter(
                cluster, (TOPIC, 0, one), (TOPIC, 1, f"{tmp_path}/three"), ("none", 0, one), ("elsewhere", 0, one),
                (long, 0, one),
            ) == {
                (TOPIC, 0): Code.NONE, (TOPIC, 1): Code.LOG_DIR_NOT_FOUND, ("none", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
                ("elsewhere", 0): Code.REPLICA_NOT_AVAILABLE, (long, 0): Code.INVALID_TOPIC_EXCEPTION,
            }  # fmt: skip
            assert alter(cluster, (TOPIC, 0, one), (TOPIC, 0, f"{tmp_path}/two")) == {(TOPIC, 0): Code.INVALID_REQUEST}
            replicas = cluster.brokers[0].replicas
            replicas.failed(replicas.logs.dirs[1].fail(OSError(5, "Input/output error")))
            assert alter(cluster, (TOPIC, 0, one))[(TOPIC, 0)] == Code.KAFKA_STORAGE_ERROR

    run(work)


def test_a_replica_that_is_not_here_yet_comes_where_it_was_wanted(tmp_path: Path) -> None:
    async def work() -> None:
        for name in ("two", "one"):
            async with DataCluster(tmp_path / name, 1, log_dirs=two(tmp_path / name)) as cluster:
                cluster.create(1)
                assert alter(cluster, (TOPIC, 0, f"{tmp_path}/{name}/{name}")) == {
                    (TOPIC, 0): Code.REPLICA_NOT_AVAILABLE
                }
                cluster.change(replicas=[1, 0], adding_replicas=[0])
                assert there(cluster) == name

    run(work)


def test_a_copy_whose_directory_fails_leaves_its_replica_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with DataCluster(tmp_path, 1, log_dirs=two(tmp_path)) as cluster:
            cluster.create(0)
            source = there(cluster)
            target = {"one": "two", "two": "one"}[source]
            for _ in range(8):
                assert (await cluster.produce(0, batch(size=100_000))).error_code == 0
            limit(cluster, 100_000)
            alter(cluster, (TOPIC, 0, f"{tmp_path}/{target}"))
            logs = cluster.brokers[0].replicas.logs
            failing = next(dir for dir in logs.dirs if dir.path.endswith(target))
            failing.fail(OSError(5, "Input/output error"))
            limit(cluster, 0)
            await until(lambda: not logs.futures.logs, "the move was given up")
            assert (await cluster.produce(0, batch())).error_code == 0
            assert there(cluster) == source
            assert cluster.brokers[0].replica().key == (TOPIC_ID, 0)

    run(work)


def test_a_directory_whose_disk_does_not_tell_its_size_costs_no_answer_about_the_others(tmp_path: Path) -> None:
    """The client's connection was closed, whenever it asked."""

    async def work() -> None:
        async with DataCluster(tmp_path, 1, log_dirs=two(tmp_path)) as cluster:
            node = services(cluster.brokers[0])
            (tmp_path / "two").rename(tmp_path / "gone")
            answer = k35_describe_log_dirs.handle(node, DescribeLogDirsRequest(topics=None), ContextValue())
            (tmp_path / "gone").rename(tmp_path / "two")
            told = {Path(dir.log_dir).name: (dir.error_code, dir.total_bytes > 0) for dir in answer.results}
            assert told == {"one": (Code.NONE, True), "two": (Code.KAFKA_STORAGE_ERROR, False)}

    run(work)
