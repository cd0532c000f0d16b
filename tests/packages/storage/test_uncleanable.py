"""What compaction meets costs the log that it is met in, and nothing else: damage, extreme numbers, files that go."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model import Code, TopicPartition
from moldau.model.value import replace
from moldau.runtime.disk import RealDisk
from moldau.storage import LogConfig, LogDirs
from moldau.storage.cleanable import LONG_MAX
from moldau.storage.compaction import plan
from moldau.storage.compactions import RETRY_MAX_MS
from moldau.wire.batch import build, headers, payload
from moldau.wire.compression import MAX_OUTPUT_BYTES, Codec
from moldau.wire.crc import crc32c
from tests.packages.storage.faulty_disk import FaultyDisk, FaultyFile
from tests.packages.storage.test_cleaning import COMPACT, begin, put_in_place, read_all, settle, write
from tests.packages.storage.test_log import TOPIC_ID, P

INT64 = st.integers(-(1 << 63), LONG_MAX)
EXTREME = st.sampled_from([0, 1, LONG_MAX, LONG_MAX - 1, -1, -(1 << 63), 1 << 62]) | INT64
FIRST = "/d/t-0/00000000000000000000.log"
OTHER = TopicPartition("other", 0)


def with_stamps(data: bytes, base: int, largest: int) -> bytearray:
    """A batch under another base and largest timestamp, its checksum right."""
    raw = bytearray(data)
    struct.pack_into(">qq", raw, 27, base, largest)
    struct.pack_into(">I", raw, 17, crc32c(memoryview(raw)[21:]))
    return raw


@given(EXTREME, st.lists(st.integers(0, LONG_MAX), min_size=1, max_size=3), st.integers(0, LONG_MAX),
       st.booleans())  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_no_timestamp_and_no_horizon_ends_a_run(base: int, deltas: list[int], retention_ms: int, dies: bool) -> None:
    _, log = begin(COMPACT)
    entries = [(delta, b"k%d" % n, None if dies else b"v", []) for n, delta in enumerate([0, *deltas])]
    taken = log.append_follower(with_stamps(build(entries), base, 5))
    assert taken.code is Code.NONE
    write(log, [(b"k0", None), (b"k%d" % len(deltas), b"newer")])
    log.roll()
    log.reconfigure(LogConfig(cleanup_policy=("compact",), delete_retention_ms=retention_ms,
                              min_cleanable_dirty_ratio=0.0))  # fmt: skip
    log.flush()
    log.high_watermark = log.restart_point = log.log_end_offset
    for now_ms in (0, 1_790_000_000_000, LONG_MAX):
        compaction = plan(log, now_ms)
        if compaction is not None:
            compaction.run()
            assert compaction.error is None
            put_in_place(log, compaction, now_ms)
        log.cleaned_to = 0
    for position, header in headers(log.read(0, 1 << 20)):
        assert payload(log.read(0, 1 << 20)[position:])[0].count == header.count


def test_a_horizon_beyond_int64_is_the_last_millisecond_there_is() -> None:
    config = LogConfig(cleanup_policy=("compact",), delete_retention_ms=LONG_MAX, min_cleanable_dirty_ratio=0.0)
    dirs, log = begin(config)
    write(log, [(b"a", None)], now=1_790_000_000_000)
    log.roll()
    settle(dirs, log)
    dirs.compaction_pass(1_790_000_000_000)
    (_, header), *_ = headers(log.read(0, 1 << 20))
    assert header.delete_horizon_ms == LONG_MAX
    assert read_all(log) == [(0, b"a", None, 1_790_000_000_000)]
    assert not dirs.compactions.uncleanable


def dirty(disk: FaultyDisk | None = None) -> tuple[LogDirs, list[str]]:
    """Two dirty logs, and what is said of uncleanable ones."""
    dirs, log = begin(COMPACT, disk)
    other = dirs.create(OTHER, bytes(range(1, 17)), COMPACT)
    for one in (log, other):
        for _ in range(20):
            write(one, [(b"a", bytes(100))])
        settle(dirs, one)
    said: list[str] = []
    dirs.compactions.on_uncleanable = lambda log, reason: said.append(f"{log.partition}: {reason}")
    return dirs, said


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_what_a_leader_takes_can_be_compacted_however_small_it_was_packed(codec: Codec) -> None:
    """A kilobyte that unpacks to 30 MB was taken, called corrupt by the cleaner, and its log was compacted no more."""
    dirs, log = begin(replace(COMPACT, internal_segment_bytes=1 << 20))
    write(log, [(b"k", bytes(30 << 20))], codec=codec)
    write(log, [(b"k", b"newer")])
    log.roll()
    settle(dirs, log)
    dirs.compaction_pass(1)
    assert not dirs.compactions.uncleanable
    assert [value for _, _, value, _ in read_all(log)] == [b"newer"]


def test_no_leader_takes_what_nobody_unpacks() -> None:
    _, log = begin(LogConfig(max_message_bytes=1 << 20))
    log.reconfigure(LogConfig(max_message_bytes=1 << 30))
    data = build([(0, b"k", bytes(MAX_OUTPUT_BYTES), ())], codec=Codec.ZSTD)
    assert log.append_leader(bytearray(data), 0, 0).code is Code.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("damaged", [0, 8, 12, 16, 17, 23, 30, 57, 62, 70])
def test_whatever_byte_of_a_sealed_segment_turns_the_other_logs_are_compacted(damaged: int) -> None:
    dirs, said = dirty()
    assert isinstance(dirs.disk, FaultyDisk)
    dirs.disk.names[FIRST].data[damaged] ^= 0x40
    for look in range(10):
        dirs.compaction_pass(look)
    assert dirs.logs[OTHER].cleaned_to == dirs.logs[OTHER].active.base_offset
    if damaged != 12:  # no checksum covers the leader epoch, and compaction has no use for it
        assert dirs.logs[P].cleaned_to == -1
        assert len(said) == 1
        assert FIRST in said[0]
        assert dirs.compactions.uncleanable[P].reason in said[0]
    assert dirs.offline == []


def test_a_sealed_segment_that_cannot_be_opened_is_one_logs_trouble(tmp_path: Path) -> None:
    dirs = LogDirs(RealDisk(), [str(tmp_path)])
    dirs.load(lambda _: COMPACT)
    log = dirs.create(P, TOPIC_ID, COMPACT)
    for _ in range(20):
        write(log, [(b"a", bytes(100))])
    settle(dirs, log)
    dirs.close()
    dirs = LogDirs(RealDisk(), [str(tmp_path)])
    dirs.load(lambda _: COMPACT)
    dirs.logs[P].high_watermark = dirs.logs[P].log_end_offset
    (tmp_path / "t-0" / Path(FIRST).name).unlink()
    dirs.compaction_pass(0)
    assert Path(FIRST).name in dirs.compactions.uncleanable[P].reason
    assert dirs.offline == []


def test_no_space_for_a_compaction_is_no_reason_to_give_the_log_up() -> None:
    dirs, said = dirty()
    assert isinstance(dirs.disk, FaultyDisk)
    dirs.disk.fail_at, dirs.disk.error = dirs.disk.steps + 1, errno.ENOSPC
    dirs.compaction_pass(0)
    assert not dirs.compactions.uncleanable
    assert len(said) == 1
    for look in range(3):
        dirs.compaction_pass(look)
    assert {log.cleaned_to for log in dirs.logs.values()} == {dirs.logs[P].active.base_offset}


def test_an_uncleanable_log_is_tried_again_after_its_setting_or_its_leader_has_changed() -> None:
    dirs, said = dirty()
    assert isinstance(dirs.disk, FaultyDisk)
    log = dirs.logs[P]
    dirs.disk.names[FIRST].data[70] ^= 1
    for look in range(5):
        dirs.compaction_pass(look)
    assert len(said) == 1
    log.reconfigure(LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, retention_ms=5))
    dirs.compaction_pass(0)
    assert len(said) == 2
    log.assign_epoch(7, log.log_end_offset)
    dirs.disk.names[FIRST].data[70] ^= 1  # restored meanwhile
    dirs.compaction_pass(0)
    assert not dirs.compactions.uncleanable
    assert log.cleaned_to == log.active.base_offset


class RefusingDisk(FaultyDisk):
    """Opens no file whose path has ``refused`` in it; counts the attempts."""

    refused = ""
    refusal = errno.EACCES
    attempts = 0

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        if self.refused and self.refused in path:
            self.attempts += 1
            raise OSError(self.refusal, os.strerror(self.refusal), path)
        return super().open(path, create=create)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
def test_a_log_that_was_refused_is_tried_again_after_pauses_that_double(error: int) -> None:
    disk = RefusingDisk()
    dirs, said = dirty(disk)
    log = dirs.logs[P]
    for segment in log.segments:
        segment.close()
    disk.refused, disk.refusal = FIRST, error
    tried_s = []
    for second in range(200):
        before = disk.attempts
        for _ in dirs.logs:
            dirs.compaction_pass(1000 * second)
        if disk.attempts > before:
            tried_s.append(second)
    assert tried_s == [0, 15, 45, 105]
    assert len(said) == 1, "the same reason is told once"
    assert FIRST in said[0]
    assert dirs.compactions.counts()["/d"][0] == 1
    assert dirs.logs[OTHER].cleaned_to == dirs.logs[OTHER].active.base_offset
    disk.refused = ""
    dirs.compaction_pass(1000 * 224)
    assert log.cleaned_to == -1
    dirs.compaction_pass(1000 * 225)
    assert log.cleaned_to == log.active.base_offset
    assert dirs.compactions.counts()["/d"] == (0, 0)
    assert dirs.offline == []


def test_the_pause_before_a_refused_log_is_tried_again_has_a_bound_and_a_clock_set_back_ends_it() -> None:
    disk = RefusingDisk()
    dirs, _ = dirty(disk)
    for segment in dirs.logs[P].segments:
        segment.close()
    disk.refused = FIRST
    now_ms = 0
    for _ in range(20):
        for _ in dirs.logs:
            dirs.compaction_pass(now_ms)
        now_ms += dirs.compactions.uncleanable[P].pause_ms
    assert dirs.compactions.uncleanable[P].pause_ms == RETRY_MAX_MS
    disk.refused = ""
    dirs.compaction_pass(5)
    assert not dirs.compactions.uncleanable


def test_uncleanable_logs_are_counted_by_directory() -> None:
    dirs, _ = dirty()
    assert isinstance(dirs.disk, FaultyDisk)
    dirs.disk.names[FIRST].data[70] ^= 1
    for look in range(3):
        dirs.compaction_pass(look)
    log = dirs.logs[P]
    sealed = sum(segment.size for segment in log.segments[:-1])
    assert dirs.compactions.counts() == {"/d": (1, sealed)}
    dirs.delete(P, 0)
    assert dirs.compactions.counts() == {"/d": (0, 0)}


def test_the_offset_map_is_bounded_within_a_segment() -> None:
    config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    dirs, log = begin(config)
    for turn in range(4):
        write(log, [(b"k%03d" % n, b"%d" % turn) for n in range(100)])
    log.roll()
    settle(dirs, log)
    reached = [0]
    while log.cleaned_to < log.active.base_offset:
        compaction = plan(log, 0)
        assert compaction is not None
        compaction.order = compaction.order._replace(keys_max=150)
        compaction.run()
        assert compaction.error is None
        put_in_place(log, compaction, 0)
        assert compaction.outcome is not None
        assert compaction.outcome.keys <= 150
        reached.append(log.cleaned_to)
    assert reached == sorted(set(reached))
    while (compaction := plan(log, 0)) is not None:
        raise AssertionError("nothing is dirty any more")
    assert [entry[0] for entry in read_all(log)] == list(range(300, 400))


def test_a_map_smaller_than_one_batch_still_gets_through_it() -> None:
    config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    dirs, log = begin(config)
    for _ in range(2):
        write(log, [(b"k%d" % (n % 7), b"v") for n in range(20)])
    log.roll()
    settle(dirs, log)
    runs = 0
    while (compaction := plan(log, 0)) is not None:
        compaction.order = compaction.order._replace(keys_max=3)
        compaction.run()
        put_in_place(log, compaction, 0)
        runs += 1
    assert 4 <= runs <= 40
    assert [entry[0] for entry in read_all(log)] == list(range(33, 40))
