"""The metadata log's folder removed or moved away under a node that runs: the log says so, and what to do.

The node went on through its open files: it voted, and counted for majorities, with records that no start would have
found, and doctor said that all is well.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.broker.config.storage_format import METADATA_FOLDER
from moldau.broker.kraft import watch
from tests.packages.broker.quorum_members import LoopbackQuorum, on_loop

GONE = "[Quorum id=2] the metadata log of this node would not be found by its next start"
AGAIN = "[Quorum id=2] the metadata log stands in"


def removed(folder: Path) -> None:
    shutil.rmtree(folder / METADATA_FOLDER)


def emptied(folder: Path) -> None:
    for file in (folder / METADATA_FOLDER).iterdir():
        file.unlink()


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def unmounted(folder: Path) -> None:
    moved(folder)
    folder.mkdir()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "CHECK_MS", 10)


@pytest.mark.parametrize("change", [removed, emptied, moved, unmounted])
@on_loop
async def test_a_voter_whose_metadata_folder_is_gone_says_so_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[[Path], None]
) -> None:
    caplog.set_level("INFO", watch.__name__)
    # No election on a slow machine: a vote is written by name, and would end the node.
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3), controller_quorum_fetch_timeout_ms=60_000)
    await quorum.start(1, 2, 3)
    await quorum.write("before")
    driver = quorum.members[2].plane._driver
    assert driver is not None
    log = driver.executor.log
    # A majority may have it before this one: its first flush makes files by name, and would end the node.
    await quorum.until(lambda: log.log_end_offset == log.recovery_point > 1, "it has flushed what is committed")
    change(tmp_path / "2")
    await quorum.until(lambda: GONE in caplog.text, "it is told")
    assert driver.missing_log
    await quorum.write("after")
    assert caplog.text.count(GONE) == 1
    assert not quorum.failures
    if change is unmounted:
        shutil.rmtree(tmp_path / "2")  # the note of what is committed may be in it by now
    if change in (moved, unmounted):
        (tmp_path / "elsewhere").rename(tmp_path / "2")
        await quorum.until(lambda: AGAIN in caplog.text, "it is back")
        assert not driver.missing_log
        await quorum.stop()
    else:
        quorum.kill(2)  # it could not close what is not there
        await quorum.start(2)
        await quorum.until(lambda: "after" in quorum.members[2].listener.names, "it has fetched all of it anew")
        await quorum.stop()


@on_loop
async def test_a_voter_that_rolls_its_segments_and_takes_snapshots_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small = {"internal_metadata_log_segment_bytes": 512, "metadata_max_retention_bytes": 1024}
    quorum = LoopbackQuorum(tmp_path, (1, 2, 3), metadata_log_max_record_bytes_between_snapshots=512, **small)
    await quorum.start(1, 2, 3)
    for number in range(200):
        await quorum.write(f"topic-{number}")
    assert list((tmp_path / "2" / METADATA_FOLDER).glob("*.checkpoint"))
    assert "would not be found" not in caplog.text
    assert not quorum.failures
    await quorum.stop()
