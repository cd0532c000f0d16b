"""Two snapshots of the metadata at one node at once: its own, which a slow disk still writes, and a newer one that it
had to fetch, because the leader's log no longer reaches back to where this node was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.quorum.batches import is_whole
from moldau.quorum import OffsetAndEpoch
from tests.rooms.broker.quorum_seats import Seat, SeatedQuorum, on_loop


class SlowDisk:
    """Node 2's: what it writes of its own snapshot waits for ``taken``, the name of a fetched one for ``fetched``."""

    def __init__(self, seat: Seat) -> None:
        assert seat.plane._driver is not None
        self.deeds = seat.plane._driver.deeds
        self.files = self.deeds.files
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


async def fallen_behind(quorum: SeatedQuorum) -> tuple[SlowDisk, Callable[[], bool]]:
    """Node 2 writes a snapshot, and fetches a newer one meanwhile; whether it installs that one by now."""
    await quorum.start(1, 2)
    follower = quorum.seats[2]
    await quorum.until(lambda: follower.plane._driver is not None, "node 2")
    disk = SlowDisk(follower)
    number = 0
    while not disk.begun.is_set():
        await quorum.write(f"before-{number}")
        number += 1
    ask = follower.ask

    async def unreachable(*args: Any) -> None:
        raise ConnectionError("cut off")

    follower.ask = unreachable  # type: ignore[method-assign]
    leader, behind = quorum.seats[1].plane._driver, follower.plane._driver
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
    quorum = SeatedQuorum(
        tmp_path, (1,), metadata_log_max_record_bytes_between_snapshots=500, metadata_max_retention_bytes=2000
    )
    disk, installs = await fallen_behind(quorum)
    told = quorum.seats[2].listener.told
    if first == "its own":
        await quorum.until(installs, "a fetched snapshot that the disk has not yet")
        disk.taken.set()
        await quorum.until(lambda: not disk.deeds._snapshotting, "its own snapshot")
        disk.fetched.set()
    else:
        disk.fetched.set()
        await quorum.until(lambda: any(one.startswith("snapshot") for one in told), "the fetched snapshot")
        disk.taken.set()
    await quorum.write("after")
    await quorum.until(lambda: "after" in quorum.seats[2].listener.names, "the last name at node 2")
    await quorum.until(lambda: not disk.deeds._snapshotting, "its own snapshot")
    assert sorted(quorum.seats[2].listener.names) == sorted(quorum.seats[1].listener.names)
    quorum.kill(2)
    folder = tmp_path / "2" / "__cluster_metadata-0"
    assert all(is_whole(path.read_bytes()) for path in folder.glob("*.checkpoint"))
    await quorum.start(2)
    await quorum.write("again")
    await quorum.until(lambda: "again" in quorum.seats[2].listener.names, "the last name after a start")
    assert not list(folder.glob("*.part"))
    await quorum.stop()
