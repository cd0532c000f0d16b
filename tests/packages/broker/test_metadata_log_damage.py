"""What a start finds wrong with the metadata log is told; one without its beginning ends the start in one line."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.broker.config import storage_format as formatting
from moldau.broker.node import StartRefused
from tests.packages.broker.data_cluster import run
from tests.packages.broker.whole_node import WholeNode, whole_node


async def lived(folder: Path) -> Path:
    """The metadata log's folder of a node that has run and stopped; a copy, since this process keeps the lock."""
    async with whole_node(folder / "first"):
        pass
    shutil.copytree(folder / "first", folder / "again")
    return folder / "again/data/__cluster_metadata-0"


def again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> WholeNode:
    """The same node once more."""
    monkeypatch.setattr(formatting, "format_storage", lambda *args, **more: None)
    return WholeNode(folder / "again", {}, standalone=False)


def test_what_is_cut_from_the_metadata_log_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A controller that lost its last records followed as if it had never had them, and nobody heard of it."""

    async def scene() -> None:
        folder = await lived(tmp_path)
        (log,) = folder.glob("*.log")
        data = bytearray(log.read_bytes())
        data[-10] ^= 0x40
        log.write_bytes(data)
        one = again(tmp_path, monkeypatch)
        with caplog.at_level(logging.WARNING):
            await one.node.start()
        await one.node.stop()
        assert [record for record in caplog.records if str(log) in record.getMessage()]

    run(scene)


def without_its_log(folder: Path) -> None:
    for log in folder.glob("*.log"):
        log.with_suffix(".index").write_bytes(bytes([0, 0, 0, 9, 0, 0, 1, 0]))
        log.unlink()


def beginning_later(folder: Path) -> None:
    for file in folder.glob("0*.*"):
        if file.suffix in (".log", ".index", ".timeindex"):
            file.unlink()
    (folder / f"{500:020d}.log").touch()


@pytest.mark.parametrize("harm", [without_its_log, beginning_later])
def test_a_metadata_log_without_its_beginning_ends_the_start_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None]
) -> None:
    async def scene() -> None:
        folder = await lived(tmp_path)
        harm(folder)
        one = again(tmp_path, monkeypatch)
        with pytest.raises(StartRefused, match=str(folder)):
            await one.node.start()
        await one.node.stop()

    run(scene)
