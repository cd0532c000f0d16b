"""Clusters of Apache Kafka 3.9 on ZooKeeper that a node of Moldau must not touch, or not all of: refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kafka_peer import KafkaPeer, free_port, java_command, spawn, wait_until
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from mixed import KAFKA, MOLDAU, SMALL_HEAP, values_of
from mixed_zookeeper import JARS, ZooKeeperPeer, admin_of, cluster

from moldau.admin.cli import cli
from moldau.model.properties import read_properties

VALUES = [b"%d" % number for number in range(20)]
ONE = {"offsets_topic_replication_factor": 1, "min_insync_replicas": 1, "default_replication_factor": 1}
OLD = {"v0": "0.9.0", "v1": "0.10.2"}
"""message.format.version of topics, by the format that Kafka writes then."""
ANOTHER = "MkU3OEVBNTcwNTJENDM2Qk"
MIGRATES = "zookeeper.metadata.migration.enable"
TO_KAFKA = "end it, or go back, with Kafka's own nodes first; this node has written nothing"

pytestmark = pytest.mark.timeout(600)


def write(peer: KafkaPeer, topic: str) -> None:
    producer = Producer({"bootstrap.servers": peer.bootstrap_servers})
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def contents(*folders: Path) -> dict[Path, bytes]:
    """All files but those that only say that a process is there."""
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file() and file.name != ".lock")
    return {file: file.read_bytes() for file in files}


def refused(peer: ZooKeeperPeer, folder: Path) -> str:
    """What a broker of Moldau says that does not start beside the peer, in a folder that is another cluster's."""
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "meta.properties").write_text(f"version=0\nbroker.id=9\ncluster.id={ANOTHER}\n")
    file = folder / "server.properties"
    text = peer.config_file(1).read_text().replace("broker.id=1", "broker.id=9")
    text = text.replace(str(peer.data_dir(1)), str(folder / "data")).replace(str(peer.ports[1][0]), str(free_port()))
    file.write_text(text)
    before = contents(folder)
    run = subprocess.run(
        [sys.executable, "-m", "moldau", "node", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1, run
    assert contents(folder) == before
    assert 9 not in peer.view().brokers
    return run.stdout + run.stderr


def test_logs_of_old_message_formats_are_named_when_a_node_starts_and_kafka_finds_them_as_it_left_them(
    tmp_path: Path,
) -> None:
    """Before anybody reads them: a start without a word, and an error at the first fetch, would look like a loss."""
    with cluster(tmp_path, KAFKA, session_ms=30_000, inter_broker_protocol_version="2.8", **ONE) as peer:
        admin = admin_of(peer, 1)
        wanted = [NewTopic(name, 1, 1, config={"message.format.version": format}) for name, format in OLD.items()]
        for done in admin.create_topics([*wanted, NewTopic("today", 1, 1)]).values():
            done.result(60)
        for name in (*OLD, "today"):
            write(peer, name)
        said = refused(peer, tmp_path / "another")
        assert f"of cluster {ANOTHER}" in said, said
        peer.stop_node(1)
        folders = [peer.data_dir(1) / f"{name}-0" for name in OLD]
        before = contents(*folders)
        looked = CliRunner().invoke(cli, ["doctor", str(peer.config_file(1)), "-o", "json"])
        named = {one["about"]: one["what"] for one in json.loads(looked.stdout)}
        for name in OLD:
            assert f"message format {name}" in named[f"partition {name}-0"]

        peer.programs[1] = MOLDAU
        peer.restart(1)
        log = peer.log_file(1).read_text()
        for name in OLD:
            (line,) = [line for line in log.splitlines() if f"/{name}-0/" in line and "message format" in line]
            assert f"message format {name}," in line
        assert values_of(peer.bootstrap_servers, "today", 1) == VALUES
        peer.stop_node(1)
        assert contents(*folders) == before

        peer.programs[1] = KAFKA
        peer.restart(1)
        for name in (*OLD, "today"):
            assert values_of(peer.bootstrap_servers, name, 1) == VALUES


class Controller:
    """A controller of Kafka 3.9 that migrates a cluster from ZooKeeper, until it is started without that."""

    def __init__(self, zookeeper: str, cluster_id: str, folder: Path) -> None:
        self.port = free_port()
        self.quorum = {
            "controller.quorum.voters": f"101@127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }
        self._takes_part = {"zookeeper.connect": zookeeper, MIGRATES: "true"}
        self._folder = folder
        self.data = folder / "data"
        folder.mkdir()
        self.file = folder / "server.properties"
        self.write(migrates=True)
        subprocess.run(
            java_command("kafka-storage", ["format", "-t", cluster_id, "-c", self.file], jars=JARS), check=True,
            capture_output=True,
        )  # fmt: skip
        self.process = self.start()

    def write(self, *, migrates: bool) -> None:
        lines = self.quorum | (self._takes_part if migrates else {}) | {
            "process.roles": "controller", "node.id": 101, "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "log.dirs": self.data,
        }  # fmt: skip
        self.file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def start(self) -> subprocess.Popen[bytes]:
        command = java_command("kafka.Kafka", [self.file], SMALL_HEAP, JARS)
        return spawn(command, self._folder / "node.log")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def decides(zookeeper: str, node_id: int) -> bool:
    """Whether a node is the controller by what stands in ZooKeeper."""
    zk = KazooClient(zookeeper)
    zk.start()
    try:
        return bool(json.loads(zk.get("/controller")[0])["brokerid"] == node_id)
    except NoNodeError:
        return False
    finally:
        zk.stop()
        zk.close()


def in_the_way(peer: KafkaPeer) -> dict[str, str]:
    """What `moldau adopt check` says of a migration; the command ends with 4 then."""
    run = CliRunner().invoke(cli, ["adopt", "check", "--bootstrap-server", peer.bootstrap_servers, "-o", "json"])
    assert run.exit_code in (0, 4), run.output
    found = {one["about"]: one["what"] for one in json.loads(run.stdout) if one["severity"] == "error"}
    assert run.exit_code == 4 or not found
    return found


def kept_out(file: Path, *folders: Path) -> str:
    """What a node of Moldau says that does not start on a node's own file; its folders are as they were."""
    before = contents(*folders)
    run = subprocess.run(
        [sys.executable, "-m", "moldau", "node", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1, run
    assert contents(*folders) == before
    return run.stdout + run.stderr


@pytest.mark.skipif("MOLDAU_INTERCHANGE" not in os.environ, reason="a minute of Apache Kafka's nodes: make interchange")
def test_a_migration_of_kafkas_is_in_the_way_until_it_is_ended(tmp_path: Path) -> None:
    with cluster(tmp_path, KAFKA, session_ms=30_000, **ONE) as peer:
        assert "migration" not in in_the_way(peer)
        file = peer.config_file(1)
        on_zookeeper = file.read_text()
        zookeeper = read_properties(on_zookeeper)["zookeeper.connect"]
        cluster_id = read_properties((peer.data_dir(1) / "meta.properties").read_text())["cluster.id"]
        controller = Controller(zookeeper, cluster_id, tmp_path / "node-101")
        try:
            text = "".join(f"{key}={value}\n" for key, value in controller.quorum.items())
            peer.stop_node(1)
            file.write_text(f"{on_zookeeper}{text}{MIGRATES}=true\ninter.broker.protocol.version=3.9\n")
            peer.restart(1)
            assert f"brokers 1 have {MIGRATES}" in in_the_way(peer)["migration"]

            wait_until(partial(decides, zookeeper, 101), "the quorum's controller decides")
            peer.stop_node(1)
            assert "are Apache Kafka's" in kept_out(file, peer.data_dir(1))
            taking_part = file.read_text()
            file.write_text(on_zookeeper)
            assert "/controller is held by controller 101 of a quorum" in kept_out(file, peer.data_dir(1))
            file.write_text(taking_part)
            left = [line for line in on_zookeeper.splitlines() if not line.startswith(("zookeeper.", "broker.id"))]
            file.write_text("\n".join([*left, "process.roles=broker", "node.id=1", text]))
            assert TO_KAFKA in kept_out(file, peer.data_dir(1))
            peer.restart(1)
            assert "controllers 101 have" in in_the_way(peer)["migration"]
            peer.stop_node(1)
            assert TO_KAFKA in kept_out(file, peer.data_dir(1))
            peer.restart(1)

            controller.stop()
            for migrates in (True, False):
                controller.write(migrates=migrates)
                assert TO_KAFKA in kept_out(controller.file, controller.data)
            controller.write(migrates=False)
            controller.process = controller.start()
            wait_until(lambda: "migration" not in in_the_way(peer), "the migration is ended")
        finally:
            controller.stop()
