"""Moldau's kafka-storage.sh says what Apache Kafka 4.3.1's says, and either starts from what the other has written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import classic_cases
from classic import Both, lines
from kafka_peer import KafkaPeer, java_command
from moldau_peer import COMMAND, MoldauPeer
from tests.golden.java_tools import JavaTools

FIRST = "4.0-IV3"
CONTROLLER = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
}
STATIC = {"controller.quorum.voters": "5@127.0.0.1:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
BROKER = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}
NODES: dict[str, dict[str, str]] = {
    **dict.fromkeys(("static", "static2", "static3", "noid"), {**CONTROLLER, **STATIC}),
    **dict.fromkeys(("alone", "first", "member"), {**CONTROLLER, **DYNAMIC}),
    "broker": {**CONTROLLER, **STATIC, **BROKER},
}


def test_storage(java: JavaTools, tmp_path: Path) -> None:
    for side in "jm":
        for name, settings in NODES.items():
            own = {} if name == "noid" else {"node.id": "6" if name == "broker" else "5"}
            given = {**settings, **own, "log.dirs": f"{tmp_path}/{side}-{name}"}
            text = "".join(f"{key}={value}\n" for key, value in given.items())
            (tmp_path / f"{side}-{name}.properties").write_text(text)
    drawn = r"directory\.id=\S{22}"
    both = Both(java, {"json": str(tmp_path)}, {drawn: "directory.id=(id)"})
    both.run(lines(classic_cases.STORAGE))
    both.check()


class FormattedByMoldau(KafkaPeer):
    """Apache Kafka's nodes in folders that Moldau's tool has made ready."""

    def format_command(self, node_id: int) -> list[str]:
        return [str(COMMAND), "kafka-storage.sh", *_words(self, node_id)]


class FormattedByKafka(MoldauPeer):
    """The reverse."""

    def format_command(self, node_id: int) -> list[str]:
        return java_command("kafka-storage", [*_words(self, node_id), "--release-version", FIRST])


def _words(peer: KafkaPeer, node_id: int) -> list[str]:
    config = str(peer.config_file(node_id))
    return ["format", "--ignore-formatted", "-t", peer.cluster_id, "-c", config]


def test_either_starts_from_what_the_other_has_formatted() -> None:
    for peer in (FormattedByMoldau, FormattedByKafka):
        with peer(nodes=1) as cluster:
            assert cluster.view().brokers.keys() == {1}


def test_nothing_is_written_where_nothing_is_formatted(tmp_path: Path) -> None:
    """A half-made folder would be taken for a formatted one."""
    config = tmp_path / "server.properties"
    config.write_text(
        "".join(
            f"{key}={value}\n"
            for key, value in {**CONTROLLER, **STATIC, "node.id": "5", "log.dirs": f"{tmp_path}/a"}.items()
        )
    )
    for wrong in (
        ["--release-version", "3.9"],
        ["--feature", "group.version=1"],
        ["-S", "SCRAM-SHA-256=[name=a,password=b]"],
    ):
        words = [str(COMMAND), "kafka-storage.sh", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(config), *wrong]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert not (tmp_path / "a").exists()
