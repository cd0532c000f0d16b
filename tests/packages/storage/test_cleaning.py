"""Retention and compaction: what goes, what stays, where the log starts, and what a crash in between leaves behind."""

from __future__ import annotations

import contextlib
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model import Code
from moldau.model.value import replace
from moldau.ports import Disk
from moldau.runtime.disk import RealDisk
from moldau.storage import DirOffline, Log, LogConfig, LogDirs
from moldau.storage.compaction import Compaction, plan
from moldau.storage.compactions import end_now
from moldau.storage.raw_records import raw_records
from moldau.storage.reader import batches
from moldau.storage.swap import in_place
from moldau.wire.batch import BatchHeader, build, headers, payload, records
from moldau.wire.compression import Codec
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P, batch, check_files, offsets

COMPACT = LogConfig(cleanup_policy=("compact",), internal_segment_bytes=700, index_interval_bytes=100,
                    delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=10)  # fmt: skip
Key = bytes
Live = dict[Key, tuple[int, bytes | None]]


def begin(config: LogConfig, disk: FaultyDisk | None = None) -> tuple[LogDirs, Log]:
    dirs = LogDirs(disk or FaultyDisk(), ["/d"])
    dirs.load(lambda _: config)
    return dirs, dirs.create(P, TOPIC_ID, config)


def reopen(disk: Disk, config: LogConfig) -> tuple[LogDirs, Log]:
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: config)
    return dirs, dirs.logs[P]


@pytest.mark.parametrize(
    ("records", "size", "codec", "quick"),
    [
        (100, 10, Codec.NONE, True),
        (100, 10, Codec.GZIP, True),
        (50_000, 0, Codec.GZIP, False),
        (100, 2_000, Codec.NONE, False),
        (40, 2_000, Codec.GZIP, False),
    ],
    ids=["few", "few, packed", "many that pack well", "many bytes", "packed bytes that may be very many"],
)
def test_a_run_is_quick_by_what_it_unpacks_not_by_what_it_reads(
    records: int, size: int, codec: Codec, quick: bool
) -> None:
    dirs, log = begin(replace(COMPACT, internal_segment_bytes=1 << 20))
    rng = random.Random(1)
    data = build([(0, b"k", rng.randbytes(size), ()) for _ in range(records)], codec=codec)
    for _ in range(2):
        assert log.append_leader(bytearray(data), 0, 0).code is Code.NONE
    log.high_watermark = log.log_end_offset
    log.roll()
    log.flush()
    dirs.checkpoint()
    compaction = plan(log, 0)
    assert compaction is not None
    assert compaction.is_quick(1 << 18, 1 << 15, 1 << 15) is quick


