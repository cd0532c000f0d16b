"""A log that is set aside, and another topic's of its name: ended at any step of the disk, none is lost or doubled."""

from __future__ import annotations

import contextlib
import random

import pytest

from moldau.model import Code
from moldau.simulator.ports import SimRandom
from moldau.storage import LogConfig, LogDirs
from moldau.storage.names import STRAY_FOLDER
from moldau.wire.batch import build
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P

CONFIG = LogConfig(internal_segment_bytes=700, index_interval_bytes=300, file_delete_delay_ms=10)
NEW_ID = bytes([9] * 16)
OLD, NEW = b"old" * 40, b"new" * 40


def start(disk: FaultyDisk) -> LogDirs:
    dirs = LogDirs(disk, ["/d"], random=SimRandom(random.Random(disk.ticks)))
    dirs.load(lambda _: CONFIG)
    return dirs


def fill(dirs: LogDirs, topic_id: bytes, value: bytes) -> None:
    log = dirs.create(P, topic_id, CONFIG)
    for _ in range(6):
        assert log.append_leader(bytearray(build([(0, b"k", value, [])])), 0, 0).code is Code.NONE
    log.flush()
    dirs.checkpoint()


def sync_names(dirs: LogDirs) -> None:
    for sync in dirs.name_syncs_due():
        sync.run()
        sync.finish()


def folders_with(disk: FaultyDisk, value: bytes) -> dict[str, int]:
    """How many records of this value each folder holds."""
    found: dict[str, int] = {}
    for path, inode in disk.names.items():
        if inode is not None and path.endswith(".log") and value in inode.data:
            folder = path.rpartition("/")[0]
            found[folder] = found.get(folder, 0) + bytes(inode.data).count(value)
    return found


def come_back(disk: FaultyDisk) -> tuple[str, int]:
    """A topic is deleted and made again under its name while the broker is down, and the broker comes back. What was
    done, and up to where the new log is sure to reach."""
    done = "nothing"
    with contextlib.suppress(Crash):
        dirs = start(disk)
        dirs.remove_strays({P: NEW_ID}, 0)
        sync_names(dirs)
        done = "set aside"
        fill(dirs, NEW_ID, NEW)
        done = "filled"
        dirs.close()
    return done, 6 if done == "filled" else 0


@pytest.mark.parametrize("seed", [-1, 0, 1, 2])
def test_ended_at_any_step_the_old_log_is_there_once_and_the_new_one_is_whole(seed: int) -> None:
    step, done = 0, ""
    while done != "filled" or step < most_steps():
        disk = FaultyDisk()
        dirs = start(disk)
        fill(dirs, TOPIC_ID, OLD)
        dirs.close()
        disk = disk.process_killed()
        disk.crash_at = step
        done, sure = come_back(disk)
        disk = disk.process_killed() if seed < 0 else disk.power_cut(100 * step + seed)
        again = start(disk)
        again.remove_strays({P: NEW_ID}, 0)
        ((folder, records),) = folders_with(disk, OLD).items()
        assert folder in again.strays, f"step {step}"
        assert folder.endswith(STRAY_FOLDER)
        assert records == 6
        log = again.logs.get(P)
        assert log is None or log.topic_id == NEW_ID
        assert (log.log_end_offset if log is not None else 0) >= sure
        assert not again.unusable
        step += 1


def most_steps() -> int:
    disk = FaultyDisk()
    dirs = start(disk)
    fill(dirs, TOPIC_ID, OLD)
    dirs.close()
    disk = disk.process_killed()
    come_back(disk)
    return disk.steps


def test_a_stray_that_was_given_its_name_back_is_the_log_again_after_a_kill_at_any_step() -> None:
    for step in range(40):
        disk = FaultyDisk()
        dirs = start(disk)
        fill(dirs, TOPIC_ID, OLD)
        dirs.remove_strays({}, 0)
        sync_names(dirs)
        dirs.close()
        disk = disk.process_killed()
        disk.rename(dirs.strays[0], f"/d/{P}")  # by an operator
        disk.crash_at = disk.steps + step
        with contextlib.suppress(Crash):
            dirs = start(disk)
            assert dirs.remove_strays({P: TOPIC_ID}, 0) == []
            dirs.logs[P].append_leader(bytearray(build([(0, b"k", NEW, [])])), 0, 0)
            dirs.close()
        again = start(disk.process_killed())
        assert again.remove_strays({P: TOPIC_ID}, 0) == []
        assert folders_with(disk, OLD) == {f"/d/{P}": 6}
        assert again.logs[P].log_end_offset >= 6
        assert not again.strays
