"""Formatting a node's folders when some are formatted already."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import (
    BOOTSTRAP,
    FIRST_SNAPSHOT,
    METADATA_FOLDER,
    FormatRefused,
    format_storage,
    standalone,
)
from moldau.model.ids import uuid_text
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealRandom
from moldau.storage.names import META

OURS, OTHER = uuid_text(bytes(15) + b"\x01"), uuid_text(bytes(15) + b"\x02")


def config(folder: Path, node_id: int = 1) -> NodeConfig:
    return NodeConfig(
        {
            "node.id": str(node_id), "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.quorum.voters": f"{node_id}@127.0.0.1:9093", "log.dirs": f"{folder / 'a'},{folder / 'b'}",
        }
    )  # fmt: skip


def again(folder: Path, cluster_id: str = OURS, node_id: int = 1) -> list[str]:
    return format_storage(config(folder, node_id), cluster_id, RealDisk(), RealRandom(), ignore_formatted=True)


def test_only_what_is_not_formatted_is_formatted(tmp_path: Path) -> None:
    assert len(again(tmp_path)) == 2
    shutil.rmtree(tmp_path / "b")
    assert again(tmp_path) == [str(tmp_path / "b")]
    assert again(tmp_path) == []


@pytest.mark.parametrize("lost", [False, True], ids=["all formatted", "one folder new"])
def test_folders_of_another_cluster_or_node_are_refused_and_nothing_is_formatted(tmp_path: Path, lost: bool) -> None:
    again(tmp_path)
    if lost:
        shutil.rmtree(tmp_path / "b")
    meta = tmp_path / "a" / META
    with pytest.raises(FormatRefused, match=f"Invalid cluster.id in: {meta}. Expected {OTHER}, but read {OURS}"):
        again(tmp_path, OTHER)
    with pytest.raises(FormatRefused, match="Invalid node.id in: .* Expected 2, but read 1"):
        again(tmp_path, node_id=2)
    assert (tmp_path / "b").exists() is not lost


def test_a_folder_whose_file_is_damaged_is_named(tmp_path: Path) -> None:
    again(tmp_path)
    (tmp_path / "b" / META).write_bytes(b"version=1\n")
    with pytest.raises(FormatRefused, match=f"{tmp_path / 'b' / META}: version, cluster.id and node.id are expected"):
        again(tmp_path)


class FailingDisk(RealDisk):
    """A disk that has no room for one file."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def write_atomic(self, path: str, data: bytes) -> None:
        if path.endswith(self.name):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        super().write_atomic(path, data)


@pytest.mark.parametrize("name", [BOOTSTRAP, FIRST_SNAPSHOT, META])
def test_formatting_that_was_cut_off_is_done_by_the_next_call(tmp_path: Path, name: str) -> None:
    """The folder counted as formatted without its first voters: the node never had any, whatever was called again."""
    given = {**config(tmp_path).given, "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
    del given["controller.quorum.voters"]
    node = NodeConfig(given)
    voters = standalone(node, RealRandom())
    with pytest.raises(OSError, match="No space left"):
        format_storage(node, OURS, FailingDisk(name), RealRandom(), voters=voters)
    assert format_storage(node, OURS, RealDisk(), RealRandom(), voters=voters) == list(node.log_dirs)
    assert (tmp_path / "a" / BOOTSTRAP).exists()
    assert (tmp_path / "a" / METADATA_FOLDER / FIRST_SNAPSHOT).exists()