# -- retention


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    dirs, log = begin(LogConfig(internal_segment_bytes=1000, retention_ms=100, file_delete_delay_ms=50))
    for number in range(20):
        log.append_leader(batch(3, timestamp=number * 10), 0, 0)
    log.high_watermark = log.log_end_offset
    bases = [segment.base_offset for segment in log.segments]
    assert dirs.retention_pass(202) > 0
    assert log.log_start_offset == log.segments[0].base_offset
    assert log.segments[0].largest_timestamp() >= 102
    assert log.segments[0].base_offset == min(b for b, n in itertools.pairwise(bases) if (n // 3 - 1) * 10 + 2 >= 102)
    assert log.epochs.entries() == [(0, log.log_start_offset)]
    assert offsets(log) == list(range(log.log_start_offset, 60, 3))
    names = dirs.disk.list_dir("/d/t-0")
    assert any(name.endswith(".log.deleted") for name in names)
    assert dirs.deletion_pass(251) == 0
    assert dirs.deletion_pass(252) > 0
    assert not any(name.endswith(".deleted") for name in dirs.disk.list_dir("/d/t-0"))


def start_over_while_segments_are_to_be_renamed(disk: FaultyDisk) -> tuple[LogDirs, Log]:
    """Retention has taken the first segments, no worker has renamed them yet, and the log begins again at the second's
    offset: its file has that one's name."""
    config = LogConfig(internal_segment_bytes=1000, retention_ms=100, file_delete_delay_ms=0)
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: config)
    log = dirs.create(P, TOPIC_ID, config)
    log.dir.renames_later = True
    for number in range(12):
        log.append_leader(batch(3, timestamp=number * 10), 0, 0)
    log.high_watermark = log.log_end_offset
    log.flush()
    dirs.checkpoint()
    bases = list(log.bases)
    assert dirs.retention_pass(190) > 0
    assert log.bases[0] > bases[1]
    assert log.taken
    assert all(disk.exists(f"/d/{P}/{base:020}.log") for base in bases), "nobody has renamed them"
    log.truncate_fully_at(bases[1])
    log.append_leader(batch(3, timestamp=180), 1, 0)
    log.flush()
    taken, log.dir.taken = log.dir.taken, []
    for one in taken:
        one.run()
        assert one.end()
    dirs.deletion_pass(1000)
    return dirs, log


def test_a_log_that_starts_over_keeps_its_file_when_segments_of_that_name_are_renamed_later() -> None:
    disk = FaultyDisk()
    dirs, log = start_over_while_segments_are_to_be_renamed(disk)
    assert not log.taken
    (base,) = log.bases
    assert offsets(log) == [base]
    assert [name for name in disk.list_dir(f"/d/{P}") if ".log" in name] == [f"{base:020}.log"]
    dirs.close()
    assert offsets(reopen(disk, LogConfig())[1]) == [base]


def test_a_kill_at_any_step_between_leaves_a_log_that_is_loaded() -> None:
    whole = FaultyDisk()
    start_over_while_segments_are_to_be_renamed(whole)
    for step in range(whole.steps):
        disk = FaultyDisk(crash_at=step)
        with contextlib.suppress(Crash):
            start_over_while_segments_are_to_be_renamed(disk)
        dirs = LogDirs(disk.process_killed(), ["/d"])
        dirs.load(lambda _: LogConfig())
        assert not dirs.unusable, f"step {step}"
        assert P not in dirs.logs or all(dirs.logs[P].read(at, 1) for at in offsets(dirs.logs[P])), f"step {step}"


def test_an_expired_log_is_emptied_and_keeps_its_end() -> None:
    dirs, log = begin(LogConfig(internal_segment_bytes=1000, retention_ms=100))
    for _ in range(20):
        log.append_leader(batch(3), 0, 0)
    log.high_watermark = 60
    dirs.retention_pass(10_000)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (60, 60, 0)
    log.append_leader(batch(3), 1, 0)
    dirs.close()
    _, log = reopen(dirs.disk, LogConfig())
    assert (log.log_start_offset, log.log_end_offset) == (60, 63)


def test_retention_by_size_keeps_at_least_that_much() -> None:
    dirs, log = begin(LogConfig(internal_segment_bytes=1000, retention_bytes=3000, retention_ms=-1))
    for _ in range(20):
        log.append_leader(batch(3), 0, 0)
    dirs.retention_pass(0)
    assert log.log_start_offset == 0  # nothing is committed yet
    log.high_watermark = 60
    dirs.retention_pass(0)
    assert 3000 <= log.size < 4100


def test_retention_by_a_size_of_nothing_leaves_nothing() -> None:
    """As in Apache Kafka, whose active segment goes then, too."""
    dirs, log = begin(LogConfig(internal_segment_bytes=1000, retention_bytes=0, retention_ms=-1))
    for _ in range(5):
        log.append_leader(batch(3), 0, 0)
    log.high_watermark = 12
    dirs.retention_pass(0)
    assert log.log_end_offset == 15
    assert log.size > 0, "the last batch is not committed yet"
    log.high_watermark = 15
    dirs.retention_pass(0)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (15, 15, 0)


def test_records_deleted_on_request_go_with_their_segments() -> None:
    dirs, log = begin(LogConfig(internal_segment_bytes=1000))
    for _ in range(20):
        log.append_leader(batch(3), 0, 0)
    log.high_watermark = 40
    assert log.advance_log_start(41) is Code.OFFSET_OUT_OF_RANGE
    assert log.advance_log_start(35) is Code.NONE
    assert log.epochs.entries() == [(0, 35)]
    dirs.retention_pass(0)
    assert log.log_start_offset == 35
    assert log.segments[0].base_offset <= 35 < log.segments[1].base_offset
    dirs.checkpoint()
    assert isinstance(dirs.disk, FaultyDisk)
    _, log = reopen(dirs.disk.process_killed(), LogConfig())
    assert (log.log_start_offset, log.log_end_offset) == (35, 60)
    assert log.epochs.entries() == [(0, 35)]


# -- compaction


def write(log: Log, entries: list[tuple[bytes, bytes | None]], now: int = 0, **stamps: Any) -> None:
    data = build([(now + i, key, value, []) for i, (key, value) in enumerate(entries)], **stamps)
    assert log.append_leader(bytearray(data), 0, now).code is Code.NONE


def put_in_place(log: Log, compaction: Compaction, now_ms: int) -> int:
    """What a run has made takes its place, here and now; bytes saved."""
    return end_now(in_place(log, compaction, now_ms))


def read_all(log: Log) -> list[tuple[int, bytes | None, bytes | None, int]]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 500)
        if not data:
            break
        for position, header in headers(data):
            found += [(r.offset, r.key, r.value, r.timestamp) for r in records(data, position)]
            offset = header.next_offset
    return found


