"""A Moldau cluster run exactly as Apache Kafka's is: the same server.properties, formatted and started by commands.

`moldau.Cluster` is the comfortable way to run a cluster from Python; this one is for comparing, so that the two systems
differ in nothing but the command. Everything but the two commands is kafka_peer.py's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_peer import KafkaPeer

COMMAND = Path(sys.prefix) / "bin" / "moldau"


class MoldauPeer(KafkaPeer):
    """Combined KRaft nodes of Moldau on loopback; ids are 1..nodes."""

    def format_command(self, node_id: int) -> list[str]:
        config = str(self.config_file(node_id))
        return [str(COMMAND), "storage", "format", "--ignore-formatted", "-t", self.cluster_id, "-c", config]

    def node_command(self, node_id: int) -> list[str]:
        return [str(COMMAND), "node", str(self.config_file(node_id))]
