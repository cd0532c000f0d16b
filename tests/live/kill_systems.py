"""The kill suite's systems under test: Moldau, or Apache Kafka, on which the suite itself is checked.

``python tests/live/kill_systems.py --kills 2`` runs the suite against Apache Kafka with the options of
``python -m moldau.cluster.kills``. Read next: moldau/cluster/kills.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from kafka_peer import KafkaPeer

from moldau.cluster.kills.cluster_poller import Address, System
from moldau.cluster.kills.command import MoldauSystem, main, stop_on_term


class KafkaSystem:
    """Three combined nodes of Apache Kafka."""

    def __init__(self, folder: Path) -> None:
        self.peer = KafkaPeer(3, folder=folder)
        try:
            self.peer.start()
        except BaseException:
            self.peer.stop()
            raise

    @property
    def bootstrap_servers(self) -> str:
        return self.peer.bootstrap_servers

    @property
    def brokers(self) -> Mapping[int, Address]:
        return {node: ("127.0.0.1", ports[0]) for node, ports in self.peer.ports.items()}

    @property
    def controllers(self) -> Mapping[int, Address]:
        return {node: ("127.0.0.1", ports[1]) for node, ports in self.peer.ports.items()}

    def kill(self, node: int) -> None:
        self.peer.kill(node)

    def restart(self, node: int) -> None:
        self.peer.start_node(node)

    def stop(self) -> None:
        """All are told at once, as the last two of a quorum cannot leave one after the other."""
        for pid in self.peer.pids.values():
            os.kill(pid, signal.SIGTERM)
        for node in list(self.peer.pids):
            self.peer.stop_node(node)

    def close(self) -> None:
        self.peer.stop()

    def data_dir(self, node: int) -> Path:
        return self.peer.data_dir(node)

    def pid(self, node: int) -> int:
        return self.peer.pids[node]


class PausableMoldau(MoldauSystem):
    """Moldau, with the processes named so that a test can pause them."""

    def pid(self, node: int) -> int:
        return self._cluster.pid(node)


def open_system(folder: Path) -> KafkaSystem | PausableMoldau:
    """A running system of the kind that MOLDAU_LIVE_SYSTEM names: ``moldau`` (the default) or ``kafka``."""
    kind: type[KafkaSystem | PausableMoldau] = PausableMoldau
    if os.environ.get("MOLDAU_LIVE_SYSTEM", "moldau") == "kafka":
        kind = KafkaSystem
    return kind(folder)


def _kafka(folder: Path) -> System:
    return KafkaSystem(folder)


if __name__ == "__main__":
    stop_on_term()
    sys.exit(main(sys.argv[1:], _kafka))
