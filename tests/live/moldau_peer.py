"""A Moldau cluster run exactly as Apache Kafka's is: the same server.properties, formatted and started by commands.

`moldau.Cluster` is the comfortable way to run a cluster from Python; this one is for comparing, so that the two systems
differ in nothing but the command. Everything but the two commands is kafka_peer.py's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from kafka_peer import KafkaPeer

from moldau.cluster.ensemble import LocalEnsemble

COMMAND = Path(sys.prefix) / "bin" / "moldau"


class MoldauPeer(KafkaPeer):
    """Combined KRaft nodes of Moldau on loopback; ids are 1..nodes."""

    def format_command(self, node_id: int) -> list[str]:
        config = str(self.config_file(node_id))
        return [str(COMMAND), "storage", "format", "--ignore-formatted", "-t", self.cluster_id, "-c", config]

    def node_command(self, node_id: int) -> list[str]:
        return [str(COMMAND), "node", str(self.config_file(node_id))]


class ZooKeeperPeer(KafkaPeer):
    """The same in ZooKeeper mode, with a ZooKeeper server of its own: what runs in one mode runs in the other."""

    def __init__(self, nodes: int = 1, properties: Mapping[str, object] | None = None, folder: Path | None = None):
        super().__init__(nodes, properties, folder)
        self.ensemble = LocalEnsemble(self.folder / "zookeeper")
        for node_id, (client, _) in self.ports.items():
            lines = self.config_file(node_id).read_text().splitlines()
            kept = [
                line for line in lines if not line.startswith(("process.roles", "node.id", "controller.", "listeners"))
            ]
            kept += [
                f"broker.id={node_id}",
                f"listeners=PLAINTEXT://127.0.0.1:{client}",
                f"zookeeper.connect={self.ensemble.connect}/peer",
                "zookeeper.session.timeout.ms=20000",
            ]
            self.config_file(node_id).write_text("".join(f"{line}\n" for line in kept))

    def format(self) -> None:
        """Nothing is formatted here: whoever starts first makes the cluster."""
        self.ensemble.start()

    def node_command(self, node_id: int) -> list[str]:
        return [str(COMMAND), "node", str(self.config_file(node_id))]

    def stop(self) -> None:
        for node_id in list(self._running):
            self.kill(node_id)
        self.ensemble.stop()
        super().stop()
