"""Bytes that rot in a segment of a running node: who asks for the same batch again makes the broker look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model import Code
from moldau.runtime.disk import RealDisk
from moldau.storage import Log, LogConfig, LogDirs
from moldau.storage.checked_reads import REPEATED_MAX
from moldau.storage.errors import CorruptLog
from moldau.wire.batch import build, headers
from tests.packages.storage.test_log import SMALL, TOPIC_ID, P, batch

MOST = 1 << 16


def read(log: Log, offset: int, times: int) -> set[bytes]:
    """What so many reads of the same place return."""
    return {bytes(log.slice(offset, MOST, up_to=None, at_least_one=True)) for _ in range(times)}


def written(folder: Path) -> tuple[Log, bytes]:
    """A log of two segments, and what stands in the first."""
    dirs = LogDirs(RealDisk(), [str(folder)])
    dirs.claim("c", 1)
    dirs.load(lambda _: SMALL)
    log = dirs.create(P, TOPIC_ID, SMALL)
    for _ in range(3):
        log.append_leader(batch(1), 1, 0)
    log.roll()
    log.append_leader(batch(1), 1, 0)
    return log, bytes(log.slice(0, MOST, up_to=None, at_least_one=True))


def rot(log: Log, number: int) -> None:
    """Turn a bit of the last byte of a segment."""
    path = Path(log.segments[number].path())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_batch_that_rotted_in_a_closed_segment_is_found_when_it_is_asked_for_again(tmp_path: Path) -> None:
    log, sound = written(tmp_path)
    log.segments[0].close()  # as when other files were in use
    assert read(log, 0, 3) == {sound}, "asked for again, and sound"
    rot(log, 0)
    with pytest.raises(CorruptLog, match="checksum"):
        read(log, 0, 2)


def test_a_batch_that_rotted_just_after_it_was_written_is_found_by_a_reader_that_insists(tmp_path: Path) -> None:
    log, _ = written(tmp_path)
    first = log.active.base_offset
    read(log, first, 1)
    rot(log, 1)
    with pytest.raises(CorruptLog, match="checksum"):
        read(log, first, REPEATED_MAX)


def test_what_was_written_after_what_rotted_is_read(tmp_path: Path) -> None:
    log, _ = written(tmp_path)
    log.segments[0].close()
    rot(log, 0)
    first = log.active.base_offset
    assert len(read(log, first, REPEATED_MAX + 1)) == 1


def test_what_was_looked_at_is_sent_by_its_name_and_holds_no_memory(tmp_path: Path) -> None:
    """A thousand clients that asked for bytes of before a restart, and read nothing, held a megabyte each."""
    config = LogConfig()
    dirs = LogDirs(RealDisk(), [str(tmp_path)])
    dirs.load(lambda _: config)
    log = dirs.create(P, TOPIC_ID, config)
    for _ in range(4):
        assert log.append_leader(bytearray(build([(0, b"k", bytes(50_000), ())])), 0, 0).code is Code.NONE
    dirs.close()
    dirs = LogDirs(RealDisk(), [str(tmp_path)])
    dirs.load(lambda _: config)
    log = dirs.logs[P]
    found = log.slice(0, 1 << 20, up_to=None, at_least_one=True)
    assert not isinstance(found, bytes)
    assert found.was_read, "it counts as work"
    assert [header.base_offset for _, header in headers(bytes(found))] == [0, 1, 2, 3]
    dirs.close()
