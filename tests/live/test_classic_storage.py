"""Moldau's kafka-storage.sh says what Apache Kafka 4.3.1's says, and either starts from what the other has written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import classic_cases
import pytest
from classic import Both, lines, main_class, ours
from kafka_peer import KafkaPeer, java_command
from moldau_peer import COMMAND, MoldauPeer
from tests.golden.java_tools import JavaTools

from moldau.storage.names import META

FIRST = "4.0-IV3"
DRAWN = r"directory\.id=\S{22}"
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


WHOLE = {**CONTROLLER, **STATIC, "node.id": "5", "log.dirs": "{folder}"}
ODD: dict[str, dict[str, str | None]] = {
    "norole": {"process.roles": None},
    "zookeeper": {
        **dict.fromkeys(WHOLE), "broker.id": "1", "zookeeper.connect": "127.0.0.1:2181", "log.dirs": "{folder}",
    },
    "emptyrole": {"process.roles": ""},
    "strangerole": {"process.roles": "broker,zk"},
    "emptydirs": {"log.dirs": ""},
    "besides": {"log.dirs": " ", "log.dir": "{folder}"},
    "gap": {"log.dirs": "{folder},"},
    "twoids": {"broker.id": "6"},
    "oldid": {"node.id": None, "broker.id": "5"},
    "novoters": {"controller.quorum.voters": None},
    "nonames": {"controller.listener.names": None},
    "nolistener": {"listeners": ""},
    "oneport": {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9092"},
    "noint": {"num.network.threads": "x"},
    "low": {"num.network.threads": "0"},
    "nobool": {"auto.create.topics.enable": "maybe"},
    "strnode": {"node.id": "x"},
    "emptymeta": {"metadata.log.dir": ""},
    "blankmeta": {"metadata.log.dir": " "},
    "votes": {"process.roles": "broker"},
    "votestwice": {"process.roles": "broker,broker"},
    "votesmany": {"process.roles": "broker", "controller.quorum.voters": "5@h:1,7@h:1,9@h:1,2@h:1,11@h:1,4@h:1"},
    "manyroles": {"process.roles": "broker,controller,broker"},
}  # fmt: skip
"""What is otherwise than in a file that a node starts from; None is left out."""


def test_what_kafka_does_not_start_from_is_refused_in_its_words(java: JavaTools, tmp_path: Path) -> None:
    for side in "jm":
        for name, odd in ODD.items():
            folder = str(tmp_path / f"{side}-{name}")
            given = {key: value for key, value in {**WHOLE, **odd}.items() if value is not None}
            text = "".join(f"{key}={value.format(folder=folder)}\n" for key, value in given.items())
            (tmp_path / f"{side}-{name}.properties").write_text(text)
    both = Both(java, {"json": str(tmp_path)}, {DRAWN: "directory.id=(id)"})
    both.run(lines(classic_cases.STORAGE_REFUSED))
    both.check()
    made = {folder.name for folder in tmp_path.iterdir() if folder.is_dir()}
    assert made == {"j-oldid", "m-oldid", "j-manyroles", "m-manyroles"}, "nothing is written where Kafka refuses"


def test_storage(java: JavaTools, tmp_path: Path) -> None:
    for side in "jm":
        for name, settings in NODES.items():
            own = {} if name == "noid" else {"node.id": "6" if name == "broker" else "5"}
            given = {**settings, **own, "log.dirs": f"{tmp_path}/{side}-{name}"}
            text = "".join(f"{key}={value}\n" for key, value in given.items())
            (tmp_path / f"{side}-{name}.properties").write_text(text)
    both = Both(java, {"json": str(tmp_path)}, {DRAWN: "directory.id=(id)"})
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


@pytest.mark.parametrize(
    "content",
    [
        None, "", "version=7\n", "version=1\n", "junk\n",
        "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=6\n",
    ],
    ids=["a file", "no file in it", "another version", "half a file", "junk", "of another node"],
)  # fmt: skip
def test_folders_that_cannot_be_read_are_told_as_kafka_tells_them(
    java: JavaTools, tmp_path: Path, content: str | None
) -> None:
    folder, config = tmp_path / "x", tmp_path / "server.properties"
    given = {**CONTROLLER, **STATIC, "node.id": "5", "log.dirs": folder}
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    if content is None:
        folder.touch()
    else:
        folder.mkdir()
        (folder / META).write_text(content) if content else (folder / META).mkdir()
    words = ["format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(config)]
    theirs = java.run(main_class("kafka-storage.sh"), words)
    told = "".join(line for line in theirs.err.splitlines(keepends=True) if not line.startswith("\t"))
    assert ours("kafka-storage.sh", words) == (theirs.status, theirs.out, told)


def test_a_folder_that_is_none_is_left_out_and_the_others_are_formatted(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    given = {**CONTROLLER, **STATIC, "node.id": "5", "log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    (tmp_path / "b").touch()
    words = [str(COMMAND), "kafka-storage.sh", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(config)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"I/O error trying to read log directory {tmp_path}/b. Ignoring...\n")
    assert (tmp_path / "a" / "meta.properties").is_file()


def test_an_empty_metadata_folder_is_refused_where_kafka_would_write_to_the_root_of_the_disk(tmp_path: Path) -> None:
    """Kafka's tool writes /meta.properties, and bootstrap.checkpoint into the folder in which it is called."""
    config = tmp_path / "server.properties"
    given = {**CONTROLLER, **STATIC, "node.id": "5", "log.dirs": f"{tmp_path}/a", "metadata.log.dir": ""}
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    words = [str(COMMAND), "kafka-storage.sh", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(config)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("metadata.log.dir is empty"), done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["server.properties"]
