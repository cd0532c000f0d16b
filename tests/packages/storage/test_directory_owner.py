"""Whose a log directory is: what of its meta.properties cannot be read costs that directory, and the others serve."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.runtime.disk import RealDisk
from moldau.storage import DirOffline, LogDirs

CLUSTER, NODE = "cluster", 1


def claimed(*paths: Path) -> LogDirs:
    for path in paths:
        path.mkdir(exist_ok=True)
    dirs = LogDirs(RealDisk(), [str(path) for path in paths])
    dirs.claim(CLUSTER, NODE)
    return dirs


@pytest.mark.parametrize(
    "damage",
    [b"", b"\x00\xff\xfe", b"cluster.id=cluster\nnode.id=one\nversion=1\n", b"cluster.id=cluster\n", None],
    ids=["empty", "no text", "no number", "half", "a folder"],
)
def test_a_directory_that_does_not_say_whose_it_is_is_offline_and_the_others_serve(
    tmp_path: Path, damage: bytes | None
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.mkdir()
        (path / "meta.properties").write_text(f"cluster.id={CLUSTER}\nbroker.id={NODE}\nversion=0\n")
    meta = two / "meta.properties"
    meta.unlink()
    if damage is None:
        meta.mkdir()
    else:
        meta.write_bytes(damage)
    dirs = claimed(one, two)
    assert [dir.path for dir in dirs.online] == [str(one)]
    assert [dir.path for dir in dirs.offline] == [str(two)]
    assert "meta.properties" in str(dirs.offline[0].offline) or damage is None
    assert damage is None or meta.read_bytes() == damage


def test_a_broker_of_which_no_directory_says_whose_it_is_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"\xff")
    with pytest.raises(DirOffline, match=r"meta\.properties"):
        claimed(tmp_path)


def by_an_empty_one(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.mkdir()


def by_a_copy(path: Path) -> None:
    path.rename(path.with_name("away"))
    shutil.copytree(path.with_name("away"), path)


def by_an_empty_one_while_the_first_is_removed(path: Path) -> None:
    """The file system may give the new folder the number of the old one."""
    shutil.rmtree(path)
    path.mkdir()


@pytest.mark.parametrize("replace", [by_an_empty_one, by_a_copy, by_an_empty_one_while_the_first_is_removed])
def test_a_directory_that_was_replaced_is_not_taken_for_itself(tmp_path: Path, replace: Callable[[Path], None]) -> None:
    """A file system that is unmounted leaves an empty folder. The probe made its file there and found all well."""
    one, two = tmp_path / "one", tmp_path / "two"
    dirs = claimed(one, two)
    for dir in dirs.dirs:
        dir.touch()
    replace(two)
    dirs.dirs[0].touch()
    with pytest.raises(OSError, match="another folder") as caught:
        dirs.dirs[1].touch()
    assert caught.value.errno == errno.ESTALE
    assert not (two / ".lock").exists() or replace is by_a_copy
    missing = FileNotFoundError(errno.ENOENT, "no such file", f"{two}/t-0/1.log")
    assert isinstance(dirs.dirs[1].judge(missing), DirOffline)
    assert not isinstance(dirs.dirs[0].judge(missing), DirOffline)
