"""Two snapshots of the metadata at one node at once: its own, which a slow disk still writes, and a newer one that it
had to fetch, because the leader's log no longer reaches back to where this node was.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.kraft.batches import is_whole
from moldau.quorum import OffsetAndEpoch
from moldau.storage.errors import BrokenFile, LostRecords
from tests.packages.broker.quorum_members import LoopbackQuorum, QuorumMember, on_loop


class SlowDisk:
    """Node 2's: what it writes of its own snapshot waits for ``taken``, the name of a fetched one for ``fetched``."""

    def __init__(self, member: QuorumMember) -> None:
        assert member.plane._driver is not None
        self.executor = member.plane._driver.executor
        self.files = self.executor.files
        self.own: OffsetAndEpoch | None = None
        self.begun, self.taken, self.fetched = threading.Event(), threading.Event(), threading.Event()
        self._write, self._freeze = self.files.write_part, self.files.freeze
        self.files.write_part = self._slow_write  # type: ignore[method-assign]
        self.files.freeze = self._slow_freeze  # type: ignore[method-assign]

    def _slow_write(self, point: OffsetAndEpoch, batches: Any) -> None:
        self._write(point, batches)
        if self.own is None:
            self.own = point
            self.begun.set()
            assert self.taken.wait(60)

    def _slow_freeze(self, point: OffsetAndEpoch) -> None:
        assert point == self.own or self.fetched.wait(60)
        self._freeze(point)


async def fallen_behind(quorum: LoopbackQuorum) -> tuple[SlowDisk, Callable[[], bool]]:
    """Node 2 writes a snapshot, and fetches a newer one meanwhile; whether it installs that one by now."""
    await quorum.start(1, 2)
    follower = quorum.members[2]
    await quorum.until(lambda: follower.plane._driver is not None, "node 2")
    disk = SlowDisk(follower)
    number = 0
    while not disk.begun.is_set():
        await quorum.write(f"before-{number}")
        number += 1
    ask = follower.ask

    async def unreachable(*args: Any) -> None:
        raise ConnectionError("cut off")

    follower.ask = unreachable  # type: ignore[method-assign, assignment]  # a method with names of its own
    leader, behind = quorum.members[1].plane._driver, follower.plane._driver
    assert leader is not None
    assert behind is not None
    number = 0
    while leader.quorum.log.start <= behind.quorum.log.end:
        await quorum.write(f"meanwhile-{number}")
        number += 1
    follower.ask = ask  # type: ignore[method-assign]
    assert disk.own is not None
    own = disk.own.offset
    return disk, lambda: (newest := behind.quorum.log.snapshot) is not None and newest.offset > own


@pytest.mark.parametrize("first", ["its own", "the fetched one"])
@on_loop
async def test_a_snapshot_is_fetched_while_an_older_one_is_still_written(tmp_path: Path, first: str) -> None:
    quorum = LoopbackQuorum(
        tmp_path, (1,), metadata_log_max_record_bytes_between_snapshots=500, metadata_max_retention_bytes=2000
    )
    disk, installs = await fallen_behind(quorum)
    told = quorum.members[2].listener.told
    if first == "its own":
        await quorum.until(installs, "a fetched snapshot that the disk has not yet")
        disk.taken.set()
        await quorum.until(lambda: not disk.executor._snapshotting, "its own snapshot")
        disk.fetched.set()
    else:
        disk.fetched.set()
        await quorum.until(lambda: any(one.startswith("snapshot") for one in told), "the fetched snapshot")
        disk.taken.set()
    await quorum.write("after")
    await quorum.until(lambda: "after" in quorum.members[2].listener.names, "the last name at node 2")
    await quorum.until(lambda: not disk.executor._snapshotting, "its own snapshot")
    assert sorted(quorum.members[2].listener.names) == sorted(quorum.members[1].listener.names)
    quorum.kill(2)
    folder = tmp_path / "2" / "__cluster_metadata-0"
    assert all(is_whole(path.read_bytes()) for path in folder.glob("*.checkpoint"))
    await quorum.start(2)
    await quorum.write("again")
    await quorum.until(lambda: "again" in quorum.members[2].listener.names, "the last name after a start")
    await quorum.until(lambda: not list(folder.glob("*.part")), "what was begun before is removed")
    await quorum.stop()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def rotten(path: Path) -> None:
    """One bit in the middle: every length is as it was, and a name is another."""
    data = bytearray(path.read_bytes())
    data[data.index(b"topic-5")] ^= 0x01
    path.write_bytes(data)


def snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.checkpoint"))


