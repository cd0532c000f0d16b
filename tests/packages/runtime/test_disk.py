"""The real disk keeps its port's word, and so does the disk of the storage tests: what holds there holds here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.ports import Disk
from moldau.runtime.disk import RealDisk
from tests.packages.storage.faulty_disk import FaultyDisk


@pytest.fixture(params=["real", "in memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else FaultyDisk()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    disk.make_dirs(str(tmp_path))
    return str(tmp_path)


def test_files_are_written_and_read_by_position(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    file = disk.open(f"{root}/a", create=True)
    assert file.pwrite((b"hello ", bytearray(b"wide "), memoryview(b"world")), 2) == 16
    assert file.pread(100, 0) == b"\0\0hello wide world"
    assert file.pread(4, 8) == b"wide"
    assert file.pread(4, 100) == b""
    file.truncate(7)
    assert (file.size(), disk.size(f"{root}/a")) == (7, 7)
    file.sync()
    file.close()
    file.close()
    assert disk.read(f"{root}/a") == b"\0\0hello"
    assert disk.open(f"{root}/a").pread(7, 0) == b"\0\0hello"


def test_names_are_listed_moved_and_removed(disk: Disk, root: str) -> None:
    disk.make_dirs(f"{root}/x/y")
    disk.make_dirs(f"{root}/x/y")
    for name in ("b", "a"):
        disk.open(f"{root}/x/{name}", create=True).close()
    assert disk.list_dir(f"{root}/x") == ["a", "b", "y"]
    assert (disk.is_dir(f"{root}/x/y"), disk.is_dir(f"{root}/x/a"), disk.exists(f"{root}/x/c")) == (True, False, False)
    disk.rename(f"{root}/x/a", f"{root}/x/b")
    disk.rename(f"{root}/x", f"{root}/z")
    assert disk.list_dir(f"{root}/z") == ["b", "y"]
    with pytest.raises(FileNotFoundError):
        disk.list_dir(f"{root}/x")
    disk.remove(f"{root}/nothing")
    disk.remove_tree(f"{root}/nothing")
    disk.remove_tree(f"{root}/z")
    assert disk.list_dir(root) == []


def test_a_small_file_is_replaced_whole(disk: Disk, root: str) -> None:
    for data in (b"one", b"two, longer", b""):
        disk.write_atomic(f"{root}/f", data)
        assert disk.read(f"{root}/f") == data
    assert disk.list_dir(root) == ["f"]
    assert disk.free_bytes(root) > 0
    disk.sync_dir(root)


def test_a_large_small_file_is_read_whole(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    for size in (0, 65_535, 65_536, 65_537, 300_000):
        (tmp_path / "f").write_bytes(data[:size])
        assert RealDisk().read(str(tmp_path / "f")) == data[:size]


def test_a_short_write_goes_on_until_all_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stingy(fd: int, buffers: Sequence[bytes], offset: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:3], offset)

    file = RealDisk().open(str(tmp_path / "f"), create=True)
    monkeypatch.setattr(os, "pwritev", stingy)
    assert file.pwrite((b"abcd", b"efgh"), 1) == 8
    assert file.pread(20, 0) == b"\0abcdefgh"


def test_more_buffers_than_the_system_takes_at_once_are_written_all_the_same(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    assert file.pwrite([b"%04d" % number for number in range(3000)], 0) == 12_000
    assert file.pread(4, 11_996) == b"2999"


def test_a_lock_is_held_until_it_is_given_back(tmp_path: Path) -> None:
    one, other = RealDisk(), RealDisk()
    path = str(tmp_path / ".lock")
    assert one.lock(path)
    assert one.lock(path)
    assert not other.lock(path)
    one.unlock(path)
    assert other.lock(path)
