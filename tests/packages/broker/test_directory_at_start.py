"""A log directory that fails while a start reads it is noticed as one that fails later: without any, or without that
of the metadata log, the node stops; with another left, it serves and tells."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from moldau.cluster.nodes import free_ports
from moldau.model.ids import uuid_text
from moldau.runtime.disk import RealDisk
from moldau.storage.names import HIGH_WATERMARKS, META
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.whole_node import WholeNode, whole_node


def fail(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Whether the file of high watermarks is there cannot be told in ``folder``, as on a disk that fails."""
    exists = RealDisk.exists

    def failing(disk: RealDisk, path: str) -> bool:
        if path == f"{folder}/{HIGH_WATERMARKS}":
            raise OSError(errno.EIO, "Input/output error", path)
        return exists(disk, path)

    monkeypatch.setattr(RealDisk, "exists", failing)


def test_a_node_whose_only_directory_fails_while_it_is_read_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It went on as a broker that is registered and never serves; it ended with a traceback that named no remedy."""

    async def scene() -> None:
        one = WholeNode(tmp_path, {}, standalone=False)
        fail(monkeypatch, tmp_path / "data")
        start = asyncio.ensure_future(one.node.start())
        try:
            await until(lambda: one.ended, "the node wants to go")
        finally:
            start.cancel()
            await asyncio.wait([start])
            await one.node.stop()

    run(scene)
    (fatal,) = [one for one in caplog.records if one.levelname == "CRITICAL"]
    assert fatal.exc_info is None
    assert fatal.message.startswith(f"log directory {tmp_path / 'data'} is offline: ")
    assert "It holds the metadata log, and this node stops: mend the disk" in fatal.message


def test_a_node_with_another_directory_serves_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        fail(monkeypatch, tmp_path / "more")
        dirs = f"{tmp_path / 'data'},{tmp_path / 'more'}"
        async with whole_node(tmp_path, log_dirs=dirs) as one:
            assert not one.ended
            data = one.node.data
            assert data is not None
            assert [dir.path for dir in data.log_dirs.offline] == [str(tmp_path / "more")]
            told = one.node.metadata.image.brokers[1].log_dirs
            assert list(told) == [dir.id for dir in data.log_dirs.online]

    run(scene)


def test_a_directory_that_is_replaced_while_the_node_runs_is_offline(tmp_path: Path) -> None:
    """An empty folder in its place, as after `umount -l`: the node went on, and all seemed well."""

    async def scene() -> None:
        dirs = f"{tmp_path / 'data'},{tmp_path / 'more'}"
        async with whole_node(tmp_path, log_dirs=dirs) as one:
            more = tmp_path / "more"
            more.rename(tmp_path / "away")
            more.mkdir()
            data = one.node.data
            assert data is not None
            await until(lambda: data.log_dirs.offline, "it is noticed")
            assert [dir.path for dir in data.log_dirs.offline] == [str(more)]
            assert "another folder" in str(data.log_dirs.offline[0].offline)
            assert not one.ended
            assert not list(more.iterdir())

    run(scene)


def test_a_broker_with_a_copied_directory_id_is_told_which_folder_and_which_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told INVALID_REGISTRATION, and nothing else."""

    async def scene() -> None:
        async with whole_node(tmp_path / "one") as one:
            (port,) = free_ports(1)
            more = {
                "process.roles": "broker",
                "node.id": 2,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.quorum.voters": ",".join(one.node.config["controller.quorum.voters"]),
            }
            other = WholeNode(tmp_path / "two", more, standalone=False)
            copied = (tmp_path / "one" / "data" / META).read_text()
            (tmp_path / "two" / "data" / META).write_text(copied.replace("node.id=1", "node.id=2"))
            start = asyncio.ensure_future(other.node.start())
            try:
                await until(lambda: other.ended, "the second node wants to go")
            finally:
                start.cancel()
                await asyncio.wait([start])
                await other.node.stop()
            (fatal,) = [one for one in caplog.records if one.levelname == "CRITICAL"]
            (id,) = one.node.directories()
            assert f"{tmp_path / 'two' / 'data'} has directory.id {uuid_text(id)}, which broker 1 has" in fatal.message
            assert "remove the line directory.id" in fatal.message
            assert not one.ended

    run(scene)
