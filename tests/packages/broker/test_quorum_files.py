"""What a start finds among the snapshots of the metadata log: what is none costs nobody the start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.broker.kraft.files import QuorumFiles
from moldau.quorum import OffsetAndEpoch
from moldau.runtime.disk import RealDisk

SNAPSHOT = "00000000000000000050-0000000001.checkpoint"


def large(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 31)


@pytest.mark.parametrize(
    "made",
    [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name), large],
    ids=["folder", "pipe", "link", "large"],
)
def test_what_stands_in_the_place_of_a_snapshot_is_named_so_and_put_aside(
    made: Callable[[Path], object], tmp_path: Path
) -> None:
    """It ended every start of the node, though an older snapshot or the log said the same."""
    made(tmp_path / SNAPSHOT)
    files = QuorumFiles(RealDisk(), str(tmp_path))
    whole, [finding] = files.tidy()
    assert whole == []
    assert finding == f"{tmp_path / SNAPSHOT} is damaged and not used; it is called ....damaged now"
    assert os.listdir(tmp_path) == [f"{SNAPSHOT}.damaged"]
    assert files.snapshots() == []


def test_what_stands_in_the_place_of_the_first_snapshot_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000-0000000000.checkpoint").mkdir()
    files = QuorumFiles(RealDisk(), str(tmp_path))
    with pytest.raises(OSError, match="not a regular file"):
        files.tidy()
    assert files.snapshots() == [OffsetAndEpoch(0, 0)]


def test_a_folder_that_is_called_like_half_a_snapshot_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / f"{SNAPSHOT}.part").mkdir()
    _, [finding] = QuorumFiles(RealDisk(), str(tmp_path)).tidy()
    assert finding.endswith(f"it is called {tmp_path / SNAPSHOT}.part.1.aside now")
