"""One log on a real disk: what is appended is read back, rolled, truncated, and found again by the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.model import Code, TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage import Log, LogConfig, LogDirs, OffsetOutOfRange, truncation
from moldau.storage.log_validator import Appended
from moldau.storage.producer_state import load_producers
from moldau.wire.batch import build, headers

P = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
SMALL = LogConfig(internal_segment_bytes=2000)


def batch(count: int = 3, *, timestamp: int = 1000, size: int = 100, **stamps: Any) -> bytearray:
    """A batch of ``count`` records of ``size`` bytes each."""
    return bytearray(build([(timestamp + i, b"k%d" % i, bytes(size), []) for i in range(count)], **stamps))


def fresh(path: Path, config: LogConfig = SMALL) -> tuple[LogDirs, Log]:
    dirs = LogDirs(RealDisk(), [str(path)])
    dirs.load(lambda _: config)
    return dirs, dirs.create(P, TOPIC_ID, config)


def again(path: Path, config: LogConfig = SMALL) -> tuple[LogDirs, Log]:
    dirs = LogDirs(RealDisk(), [str(path)])
    dirs.load(lambda _: config)
    return dirs, dirs.logs[P]


def offsets(log: Log) -> list[int]:
    """Base offsets of every batch, read as a follower reads them."""
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000)
        assert data, f"nothing at {offset}"
        for _, header in headers(data):
            if header.next_offset > offset:
                found.append(header.base_offset)
        offset = header.next_offset
    return found


def check_files(log: Log) -> None:
    """Segments follow each other without overlap, and every index entry names a batch by its last offset."""
    for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True):
        ends = {position: header.last_offset for position, header in segment.walk(0)}
        assert not ends or max(ends.values()) < (log.log_end_offset if following is None else following.base_offset)
        index = segment.index
        for offset, position in zip(index.offsets, index.positions, strict=True):
            assert ends.get(position) == segment.base_offset + offset, f"{segment.path()} has a wrong index entry"
        for timestamp, offset in zip(index.times, index.time_offsets, strict=True):
            stamps = [h.max_timestamp for _, h in segment.walk(0) if h.last_offset <= segment.base_offset + offset]
            assert max(stamps) == timestamp, f"{segment.path()} has a wrong time index entry"


def test_what_is_appended_is_read_back_with_offsets_and_epoch(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    assert log.append_leader(batch(3), 5, 0)[:3] == (Code.NONE, 0, 2)
    assert log.append_leader(batch(2), 5, 0)[:3] == (Code.NONE, 3, 4)
    read = [header for _, header in headers(log.read(0, 1 << 20))]
    assert [(h.base_offset, h.leader_epoch, h.count) for h in read] == [(0, 5, 3), (3, 5, 2)]
    assert log.log_end_offset == 5
    assert log.epochs.entries() == [(5, 0)]


def test_a_log_rolls_by_size_and_is_read_across_segments(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    for _ in range(40):
        log.append_leader(batch(3), 0, 0)
    assert len(log.segments) > 5
    assert offsets(log) == list(range(0, 120, 3))


def test_reads_keep_to_their_limits(tmp_path: Path) -> None:
    _, log = fresh(tmp_path, LogConfig())
    size = len(batch(3))
    for _ in range(10):
        log.append_leader(batch(3), 0, 0)
    assert len(log.read(0, size * 2 + 5)) <= size * 2
    assert len(log.read(0, 10)) == size
    assert log.read(0, 10, at_least_one=False) == b""
    assert len(log.read(3, 1 << 20, up_to=9)) == size * 2
    assert log.read(9, 1 << 20, up_to=9) == b""
    assert log.read(30, 100) == b""
    for bad in (-1, 31):
        with pytest.raises(OffsetOutOfRange):
            log.read(bad, 100)


def test_truncation_cuts_the_tail_and_its_epochs_and_the_log_goes_on(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    for epoch in range(20):
        log.append_leader(batch(3), epoch, 0)
    assert log.truncate_to(30)
    assert log.log_end_offset == 30
    assert log.epochs.latest == 9
    log.append_leader(batch(3), 50, 0)
    assert offsets(log) == list(range(0, 33, 3))
    assert not log.truncate_to(33)


@pytest.mark.parametrize("pause", range(4))
def test_what_is_appended_while_producers_are_read_again_after_a_cut_is_known_of_them(
    tmp_path: Path, pause: int
) -> None:
    def next_of(log: Log, producer: int) -> bytearray:
        where = {"base_offset": log.log_end_offset, "leader_epoch": 0}
        return batch(1, producer_id=producer, producer_epoch=0, base_sequence=log.log_end_offset, **where)

    _, log = fresh(tmp_path)
    for _ in range(6):
        assert log.append_follower(next_of(log, 7)).code is Code.NONE
    log.dir.on_cut = lambda: None
    log.truncate_to(4)
    assert log.known_producers is None
    for number, _ in enumerate(truncation.restore_in_slices(log)):
        if number == pause:
            assert log.append_follower(next_of(log, 7)).code is Code.NONE
            assert log.append_follower(next_of(log, 8)).code is Code.NONE
    known = log.producers
    whole = load_producers(log.folder, log.segments, log.log_end_offset)
    assert known.end_offset == log.log_end_offset
    assert {id: one.batches for id, one in known} == {id: one.batches for id, one in whole}


def test_truncation_that_cuts_no_record_still_forgets_an_epoch_that_has_none(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    log.append_leader(batch(), 1, 0)
    log.assign_epoch(2, log.log_end_offset)  # it was elected, and deposed before it could append
    assert not log.truncate_to(log.log_end_offset)
    assert log.epochs.latest == 1
    log.flush()
    assert again(tmp_path)[1].epochs.latest == 1


def test_a_clean_stop_is_found_again_without_recovery(tmp_path: Path) -> None:
    dirs, log = fresh(tmp_path)
    for epoch in range(20):
        log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=3 * epoch), epoch, 0)
    log.high_watermark = 45
    dirs.close(broker_epoch=9)
    dirs, log = again(tmp_path)
    assert dirs.findings == []
    assert dirs.previous_broker_epoch == 9
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (60, 60, 45)
    assert log.topic_id == TOPIC_ID
    assert log.epochs.entries() == [(epoch, 3 * epoch) for epoch in range(20)]
    assert offsets(log) == list(range(0, 60, 3))
    again_sent = log.append_leader(batch(3, producer_id=7, producer_epoch=0, base_sequence=57), 19, 0)
    assert again_sent.duplicate
    assert (again_sent.first_offset, again_sent.last_offset) == (57, 59)


def test_a_torn_tail_is_cut_and_the_rest_survives(tmp_path: Path) -> None:
    _, log = fresh(tmp_path, LogConfig())
    for _ in range(5):
        log.append_leader(batch(3), 2, 0)
    file = tmp_path / "t-0" / f"{0:020d}.log"
    file.write_bytes(file.read_bytes() + bytes(batch(3))[:100])
    dirs, log = again(tmp_path)
    assert log.log_end_offset == 15
    assert offsets(log) == [0, 3, 6, 9, 12]
    assert log.epochs.entries() == [(2, 0)]
    assert "cut" in dirs.findings[0]


def test_a_follower_takes_batches_as_they_are(tmp_path: Path) -> None:
    _, leader = fresh(tmp_path / "a")
    _, follower = fresh(tmp_path / "b")
    for epoch in range(6):
        leader.append_leader(batch(3), epoch, 0)
    data = leader.read(0, 1 << 20)
    assert follower.append_follower(data + data[:50]).last_offset == leader.read(0, 1 << 20).count(b"k0") * 3 - 1
    assert follower.read(0, 1 << 20) == data
    assert follower.append_follower(data).code is Code.OFFSET_OUT_OF_RANGE
    broken = bytearray(leader.read(follower.log_end_offset, 1 << 20))
    broken[-1] ^= 1
    assert follower.append_follower(broken).code is Code.CORRUPT_MESSAGE


def test_a_follower_leaves_out_what_is_of_a_later_epoch_than_its_leaders(tmp_path: Path) -> None:
    _, leader = fresh(tmp_path / "a")
    _, follower = fresh(tmp_path / "b")
    for epoch in (3, 4, 5):
        leader.append_leader(batch(3), epoch, 0)
    data = leader.read(0, 1 << 20)
    assert follower.append_follower(data, 0, 4).last_offset == 5
    assert follower.epochs.entries() == [(3, 0), (4, 3)]
    assert follower.append_follower(data[2 * len(data) // 3 :], 0, 4) == Appended(Code.NONE, log_start_offset=0)
    assert follower.log_end_offset == 6
