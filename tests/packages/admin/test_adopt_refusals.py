"""What `moldau adopt check` finds in the way of every node, of scripted clusters: it is named, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.admin.cli import cli
from moldau.broker.config.node_config import load
from moldau.broker.config.storage_format import format_storage
from moldau.controller.features import SUPPORTED
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumResponse
from tests.packages.client.mini_cluster import MiniCluster, in_thread

READS = {3: (0, 12), 18: (0, 3), 32: (0, 4)}
KAFKA_3_3, KAFKA_3_4, KRAFT = READS | {4: (0, 6)}, READS | {4: (0, 7)}, READS | {55: (0, 2)}
"""What brokers serve of what the check looks at: LeaderAndIsr on ZooKeeper, DescribeQuorum in KRaft mode."""
CHANGES = {"CreateTopics", "AlterConfigs", "IncrementalAlterConfigs", "UpdateFeatures", "AlterPartitionReassignments"}
LATEST = {"metadata.version": next(one.high for one in SUPPORTED if one.name == "metadata.version")}
STATIC = 4
IN_KRAFT_MODE = {
    "process.roles": "broker", "controller.quorum.voters": "101@localhost:9093", "listeners": "PLAINTEXT://:9092",
    "controller.listener.names": "CONTROLLER",
}  # fmt: skip
ON_ZOOKEEPER = {"zookeeper.connect": "zk:2181", "broker.id": "1"}

Settings = dict[str, str]
Found = dict[str, tuple[str, str]]


@contextmanager
def cluster(
    *served: dict[int, tuple[int, int]], settings: tuple[Settings, ...] = (), levels: dict[str, int] = LATEST
) -> Iterator[MiniCluster]:
    """Brokers 0, 1, ... that serve these requests and have these settings. The last one's address is a controller's,
    too."""
    with in_thread(MiniCluster(len(served), {})) as mini:

        def describe(node: int, message: Any) -> Any:
            if isinstance(message, DescribeConfigsRequest):
                return configs(message, settings)
            if type(message).__name__ == "DescribeQuorumRequest":
                return quorum(mini.nodes[-1].port)
            return None

        mini.mischief = lambda node, message, serve: describe(node, message)
        for broker, ranges in zip(mini.nodes, served, strict=True):
            broker.ranges = ranges
            broker.features = {} if 4 in ranges else levels
        yield mini
        assert not CHANGES & {name for _, name in mini.asked}


def configs(request: DescribeConfigsRequest, settings: tuple[Settings, ...]) -> DescribeConfigsResponse:
    kind = DescribeConfigsResponse
    results = []
    for resource in request.resources:
        own = int(resource.resource_name)
        given = IN_KRAFT_MODE | {"node.id": str(own + 1)} if not settings else ON_ZOOKEEPER | settings[own]
        entries = [
            kind.DescribeConfigsResourceResult(name=key, value=value, config_source=STATIC)
            for key, value in given.items()
        ]
        results.append(
            kind.DescribeConfigsResult(resource_type=4, resource_name=resource.resource_name, configs=entries)
        )
    return kind(results=results)


def quorum(port: int) -> DescribeQuorumResponse:
    kind = DescribeQuorumResponse
    part = kind.PartitionData(partition_index=0, leader_id=101, leader_epoch=7, high_watermark=9)
    listener = kind.Listener(name="CONTROLLER", host="127.0.0.1", port=port)
    return kind(
        topics=[kind.TopicData(topic_name="__cluster_metadata", partitions=[part])],
        nodes=[kind.Node(node_id=101, listeners=[listener])],
    )


def check(mini: MiniCluster, *files: Path) -> Found:
    """What is in the way, by what it is about: how bad, and in what words."""
    run = CliRunner().invoke(
        cli, ["adopt", "check", "--bootstrap-server", mini.bootstrap, "-o", "json", *map(str, files)]
    )
    assert run.exit_code in (0, 4), run.output
    found = [one for one in json.loads(run.stdout) if one["severity"] != "note"]
    assert bool(found) == (run.exit_code == 4)
    return {one["about"]: (one["severity"], one["what"]) for one in found}


def test_nothing_is_in_the_way_of_a_cluster_on_one_plane() -> None:
    for served in (KRAFT, KAFKA_3_4):
        with cluster(served, served) as mini:
            assert check(mini) == {}


def test_brokers_of_kafka_3_3_on_zookeeper_are_refused() -> None:
    with cluster(KAFKA_3_4, KAFKA_3_3, KAFKA_3_4) as mini:
        (severity, what) = check(mini)["brokers 1"]
    assert severity == "error"
    assert "Kafka 3.3 or before" in what


@pytest.mark.parametrize("migrating", [(0, 1), (1,)], ids=["all brokers", "some, on the way there or back"])
def test_a_migration_that_brokers_on_zookeeper_take_part_in_is_refused(migrating: tuple[int, ...]) -> None:
    settings = tuple({"zookeeper.metadata.migration.enable": str(id in migrating).lower()} for id in (0, 1))
    with cluster(KAFKA_3_4, KAFKA_3_4, settings=settings) as mini:
        severity, what = check(mini)["migration"]
    assert severity == "error"
    assert f"not ended, or is being taken back: brokers {', '.join(map(str, migrating))} have" in what


def test_a_migration_of_which_one_broker_is_over_is_refused() -> None:
    with cluster(KAFKA_3_4, KRAFT) as mini:
        severity, what = check(mini)["migration"]
    assert severity == "error"
    assert "brokers 0 are on ZooKeeper, 1 in KRaft mode" in what


def test_a_migration_that_controllers_have_not_ended_is_refused() -> None:
    with cluster(KRAFT, KRAFT) as mini:
        mini.nodes[1].zk_migration_ready = True
        severity, what = check(mini)["migration"]
    assert severity == "error"
    assert "not ended: controllers 101 have zookeeper.metadata.migration.enable" in what


def test_session_times_that_differ_on_zookeeper_are_named() -> None:
    settings = tuple({"zookeeper.session.timeout.ms": time} for time in ("18000", "6000", "18000"))
    with cluster(KAFKA_3_4, KAFKA_3_4, KAFKA_3_4, settings=settings) as mini:
        severity, what = check(mini)["zookeeper.session.timeout.ms"]
    assert severity == "warning"
    assert "18000 on brokers 0, 2; 6000 on brokers 1" in what


@pytest.mark.parametrize("name", ["metadata.version", "group.version", "transaction.version", "share.version"])
def test_a_level_beyond_those_of_kafka_4_3_is_refused(name: str) -> None:
    known = next(one.high for one in SUPPORTED if one.name == name)
    with cluster(KRAFT, levels=LATEST | {name: known + 1}) as mini:
        severity, what = check(mini)[name]
    assert severity == "error"
    assert f"level {known + 1} is in force, Moldau knows levels up to {known}" in what


def test_a_feature_of_a_later_kafka_is_refused() -> None:
    with cluster(KRAFT, levels=LATEST | {"another.version": 1}) as mini:
        assert check(mini)["another.version"][0] == "error"


def test_a_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.properties" for name in ("one", "another")]
    ids = ("mini", "MkU3OEVBNTcwNTJENDM2Qk")
    for file, id in zip(files, ids, strict=True):
        folder = tmp_path / file.stem
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"
            "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
            f"log.dirs={folder}\n"
        )
        format_storage(load(file.read_text()), "MkU3OEVBNTcwNTJENDM2Qk", RealDisk(), RealRandom())
        meta = folder / "meta.properties"
        meta.write_text(meta.read_text().replace("MkU3OEVBNTcwNTJENDM2Qk", id))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with cluster(KRAFT) as mini:
        assert check(mini, files[0]) == {}
        severity, what = check(mini, *files)[str(tmp_path / "another")]
        assert severity == "error"
        assert "belongs to cluster MkU3OEVBNTcwNTJENDM2Qk" in what
        assert "is cluster mini" in what
        assert check(mini, tmp_path / "none")[str(tmp_path / "none")][0] == "error"
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