def settle(dirs: LogDirs, log: Log) -> None:
    """Committed, flushed and checkpointed: compaction may have it."""
    log.flush()
    log.high_watermark = log.log_end_offset
    dirs.checkpoint()


def test_of_each_key_the_newest_record_stays_at_its_offset() -> None:
    dirs, log = begin(COMPACT)
    rng = random.Random(5)
    written: list[bytes] = []
    for number in range(60):
        keys = [b"k%d" % rng.randrange(12) for _ in range(3)]
        write(log, [(key, b"%d" % number) for key in keys], codec=Codec.GZIP if number % 3 else Codec.NONE)
        written += keys
    before = {entry[0]: entry for entry in read_all(log)}
    assert dirs.compaction_pass(0) == 0  # not flushed, not committed
    settle(dirs, log)
    assert dirs.compaction_pass(0) > 0
    after = read_all(log)
    boundary = log.active.base_offset
    live = {key: offset for offset, key in enumerate(written[:boundary])}
    assert [entry[0] for entry in after] == sorted({*live.values(), *range(boundary, 180)})
    assert all(before[entry[0]] == entry for entry in after)
    assert log.log_end_offset == 180
    assert log.cleaned_to == boundary
    assert plan(log, 0) is None  # nothing dirty is left
    dirs.close()
    dirs, log = reopen(dirs.disk, COMPACT)
    assert dirs.findings == []
    assert read_all(log) == after
    assert log.cleaned_to == boundary


def test_tombstones_stay_until_their_horizon_and_then_go() -> None:
    dirs, log = begin(COMPACT)
    write(log, [(b"a", b"1"), (b"b", b"1")])
    write(log, [(b"a", None)])
    for number in range(6):
        write(log, [(b"fill%d" % number, bytes(300))])
    settle(dirs, log)
    dirs.compaction_pass(5000)
    assert (2, b"a", None, 0) in read_all(log)
    header = next(h for _, h in headers(log.read(2, 1)))
    assert header.delete_horizon_ms == 6000
    for number in range(6):
        write(log, [(b"fill%d" % number, bytes(300))])
    settle(dirs, log)
    dirs.compaction_pass(5999)
    assert (2, b"a", None, 0) in read_all(log)
    for number in range(6):
        write(log, [(b"fill%d" % number, bytes(300))])
    settle(dirs, log)
    dirs.compaction_pass(6000)
    keys = {entry[1] for entry in read_all(log)}
    assert b"a" not in keys
    assert b"b" in keys


def test_a_producers_last_batch_keeps_its_header() -> None:
    dirs, log = begin(COMPACT)
    write(log, [(b"a", b"1")], producer_id=9, producer_epoch=0, base_sequence=41)
    for number in range(8):
        write(log, [(b"a", bytes(200)), (b"b%d" % number, bytes(100))])
    settle(dirs, log)
    dirs.compaction_pass(0)
    first = next(h for _, h in headers(log.read(0, 1)))
    assert (first.base_offset, first.count, first.last_sequence) == (0, 0, 41)
    log.truncate_to(log.log_end_offset - 1)  # the state is read from the log again
    again = log.append_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=41), 0, 0)
    assert again.duplicate


def test_only_what_is_committed_and_known_to_be_durable_is_compacted() -> None:
    dirs, log = begin(COMPACT)
    for _ in range(20):
        write(log, [(b"a", bytes(100))])
    ends = [segment.base_offset for segment in log.segments[1:]]
    assert len(ends) > 3
    log.high_watermark = log.log_end_offset
    log.flush()
    assert plan(log, 0) is None  # a start would read from offset 0 on, and take the gaps for losses
    dirs.checkpoint()
    log.high_watermark = ends[1] + 1
    compaction = plan(log, 0)
    assert compaction is not None
    assert compaction.cleaned_to == ends[1]


