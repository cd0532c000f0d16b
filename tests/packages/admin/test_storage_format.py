"""``moldau storage format`` makes no cluster of its own out of a node that belongs to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.cli import cli
from moldau.admin.storage import storage
from moldau.broker.config.storage_format import parse_controllers
from moldau.model import uuid_bytes

ID = "MkU3OEVBNTcwNTJENDM2Qg"
KRAFT = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={folder}
"""
VOTERS = "controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.2:9093,3@127.0.0.3:9093\n"
BROKER = """\
process.roles=broker
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
log.dirs={folder}
"""
ZOOKEEPER = "broker.id=1\nzookeeper.connect=127.0.0.1:2181\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs={folder}\n"
MEMBER = f"1@127.0.0.1:9093:{ID}"


@pytest.mark.parametrize(
    ("text", "arguments", "why"),
    [
        (KRAFT + VOTERS, ["--standalone"], "controller.quorum.voters is set"),
        (KRAFT + VOTERS, ["--initial-controllers", MEMBER], "controller.quorum.voters is set"),
        (BROKER, ["--standalone"], "only use --standalone on a controller"),
        (ZOOKEEPER, [], "zookeeper.connect is set"),
        (ZOOKEEPER, ["--standalone"], "zookeeper.connect is set"),
    ],
    ids=["voters alone", "voters and others", "no controller", "ZooKeeper", "ZooKeeper alone"],
)
def test_what_would_be_another_cluster_is_refused_and_nothing_written(
    tmp_path: Path, text: str, arguments: list[str], why: str
) -> None:
    """Three nodes with the same voters, formatted with --standalone, were three clusters of one id."""
    folder, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text(text.format(folder=folder))
    said = CliRunner().invoke(storage, ["format", "-t", ID, "-c", str(file), *arguments])
    assert said.exit_code == 1, said.output
    assert why in said.output
    assert not folder.exists()


def test_a_folder_that_is_named_twice_is_one(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "server.properties"
    text = KRAFT + "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    file.write_text(text.format(folder=f"{folder},{folder}/"))
    said = CliRunner().invoke(storage, ["format", "-t", ID, "-c", str(file), "--standalone"])
    assert said.exit_code == 0, said.output
    assert said.output.count("Formatting") == 1, said.output


@pytest.mark.parametrize(
    "named",
    [f"1@h:65536:{ID}", f"-1@h:9093:{ID}", f"1@:9093:{ID}", f"2147483648@h:9093:{ID}", f"{MEMBER},{MEMBER}",
     f"1@[::1:9093:{ID}", "1@h:9093:short", "1@h:9093"],
)  # fmt: skip
def test_controllers_that_could_not_vote_are_refused_and_nothing_written(tmp_path: Path, named: str) -> None:
    """A port above 65,535 ended with a traceback, half of the folder written; the others were taken."""
    folder, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text((KRAFT + "controller.quorum.bootstrap.servers=127.0.0.1:9093\n").format(folder=folder))
    said = CliRunner().invoke(storage, ["format", "-t", ID, "-c", str(file), "--initial-controllers", named])
    assert (said.exit_code, type(said.exception)) == (1, SystemExit), said.output
    assert "Invalid value" in said.output
    assert not folder.exists()


def test_a_controller_at_an_address_of_ipv6_is_known_by_it() -> None:
    """It was known by the address in brackets, which is none that can be connected to."""
    assert parse_controllers(f"1@[::1]:9093:{ID},2@h:0:{ID}") == [
        (1, "::1", 9093, uuid_bytes(ID)),
        (2, "h", 0, uuid_bytes(ID)),
    ]


@pytest.mark.parametrize(
    "damaged", ["", "version=7\nnode.id=1\ncluster.id=c-1\n", None], ids=["empty", "newer", "folder"]
)
@pytest.mark.parametrize(
    "words",
    [["storage", "info", "-c"], ["doctor"], ["quorum", "add-controller", "-c"]],
    ids=["info", "doctor", "quorum"],
)
def test_what_cannot_be_read_of_a_folder_is_named_and_no_traceback(
    tmp_path: Path, words: list[str], damaged: str | None
) -> None:
    """The doctor, and what it sends its reader to, ended with BrokenFile's traceback."""
    folder, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text((KRAFT + VOTERS).format(folder=folder))
    assert CliRunner().invoke(storage, ["format", "-t", ID, "-c", str(file)]).exit_code == 0
    meta = folder / "meta.properties"
    meta.unlink()
    if damaged is None:
        meta.mkdir()
    else:
        meta.write_text(damaged)
    said = CliRunner().invoke(cli, [*words, str(file)])
    assert isinstance(said.exception, SystemExit), said.output
    assert said.exit_code in (1, 4)
    assert str(meta) in said.output.replace("\n", ""), said.output
    assert "storage format" not in said.output  # which would say that it is formatted


def test_one_folder_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    first, second, file = tmp_path / "a", tmp_path / "b", tmp_path / "server.properties"
    file.write_text((KRAFT + VOTERS).format(folder=f"{first},{second}"))
    assert CliRunner().invoke(storage, ["format", "-t", ID, "-c", str(file)]).exit_code == 0
    (first / "meta.properties").write_text("")
    said = CliRunner().invoke(storage, ["info", "-c", str(file)])
    assert said.exit_code == 1
    assert f"Found metadata in {second}" in said.output
    assert f"{first}/meta.properties: version, cluster.id and node.id are expected" in said.output
