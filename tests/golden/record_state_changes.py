"""Records state-change logs of real brokers of Apache Kafka, with the state-change logger at TRACE.

    python tests/golden/record_state_changes.py kafka-4.3.1|kafka-3.9.1-quorum|kafka-3.9.1-zookeeper

Three nodes; two topics are made, one broker is killed and comes back, leads are given back, replicas move, a topic is
deleted, and all nodes are stopped in turn. The logs go to tests/golden/state_changes/NAME. The jars are those of
`make jars`; what writes Kafka's line format is Log4j, whose part for slf4j Maven has as
org.apache.logging.log4j:log4j-slf4j-impl:2.25.4 (`mvn dependency:get`).
Read next: tests/packages/admin/test_state_changes_recorded.py.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "live")]

from kafka_peer import KafkaPeer  # noqa: E402

from moldau.cluster.ensemble import LocalEnsemble  # noqa: E402

JARS = ROOT / ".jars"
BINDING = "org/apache/logging/log4j/log4j-slf4j-impl/2.25.4/log4j-slf4j-impl-2.25.4.jar"
LOG4J = """status=error
appender.s.type=File
appender.s.name=S
appender.s.fileName={folder}/state-change.log
appender.s.layout.type=PatternLayout
appender.s.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=off
logger.s.name=state.change.logger
logger.s.level=trace
logger.s.appenderRef.s.ref=S
"""
QUIET = {"auto.leader.rebalance.enable": "false", "broker.session.timeout.ms": 6000}
PLAN = {
    "version": 1,
    "partitions": [
        {"topic": "two.words-2", "partition": 0, "replicas": [3, 2]},
        {"topic": "two.words-2", "partition": 1, "replicas": [1, 3]},
    ],
}


def class_path(name: str) -> str:
    """The broker's jars, with Log4j instead of the logger that tools print with."""
    new = sorted((JARS / "kafka-4.3.1").glob("*.jar"))
    found = [Path.home() / ".m2" / "repository" / BINDING]
    if name == "kafka-4.3.1":
        found += [jar for jar in new if "slf4j-simple" not in jar.name]
    else:
        found += [jar for jar in sorted((JARS / "tools-3.9.1").glob("*.jar")) if "slf4j-simple" not in jar.name]
        found += [jar for jar in new if jar.name.startswith(("log4j-", "lz4", "snappy", "zstd"))]
        old = sorted((JARS / "tools-2.8.2").glob("*.jar"))
        found += [jar for jar in old if jar.name.startswith(("zookeeper", "netty"))]
    return ":".join(map(str, found))


class Recorded(KafkaPeer):
    """Brokers that write a state-change log."""

    release = ""

    def log_folder(self, node_id: int) -> Path:
        return self.folder / f"node-{node_id}"

    def node_command(self, node_id: int) -> list[str]:
        settings = self.log_folder(node_id) / "log4j2.properties"
        settings.write_text(LOG4J.format(folder=self.log_folder(node_id)))
        flags = ["-Xmx512m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={settings}"]
        return ["java", *flags, "-cp", class_path(self.release), "kafka.Kafka", str(self.config_file(node_id))]

    def format_command(self, node_id: int) -> list[str]:
        if self.release.endswith("zookeeper"):
            return ["true"]
        wish = ["format", "--ignore-formatted", "-t", self.cluster_id, "-c", str(self.config_file(node_id))]
        return ["java", "-cp", class_path(self.release), "kafka.tools.StorageTool", *wish]

    def on_zookeeper(self, connect: str) -> None:
        for node_id, (client, _) in self.ports.items():
            lines = {
                "broker.id": node_id,
                "zookeeper.connect": connect,
                "listeners": f"PLAINTEXT://127.0.0.1:{client}",
                "log.dirs": self.data_dir(node_id),
                "auto.leader.rebalance.enable": "false",
                "zookeeper.session.timeout.ms": 6000,
            }
            self.config_file(node_id).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))


def live(peer: Recorded) -> None:
    """What happens in the recorded minute."""
    peer.start(120)
    peer.tool("kafka-topics", "--create", "--topic", "orders", "--partitions", 4, "--replication-factor", 3)
    peer.tool("kafka-topics", "--create", "--topic", "two.words-2", "--partitions", 2, "--replication-factor", 2)
    peer.kill(2)
    time.sleep(9)  # until its session is over
    peer.restart(2)
    time.sleep(3)
    peer.tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions", check=False)
    plan = peer.folder / "plan.json"
    plan.write_text(json.dumps(PLAN))
    peer.tool("kafka-reassign-partitions", "--reassignment-json-file", plan, "--execute")
    time.sleep(3)
    peer.tool("kafka-topics", "--delete", "--topic", "two.words-2")
    time.sleep(2)
    for node_id in peer.ports:
        peer.stop_node(node_id, 20)


def main(name: str) -> None:
    Recorded.release = name
    with tempfile.TemporaryDirectory() as folder:
        peer = Recorded(3, QUIET, Path(folder) / "peer")
        ensemble = LocalEnsemble(Path(folder) / "zookeeper") if name.endswith("zookeeper") else None
        try:
            if ensemble is not None:
                ensemble.start()
                peer.on_zookeeper(ensemble.connect)
            live(peer)
        finally:
            peer.stop()
            if ensemble is not None:
                ensemble.stop()
        for node_id in peer.ports:
            into = HERE / "state_changes" / name / f"node-{node_id}" / "state-change.log.gz"
            into.parent.mkdir(parents=True, exist_ok=True)
            into.write_bytes(gzip.compress((peer.log_folder(node_id) / "state-change.log").read_bytes(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