def test_the_last_segment_that_has_a_file_is_not_compacted_before_the_next_one_has_its_file() -> None:
    """It lost its last batches, which only the next segment tells of: after a kill their offsets were given anew."""
    disk = FaultyDisk()
    dirs, log = begin(replace(COMPACT, cleanup_policy=("delete",)), disk)
    for dir in dirs.dirs:
        dir.on_file_wanted = lambda log: None
    for number in range(3):
        write(log, [(b"%d" % number, bytes(60))])
    for _ in range(2):
        write(log, [(None, bytes(60))])  # type: ignore[list-item]  # no key, as is allowed while nothing is compacted
    log.roll()
    assert log.awaits_file
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    log.end_flush(flush)
    log.high_watermark = log.settled_end
    dirs.checkpoint()
    log.reconfigure(COMPACT)
    if compaction := plan(log, 0):
        compaction.run()
        put_in_place(log, compaction, 0)
    _, again = reopen(disk.process_killed(), COMPACT)
    assert again.log_end_offset == 5


def test_compaction_waits_for_dirt_and_for_its_lag() -> None:
    dirs, log = begin(LogConfig(cleanup_policy=("compact",), internal_segment_bytes=700, min_compaction_lag_ms=500,
                                max_compaction_lag_ms=2000, min_cleanable_dirty_ratio=0.9))  # fmt: skip
    for number in range(10):
        write(log, [(b"a", bytes(300))], now=number * 100)
    settle(dirs, log)
    assert plan(log, 400) is None
    compaction = plan(log, 1000)
    assert compaction is not None
    assert compaction.cleaned_to <= 6
    compaction.run()
    put_in_place(log, compaction, 1000)
    write(log, [(b"a", bytes(300))], now=1100)
    settle(dirs, log)
    assert plan(log, 1500) is None  # too clean
    assert plan(log, 9000) is not None  # too long


def test_a_log_truncated_while_it_is_compacted_keeps_its_own_segments() -> None:
    dirs, log = begin(COMPACT)
    for _ in range(20):
        write(log, [(b"a", bytes(100))])
    settle(dirs, log)
    compaction = plan(log, 0)
    assert compaction is not None
    compaction.run()
    log.truncate_to(4)
    put_in_place(log, compaction, 0)
    assert [entry[0] for entry in read_all(log)] == [0, 1, 2, 3]
    assert not [name for name in dirs.disk.list_dir("/d/t-0") if "cleaned" in name or "swap" in name]


def test_a_log_that_cannot_be_read_is_named_and_left_alone() -> None:
    dirs, log = begin(COMPACT)
    for _ in range(20):
        write(log, [(b"a", bytes(100))])
    settle(dirs, log)
    assert isinstance(dirs.disk, FaultyDisk)
    dirs.disk.names["/d/t-0/00000000000000000000.log"].data[150] ^= 1
    assert dirs.compaction_pass(0) == 0
    assert "00000000000000000000.log is corrupt at byte 0" in dirs.compactions.uncleanable[P].reason
    assert dirs.compaction_pass(0) == 0


