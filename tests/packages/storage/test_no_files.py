"""What stands where a file of a partition belongs and is none: it is named, put aside, and the file is made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.replication.epochs import EpochTable
from moldau.storage.checkpoints import parse_epochs
from moldau.storage.names import EPOCHS
from tests.packages.storage.test_damage import HARM, NOW_MS, OLD_MS, World, read
from tests.packages.storage.test_log import P, batch

NO_FILES = ("a folder", "a pipe", "a device", "a terabyte of nothing", "a link to itself")
MADE_AGAIN: dict[str, Callable[[Path], Path]] = {
    "an index": lambda data: sorted(data.glob("t-0/*.index"))[2],
    "the active index": lambda data: sorted(data.glob("t-0/*.index"))[-1],
    "a time index": lambda data: sorted(data.glob("t-0/*.timeindex"))[0],
    "a producer snapshot": lambda data: sorted(data.glob("t-0/*.snapshot"))[-1],
    "the epochs": lambda data: data / "t-0" / EPOCHS,
    "the topic id": lambda data: data / "t-0/partition.metadata",
}


@pytest.mark.parametrize("when", ["running", "stopped", "killed"])
@pytest.mark.parametrize("file", MADE_AGAIN)
@pytest.mark.parametrize("harm", NO_FILES)
def test_what_is_no_file_is_put_aside_and_the_log_goes_on(tmp_path: Path, harm: str, file: str, when: str) -> None:
    world = World(tmp_path)
    world.fill()
    world.dirs.checkpoint()
    world.dirs.close()
    if when != "stopped":
        world.start()
        world.dirs.logs[P].append_leader(batch(2, timestamp=NOW_MS), 3, NOW_MS)
    world.told.clear()
    victim = MADE_AGAIN[file](tmp_path)
    HARM[harm](victim)
    if when != "running":
        world.start()
    for _ in range(2):
        log = world.dirs.logs[P]
        assert read(log) == list(range(log.log_start_offset, log.log_end_offset))
        for stamp in (0, OLD_MS, NOW_MS, NOW_MS + 5):
            log.offset_for_timestamp(stamp)
        log.append_leader(batch(2, timestamp=NOW_MS), log.epochs.latest + 1, NOW_MS)
        log.flush()
        assert log.recovery_point == log.log_end_offset
        log.roll(now_ms=NOW_MS)
        log.append_leader(batch(2, timestamp=NOW_MS), log.epochs.latest, NOW_MS)
        log.truncate_to(log.log_end_offset - 3)
        log.append_leader(batch(2, timestamp=NOW_MS), log.epochs.latest + 1, NOW_MS)
        world.live()
        world.is_innocent()
        world.dirs.close(5)
        world.start()
        assert world.dirs.previous_broker_epoch == 5, world.told
    if when != "running" and not (harm == "a terabyte of nothing" and "index" in file):  # it only has no entries
        assert [sentence for sentence in world.told if str(victim) in sentence], world.told
    assert len(world.told) < 8, world.told


# -- leader epochs


WRONG_EPOCHS = {
    "a huge epoch": b"0\n2\n0 0\n2000000000 40\n",
    "no order": b"0\n3\n0 0\n2 40\n1 20\n",
    "starts without order": b"0\n3\n0 0\n1 40\n2 20\n",
    "an epoch too few": b"0\n2\n0 0\n1 20\n",
    "an epoch twice": b"0\n3\n0 0\n0 20\n2 40\n",
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("rolled", [True, False])
@pytest.mark.parametrize("wrong", WRONG_EPOCHS)
def test_epochs_that_the_log_contradicts_are_read_from_it_again(
    tmp_path: Path, wrong: str, rolled: bool, flushed: bool, clean: bool
) -> None:
    """A follower that tells a leader an epoch from the future never gets back into the ISR, and a controller on
    ZooKeeper raises the epochs of all partitions above it. With a last segment that is empty (``rolled``) the damage
    was believed."""
    world = World(tmp_path)
    world.fill()
    if rolled:
        world.dirs.logs[P].roll(now_ms=NOW_MS)
    if flushed:
        world.dirs.logs[P].flush()
    world.dirs.checkpoint()
    if clean:
        world.dirs.close()
    (tmp_path / "t-0" / EPOCHS).write_bytes(WRONG_EPOCHS[wrong])
    world.told.clear()
    world.start()
    log = world.dirs.logs[P]
    assert read(log) == list(range(60)), "no record is cut for it"
    assert log.epochs.entries() == [(0, 0), (1, 20), (2, 40)]
    if clean or flushed:
        assert any(EPOCHS in sentence for sentence in world.told), world.told
    world.dirs.close()
    stored = (tmp_path / "t-0" / EPOCHS).read_bytes()
    assert EpochTable(parse_epochs(stored, "")).entries() == [(0, 0), (1, 20), (2, 40)]