async def lived(folder: Path, *, keep: int) -> tuple[LoopbackQuorum, Path]:
    """A controller that has been alone with 60 topics, took snapshots meanwhile, and is dead; ``keep``: bytes of its
    log."""
    quorum = LoopbackQuorum(
        folder, (1,), metadata_log_max_record_bytes_between_snapshots=1000, metadata_max_retention_bytes=keep
    )
    await quorum.start(1)
    await quorum.write("topic-5")
    taken = folder / "1" / "__cluster_metadata-0"
    for number in range(60):
        await quorum.write(f"more-{number}")
    await quorum.until(lambda: len(snapshots(taken)) > 1, "two snapshots")
    executor = quorum.members[1].plane._driver.executor  # type: ignore[union-attr]
    await quorum.until(lambda: not executor._snapshotting, "the last snapshot")
    quorum.kill(1)
    return quorum, taken


@pytest.mark.parametrize("which", ["the newest", "the oldest", "all"])
@pytest.mark.parametrize("harm", [emptied, cut, rotten])
@on_loop
async def test_a_damaged_snapshot_is_set_aside_and_the_metadata_is_what_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None], which: str
) -> None:
    """An older one that was damaged too ended every start with an assertion; a bit that rotted was believed."""
    quorum, folder = await lived(tmp_path, keep=1 << 30)
    found = snapshots(folder)
    harmed = {"the newest": found[-1:], "the oldest": found[:1], "all": found}[which]
    for path in harmed:
        harm(path)
    with caplog.at_level(logging.WARNING):
        await quorum.start(1)
        await quorum.write("after")
    assert sorted(quorum.members[1].listener.names) == sorted(["topic-5", "after", *(f"more-{n}" for n in range(60))])
    for path in harmed:
        assert any(str(path) in record.getMessage() for record in caplog.records)
        assert path.with_name(path.name + ".damaged").exists()
    await quorum.stop()


@on_loop
async def test_a_log_that_needs_a_damaged_snapshot_ends_the_start_and_names_both(tmp_path: Path) -> None:
    quorum, folder = await lived(tmp_path, keep=1)
    for path in snapshots(folder):
        rotten(path)
    with pytest.raises(LostRecords, match=str(folder)):
        await quorum.start(1)


@on_loop
async def test_a_damaged_first_checkpoint_ends_the_start_and_is_named(tmp_path: Path) -> None:
    """It may hold the voters; it was removed without a word."""
    quorum, folder = await lived(tmp_path, keep=1 << 30)
    first = folder / "00000000000000000000-0000000000.checkpoint"
    first.write_bytes(b"")
    with pytest.raises(BrokenFile, match=str(first)):
        await quorum.start(1)
    assert first.exists()


@on_loop
async def test_a_controller_without_space_for_a_snapshot_goes_on_and_takes_one_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It stopped, and so did all of them: their snapshots are due at the same record."""
    quorum = LoopbackQuorum(tmp_path, (1,), metadata_log_max_record_bytes_between_snapshots=500)
    await quorum.start(1)
    files = quorum.members[1].plane._driver.executor.files  # type: ignore[union-attr]
    write, full = files.write_part, threading.Event()

    def without_space(point: OffsetAndEpoch, batches: Any) -> None:
        write(point, iter(list(batches)[:1]))
        full.set()
        raise OSError(errno.ENOSPC, "No space left on device", files.snapshot_path(point))

    files.write_part = without_space  # type: ignore[method-assign]
    number = 0
    while not full.is_set():
        await quorum.write(f"topic-{number}")
        number += 1
    folder = tmp_path / "1" / "__cluster_metadata-0"
    await quorum.until(lambda: any("No space left" in one.getMessage() for one in caplog.records), "it is told")
    await quorum.until(lambda: not list(folder.glob("*.part")), "what was begun is removed")
    files.write_part = write  # type: ignore[method-assign]
    while not snapshots(folder):
        await quorum.write(f"topic-{number}")
        number += 1
    assert all(is_whole(path.read_bytes()) for path in snapshots(folder))
    await quorum.stop()


@on_loop
async def test_a_snapshot_that_was_damaged_on_its_way_is_not_installed(tmp_path: Path) -> None:
    quorum = LoopbackQuorum(
        tmp_path, (1,), metadata_log_max_record_bytes_between_snapshots=1000, metadata_max_retention_bytes=1
    )
    await quorum.start(1)
    await quorum.write("topic-5")
    leader = quorum.members[1].plane._driver
    assert leader is not None
    number = 0
    while not leader.quorum.log.start:
        await quorum.write(f"more-{number}")
        number += 1
    await quorum.until(lambda: not leader.executor._snapshotting, "the last snapshot, which is the one to be fetched")
    for path in snapshots(tmp_path / "1" / "__cluster_metadata-0"):
        rotten(path)
    await quorum.start(2)
    with pytest.raises(AssertionError, match="was fetched and is damaged"):
        await quorum.until(lambda: False, "node 2 gives up")
    assert all(isinstance(error, BrokenFile) and ".checkpoint" in str(error) for error in quorum.failures)
    assert not quorum.members[2].listener.names
    assert not snapshots(tmp_path / "2" / "__cluster_metadata-0")
