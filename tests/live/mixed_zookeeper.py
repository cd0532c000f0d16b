"""Clusters of Kafka 3.9's and Moldau's brokers on one ZooKeeper, which `LocalEnsemble` runs. Read next: mixed.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient
from kafka_peer import ALL_JARS, KafkaPeer, java_command, wait_until
from kazoo.client import KazooClient
from mixed import MOLDAU, SMALL_HEAP, MixedPeer

from moldau.cluster.ensemble import LocalEnsemble

JARS = ALL_JARS / "kafka-3.9.2"


class ZooKeeperPeer(MixedPeer):
    """Brokers on one ZooKeeper, each run by ``programs[node_id]``; the one that starts first is the controller."""

    def __init__(
        self,
        programs: Mapping[int, str],
        zookeeper: str,
        folder: Path,
        session_ms: int,
        more: Mapping[str, object] = {},  # a Mapping, and never changed
    ) -> None:
        super().__init__(programs, {}, folder)
        self._zookeeper = zookeeper
        for node_id, (port, _) in self.ports.items():
            lines = {
                "broker.id": node_id,
                "zookeeper.connect": zookeeper,
                "zookeeper.session.timeout.ms": session_ms,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": self.data_dir(node_id),
                "offsets.topic.replication.factor": 3,
                "offsets.topic.num.partitions": 3,
                "min.insync.replicas": 2,
                "default.replication.factor": 3,
                "group.initial.rebalance.delay.ms": 0,
                "auto.leader.rebalance.enable": "false",
                **more,
            }
            self.config_file(node_id).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def format(self) -> None:
        """Nothing is formatted in ZooKeeper mode."""

    def start(self, timeout_s: float = 180) -> ZooKeeperPeer:
        first, *others = self.ports
        self.start_node(first)
        wait_until(lambda: self._controller() == first, f"node {first} is the controller, see {self.folder}")
        for node_id in others:
            self.start_node(node_id)
        self.wait_ready(timeout_s)
        return self

    def _controller(self) -> int:
        try:
            return self.view().controller_id
        except OSError:
            return -1

    def forget(self, node_id: int) -> None:
        """Wait until a killed broker's session has ended: a broker of Kafka does not start before that."""
        zk = KazooClient(self._zookeeper)
        zk.start()
        try:
            wait_until(lambda: zk.exists(f"/brokers/ids/{node_id}") is None, f"broker {node_id} is registered no more")
        finally:
            zk.stop()
            zk.close()

    def node_command(self, node_id: int) -> list[str]:
        if self.programs[node_id] == MOLDAU:
            return super().node_command(node_id)
        return java_command("kafka.Kafka", [self.config_file(node_id)], SMALL_HEAP, JARS)


@contextmanager
def cluster(folder: Path, *programs: str, session_ms: int = 6000, **more: object) -> Iterator[ZooKeeperPeer]:
    """``session_ms``: long where nobody is killed, so that nobody stops leading because a machine is slow. ``more``:
    settings of all brokers, "_" for "."."""
    with LocalEnsemble(folder / "zookeeper") as ensemble:
        ensemble.start()
        ensemble.wait_ready()
        given = {key.replace("_", "."): value for key, value in more.items()}
        with ZooKeeperPeer(dict(enumerate(programs, 1)), ensemble.connect, folder, session_ms, given) as peer:
            yield peer


def admin_of(peer: KafkaPeer, node_id: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{peer.ports[node_id][0]}"})
