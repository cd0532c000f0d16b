"""One KRaft cluster of Apache Kafka's and Moldau's nodes, at the format that Kafka has by default."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from foreign import wait_led
from kafka_peer import wait_until
from mixed import KAFKA, MOLDAU, Load, MixedPeer, bootstrap_of, dump, segments
from tests.packages.admin.test_examples import words_of

from moldau.broker.kraft.tail import LogPlace, TailStatus, tail_status
from moldau.client.admin import describe_quorum
from moldau.client.sync import Cluster
from moldau.runtime.world import real_world

PARTITIONS = 3
SAFE = {"min.insync.replicas": 2, "default.replication.factor": 3}
FASTER = SAFE | {"broker.session.timeout.ms": 6000}
QUIET = SAFE | {"broker.session.timeout.ms": 30_000}
"""Where nobody is killed, nobody stops leading because a machine is slow."""


def topic_through(peer: MixedPeer, node_id: int, name: str) -> None:
    """Make, change and enlarge a topic through one node."""
    admin = AdminClient({"bootstrap.servers": bootstrap_of(peer, [node_id])})
    wanted = NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([wanted], operation_timeout=60)[name].result(60)
    entry = ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)
    admin.create_partitions([NewPartitions(name, PARTITIONS + 1)])[name].result(60)

    def shown() -> bool:
        described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
        try:
            found = next(iter(described.values())).result(60)
        except KafkaException as error:  # the broker that was asked has not replayed the topic's records yet
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False
        return bool(found["retention.ms"].value == "86400000")

    wait_until(shown, f"node {node_id} shows the setting of {name}")
    # A producer told of fewer partitions by another node would give up what it has for the last one.
    wait_led(peer.bootstrap_servers, name, PARTITIONS + 1)


class OnHosts(MixedPeer):
    """Each node is told to clients by an address of its own, as on a host of its own."""

    def __init__(self, programs: Mapping[int, str], properties: Mapping[str, object], folder: Path) -> None:
        super().__init__(programs, properties, folder)
        for node_id, (client, controller) in self.ports.items():
            with self.config_file(node_id).open("a") as file:
                file.write(f"listeners=PLAINTEXT://0.0.0.0:{client},CONTROLLER://127.0.0.1:{controller}\n")
                file.write(f"advertised.listeners=PLAINTEXT://127.0.0.{node_id}:{client}\n")


SSH = """#!/bin/sh
# ssh HOST PROGRAM: leaves the program's name for the test, which does there what it says.
echo "$2" > "$0.$1.tmp" && mv "$0.$1.tmp" "$0.$1"
"""


def roll_as_the_page_says(peer: MixedPeer, folder: Path) -> list[int]:
    """Run the command of docs/adopt.md that replaces Kafka on all hosts; the nodes in the order in which it did."""
    (words,) = words_of("adopt.md", "broker", "roll")
    words = [peer.bootstrap_servers if word == "kafka-1:9092" else word for word in words]
    ssh = folder / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    hosts = {node_id: folder / f"ssh.127.0.0.{node_id}" for node_id in peer.ports}
    said = folder / "roll.txt"
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    order: list[int] = []

    def begin() -> subprocess.Popen[bytes]:
        with said.open("ab") as out:
            command = [sys.executable, "-m", "moldau", *words]
            return subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)

    def asked() -> list[int]:
        return [node_id for node_id, host in hosts.items() if host.exists()]

    def something_happened() -> bool:
        return bool(asked()) or rolling.poll() is not None

    rolling = begin()
    try:
        while True:
            wait_until(something_happened, "a host is asked, or the roll has ended", 240)
            if asked():
                (node_id,) = asked()
                assert hosts[node_id].read_text() == "/opt/moldau/replace-kafka.sh\n"
                hosts[node_id].unlink()
                order.append(node_id)
                peer.change(node_id, MOLDAU)
            elif rolling.returncode == 3:  # not in time, on a busy machine: given again it goes on
                rolling = begin()
            else:
                assert rolling.returncode == 0, said.read_text()
                return order
    finally:
        rolling.kill()
        rolling.wait()


def test_topics_are_made_changed_and_written_through_nodes_of_either_kind_and_kafkas_are_replaced(
    tmp_path: Path,
) -> None:
    with OnHosts({1: MOLDAU, 2: KAFKA, 3: KAFKA}, QUIET, tmp_path) as peer:
        for node_id in peer.ports:
            topic_through(peer, node_id, f"through-{node_id}")
        with Load(peer, "through-2", PARTITIONS + 1) as load:
            load.wait_for(300)
        assert not load.failed
        assert sorted(load.found()) == sorted(load.acked)
        assert set(roll_as_the_page_says(peer, tmp_path)) == {1, 2, 3}
        assert sorted(load.found()) == sorted(load.acked)


@pytest.mark.skipif("MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Apache Kafka's nodes: make interchange")
@pytest.mark.parametrize("program", [KAFKA, MOLDAU])
def test_a_leader_of_either_kind_says_whether_it_has_what_stands_at_the_end_of_another_log(
    tmp_path: Path, program: str
) -> None:
    with MixedPeer({1: program}, {}, tmp_path) as peer:
        controller = [("127.0.0.1", peer.ports[1][1])]

        async def said(*places: LogPlace) -> list[TailStatus]:
            world = real_world(asyncio.get_running_loop(), lambda task, error: None)
            return [await tail_status(world, peer.cluster_id, controller, one) for one in places]

        told = asyncio.run(said(LogPlace(1, 1), LogPlace(1_000_000, 1), LogPlace(1, 0)))
        assert told == [TailStatus.COMMITTED, TailStatus.CUT, TailStatus.CUT]
        with Cluster(peer.bootstrap_servers) as cluster:
            _, part = cluster.run(describe_quorum(cluster.client))
        assert part is not None
        assert [one.replica_id for one in part.observers] == [], "who only asked is no observer"


@pytest.mark.skipif("MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Apache Kafka's nodes: make interchange")
@pytest.mark.timeout(900)
def test_a_cluster_of_kafkas_is_replaced_by_the_roll_of_the_page_under_load(tmp_path: Path) -> None:
    with OnHosts(dict.fromkeys((1, 2, 3), KAFKA), FASTER, tmp_path) as peer:
        topic_through(peer, 1, "rolled")
        with Load(peer, "rolled", PARTITIONS + 1) as load:
            load.wait_for(300)
            order = roll_as_the_page_says(peer, tmp_path)
            load.wait_for(300)
        assert sorted(order) == [1, 2, 3], "each once"
        assert set(peer.programs.values()) == {MOLDAU}
        nothing_is_lost(peer, "rolled", load)


@pytest.mark.skipif("MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Apache Kafka's nodes: make interchange")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("programs", [(MOLDAU, KAFKA, KAFKA), (MOLDAU, MOLDAU, KAFKA)], ids=["mkk", "mmk"])
def test_each_node_is_killed_and_no_acknowledged_record_is_lost_or_doubled(
    tmp_path: Path, programs: tuple[str, ...]
) -> None:
    with MixedPeer(dict(enumerate(programs, 1)), FASTER, tmp_path) as peer:
        for node_id in peer.ports:
            topic_through(peer, node_id, f"through-{node_id}")
        topic = "through-1"
        with Load(peer, topic, PARTITIONS + 1) as load:
            load.wait_for(300)
            for node_id in peer.ports:
                peer.kill(node_id)
                load.wait_for(200)
                peer.restart(node_id)
                load.wait_for(200)
        nothing_is_lost(peer, topic, load)
    metadata = tmp_path / "node-1" / "data" / "__cluster_metadata-0" / "00000000000000000000.log"
    said = dump(metadata, "--cluster-metadata-decoder")
    assert "isvalid: true" in said
    assert "isvalid: false" not in said


@pytest.mark.skipif("MOLDAU_INTERCHANGE" not in os.environ, reason="minutes of Apache Kafka's nodes: make interchange")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_a_cluster_of_kafkas_is_replaced_node_by_node_and_back(tmp_path: Path, kill: bool) -> None:
    with MixedPeer(dict.fromkeys((1, 2, 3), KAFKA), FASTER, tmp_path) as peer:
        topic = "through-1"
        topic_through(peer, 1, topic)
        with Load(peer, topic, PARTITIONS + 1) as load:
            load.wait_for(300)
            for program in (MOLDAU, KAFKA):
                for node_id in peer.ports:
                    peer.change(node_id, program, kill=kill)
                    load.wait_for(200)
                topic_through(peer, 2, f"through-{program}")
        nothing_is_lost(peer, topic, load)


def nothing_is_lost(peer: MixedPeer, topic: str, load: Load) -> None:
    """Every acknowledged value is there once, and all replicas are the same."""
    assert not load.failed
    found = load.found()
    assert len(found) == len(set(found)), "no record is there twice"
    assert set(load.acked) <= set(found), "every acknowledged record is there"

    def same(folder: str) -> bool:
        return len(set(segments(peer, folder).values())) == 1

    for folder in (f"{topic}-{number}" for number in range(PARTITIONS + 1)):
        wait_until(partial(same, folder), f"all replicas of {folder} are the same")