def test_a_crash_at_any_step_of_a_compaction_leaves_the_log_before_or_after_it() -> None:
    def life(disk: FaultyDisk) -> None:
        dirs, log = begin(COMPACT, disk)
        for number in range(30):
            write(log, [(b"k%d" % (number % 4), b"%d" % number), (b"u%d" % (number // 3), b"")])
        settle(dirs, log)
        dirs.compaction_pass(0)  # makes small segments; the second joins them
        for number in range(30, 36):
            write(log, [(b"k%d" % (number % 4), b"%d" % number), (b"u%d" % number, b"")])
        settle(dirs, log)
        sources.append(len(log.segments))
        started.append(disk.steps)
        contents.append(read_all(log))
        dirs.compaction_pass(0)
        contents.append(read_all(log))
        dirs.deletion_pass(1000)
        dirs.checkpoint()

    started: list[int] = []
    sources: list[int] = []
    contents: list[list[tuple[int, bytes | None, bytes | None, int]]] = []
    whole = FaultyDisk()
    life(whole)
    before, after = contents
    assert len(after) < len(before)
    assert len(reopen(whole.process_killed(), COMPACT)[1].segments) < sources[0]
    newest = {entry[1]: entry for entry in before}
    for step in range(started[0], whole.steps):
        for cut in (None, 1, 2):
            disk = FaultyDisk(crash_at=step)
            with contextlib.suppress(Crash):
                life(disk)
            _, log = reopen(disk.process_killed() if cut is None else disk.power_cut(cut * 1000 + step), COMPACT)
            found = read_all(log)
            assert log.log_end_offset == 72
            assert set(after) <= set(found) <= set(before)  # some groups may be done and others not
            assert {entry[1]: entry for entry in found} == newest
            assert not [name for name in log.folder.disk.list_dir("/d/t-0") if "cleaned" in name or "swap" in name]
            check_files(log)


def test_an_error_at_any_step_of_a_compaction_harms_nothing() -> None:
    for step in range(200, 420, 3):
        disk = FaultyDisk(fail_at=step)
        with contextlib.suppress(DirOffline):
            dirs, log = begin(COMPACT, disk)
            for number in range(30):
                write(log, [(b"k%d" % (number % 4), b"%d" % number), (b"u%d" % number, b"")])
            settle(dirs, log)
            dirs.compaction_pass(0)
            dirs.deletion_pass(1000)
        _, log = reopen(disk.process_killed(), COMPACT)
        ends = [entry[0] for entry in read_all(log)]
        assert ends[-2:] == [log.log_end_offset - 2, log.log_end_offset - 1]


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"bb", b"long" * 20, b"c"]), st.none() | st.binary(max_size=60)),
                min_size=1, max_size=60), st.sampled_from(list(Codec)), st.integers(1, 5))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_whatever_is_written_the_newest_of_each_key_survives(
    entries: list[tuple[bytes, bytes | None]], codec: Codec, per_batch: int
) -> None:
    dirs, log = begin(COMPACT)
    for start in range(0, len(entries), per_batch):
        write(log, entries[start : start + per_batch], now=start, codec=codec)
    log.roll()
    settle(dirs, log)
    expected: Live = {key: (offset, value) for offset, (key, value) in enumerate(entries)}
    for now in (0, 500, 5000):
        compaction = plan(log, now)
        if compaction is not None:
            compaction.run()
            put_in_place(log, compaction, now)
        found: Live = {}
        for offset, key, value, _ in read_all(log):
            assert key is not None
            assert key not in found, "an older record of the same key is left"
            found[key] = (offset, value)
        assert found == expected
        write(log, [(b"other", bytes(10))], now=now)
        expected[b"other"] = (log.log_end_offset - 1, bytes(10))
        log.roll()
        settle(dirs, log)
        if compaction is not None:
            break


def test_raw_records_are_those_that_the_decoder_sees() -> None:
    entries = [(i * 1000, b"k" * i if i % 3 else None, b"v" * 200 if i % 4 else None, [("h", b"x")] * (i % 2))
               for i in range(100)]  # fmt: skip
    data = build(entries)
    header, body = payload(data)
    assert isinstance(header, BatchHeader)
    raw = list(raw_records(body, header.count))
    assert [(r.key, r.tombstone, r.offset_delta, r.timestamp_delta) for r in raw] == [
        (key, value is None, i, stamp) for i, (stamp, key, value, _) in enumerate(entries)
    ]
    assert b"".join(body[r.start : r.end] for r in raw) == body


def test_the_offline_reader_sees_what_is_stored_and_names_what_is_broken(tmp_path: Path) -> None:
    dirs = LogDirs(RealDisk(), [str(tmp_path)])
    config = LogConfig(internal_segment_bytes=1000)
    dirs.load(lambda _: config)
    log = dirs.create(P, TOPIC_ID, config)
    for _ in range(10):
        log.append_leader(batch(3), 0, 0)
    dirs.close()
    folder = str(tmp_path / "t-0")
    stored = list(batches(RealDisk(), folder))
    assert [b.header.base_offset for b in stored] == list(range(0, 30, 3))
    assert all(b.sound for b in stored)
    assert b"".join(b.data for b in stored) == b"".join(
        p.read_bytes() for p in sorted((tmp_path / "t-0").glob("*.log"))
    )
    assert [b.header.base_offset for b in batches(RealDisk(), folder, start=13)] == list(range(12, 30, 3))
    file = sorted((tmp_path / "t-0").glob("*.log"))[1]
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data[:-10])
    problems: list[str] = []
    again = list(batches(RealDisk(), folder, problems=problems))
    assert [b.sound for b in again].count(False) == 1
    assert len(again) == len(stored) - 1
    assert file.name in problems[0]
    with pytest.raises(Exception, match="is corrupt at byte"):
        list(batches(RealDisk(), folder))
