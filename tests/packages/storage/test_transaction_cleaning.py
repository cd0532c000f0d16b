"""Compaction of logs with transactions: what was aborted is not read, committed records stay, markers go at last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.value import replace
from moldau.storage import Log, LogDirs
from moldau.storage.aborted import read_marker
from moldau.storage.compaction import plan
from moldau.storage.compactions import end_now
from moldau.storage.swap import in_place
from moldau.storage.transactions import aborted_within, all_aborted
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, build, control_key, headers, records
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_cleaning import COMPACT, begin, reopen, settle

ABORT, COMMIT = 0, 1
Entry = tuple[int, bytes, bytes | None]
Live = dict[bytes, tuple[int, bytes | None]]


def put(log: Log, producer: int, sequence: int, pairs: list[tuple[bytes, bytes | None]], now_ms: int = 0) -> None:
    data = build(
        [(now_ms, key, value, []) for key, value in pairs], base_offset=log.log_end_offset, producer_id=producer,
        producer_epoch=0, base_sequence=sequence, leader_epoch=0, transactional=True,
    )  # fmt: skip
    log.append_follower(data, now_ms)


def end(log: Log, producer: int, type: int, now_ms: int = 0) -> None:
    record = (now_ms, control_key(type), b"\0\0\0\0\0\0", [])
    data = build(
        [record], base_offset=log.log_end_offset, producer_id=producer, producer_epoch=0, base_sequence=-1,
        leader_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    log.append_follower(data, now_ms)


def whole(log: Log) -> list[tuple[BatchHeader, bytes]]:
    found = []
    for segment in log.segments if log.log_end_offset else ():
        data = segment.open().pread(segment.size, 0)
        for at, header in headers(data):
            found.append((header, data[at : at + header.length + LENGTH_OVERHEAD]))
    return found


def committed(log: Log, start: int = 0) -> list[Entry]:
    """What a consumer with read_committed keeps, by the rule of Kafka's consumer, from what a fetch answer names."""
    stable = log.producers.stable_offset(log.high_watermark)
    coming = sorted(aborted_within(log, start, stable), key=lambda entry: entry.first_offset)
    ongoing: set[int] = set()
    found = []
    for header, raw in whole(log):
        if header.last_offset < start or header.base_offset >= stable:
            continue
        while coming and coming[0].first_offset <= header.last_offset:
            ongoing.add(coming.pop(0).producer_id)
        if header.is_control:
            if read_marker(header, raw[HEADER_SIZE:]).aborts:
                ongoing.discard(header.producer_id)
        elif not (header.attributes & 0x10 and header.producer_id in ongoing):
            found += [(one.offset, one.key or b"", one.value) for one in records(raw) if one.offset >= start]
    return found


def newest(entries: list[Entry]) -> Live:
    return {key: (offset, value) for offset, key, value in entries}


def clean(dirs: LogDirs, log: Log, now_ms: int) -> None:
    log.high_watermark = log.log_end_offset
    log.roll(now_ms=now_ms)
    settle(dirs, log)
    compaction = plan(log, now_ms)
    if compaction is not None:
        compaction.run()
        assert compaction.outcome is not None
        assert not compaction.outcome.reason
        end_now(in_place(log, compaction, now_ms))


def markers(log: Log) -> list[int]:
    return [header.base_offset for header, _ in whole(log) if header.is_control]


def test_aborted_records_go_and_do_not_stand_for_those_that_were_committed() -> None:
    dirs, log = begin(COMPACT)
    put(log, 7, 0, [(b"a", b"committed")])
    end(log, 7, COMMIT)
    put(log, 7, 1, [(b"a", b"aborted"), (b"b", b"aborted")])
    put(log, 8, 0, [(b"c", b"last")])
    end(log, 7, ABORT)
    end(log, 8, COMMIT)
    clean(dirs, log, 0)
    assert committed(log) == [(0, b"a", b"committed"), (4, b"c", b"last")]
    stay = [header.base_offset for header, _ in whole(log) if not header.is_control and header.count]
    assert stay == [0, 4], "the aborted records are gone"


def test_a_marker_goes_delete_retention_ms_after_its_records_and_its_entry_before_it() -> None:
    dirs, log = begin(COMPACT)
    put(log, 7, 0, [(b"a", b"aborted")])
    end(log, 7, ABORT)  # at 1
    put(log, 8, 0, [(b"a", b"old")])
    end(log, 8, COMMIT)  # at 3
    for number, producer in enumerate((7, 8)):  # their last batches: what was before may go
        put(log, producer, 1, [(b"last%d" % number, b"")])
        end(log, producer, COMMIT)
    put(log, 9, 0, [(b"a", b"new")])
    end(log, 9, COMMIT)
    clean(dirs, log, 0)
    assert markers(log) == [1, 3, 5, 7, 9]
    assert [entry.last_offset for entry in all_aborted(log)] == [1], "there were records as the run began"
    put(log, 9, 1, [(b"x", b"")])
    end(log, 9, COMMIT)
    clean(dirs, log, 5)
    assert markers(log) == [1, 3, 5, 7, 9, 11]
    assert all_aborted(log) == []
    assert not [name for name in dirs.disk.list_dir("/d/t-0") if name.endswith(".txnindex")]
    for now_ms, left in ((900, [1, 3]), (1006, [])):
        put(log, 9, 2, [(b"x", b"%d" % now_ms)])
        end(log, 9, COMMIT)
        clean(dirs, log, now_ms)
        assert [at for at in markers(log) if at < 4] == left


def test_a_marker_that_alone_tells_a_producers_epoch_stays() -> None:
    dirs, log = begin(COMPACT)
    put(log, 7, 0, [(b"a", b"1")])
    data = build(
        [(0, control_key(ABORT), b"\0\0\0\0\0\0", [])], base_offset=1, producer_id=7, producer_epoch=1,
        base_sequence=-1, leader_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    log.append_follower(data)  # fenced: the coordinator has raised the epoch
    for number in range(4):
        put(log, 9, number, [(b"x", b"%d" % number)])
        end(log, 9, COMMIT)
        clean(dirs, log, 10_000 * number)
    assert 1 in markers(log)
    log.close()
    known = log.producers.get(7)
    assert known is not None
    assert known.epoch == 1


def test_an_open_transaction_is_not_touched() -> None:
    dirs, log = begin(COMPACT)
    put(log, 7, 0, [(b"a", b"1")])
    end(log, 7, COMMIT)
    put(log, 7, 1, [(b"a", b"2")])
    log.roll()
    put(log, 8, 0, [(b"a", b"3")])
    end(log, 8, COMMIT)
    before = whole(log)
    clean(dirs, log, 0)
    assert whole(log) == before
    end(log, 7, ABORT)
    clean(dirs, log, 0)
    assert newest(committed(log)) == {b"a": (3, b"3")}


def live(entries: list[Entry], below: int) -> Live:
    return newest(sorted(entry for entry in entries if entry[0] < below))


def life(draw: Callable[..., int], dirs: LogDirs, log: Log) -> tuple[LogDirs, Log]:
    """Transactions of three producers, compactions and restarts in between; the newest committed values must stay."""
    model: list[Entry] = []
    pending: dict[int, list[Entry]] = {7: [], 8: [], 9: []}
    sequences = dict.fromkeys(pending, 0)
    now_ms = 0
    for number in range(draw(st.integers(5, 40))):
        now_ms += draw(st.sampled_from([0, 1, 600]))
        producer = draw(st.sampled_from([7, 8, 9]))
        action = draw(st.sampled_from(["put", "put", "put", "abort", "commit", "roll", "clean", "restart", "cut"]))
        if action == "put":
            pairs: list[tuple[bytes, bytes | None]] = [
                (b"k%d" % draw(st.integers(0, 4)), b"%d" % number) for _ in range(draw(st.integers(1, 3)))
            ]
            at = log.log_end_offset
            put(log, producer, sequences[producer], pairs, now_ms)
            sequences[producer] += len(pairs)
            pending[producer] += [(at + n, key, value) for n, (key, value) in enumerate(pairs)]
        elif action in ("abort", "commit"):
            end(log, producer, ABORT if action == "abort" else COMMIT, now_ms)
            model += pending[producer] if action == "commit" else ()
            pending[producer] = []
        elif action == "roll":
            log.roll(now_ms=now_ms)
        elif action == "clean":
            clean(dirs, log, now_ms)
        elif action == "restart":
            dirs.close()
            dirs, log = reopen(dirs.disk, log.config)
        elif action == "cut" and log.log_end_offset:  # as a follower that has diverged
            lost = [header for header, _ in whole(log)][-1:]
            if lost and lost[0].base_offset > log.cleaned_to and not lost[0].is_control:
                log.truncate_to(lost[0].base_offset)
                for entries in pending.values():
                    entries[:] = [entry for entry in entries if entry[0] < log.log_end_offset]
        log.high_watermark = log.log_end_offset
        assert newest(committed(log)) == live(model, log.producers.stable_offset(log.high_watermark))
    for producer, entries in pending.items():
        end(log, producer, COMMIT, now_ms)
        model += entries
    for _ in range(4):  # whatever can go is gone
        now_ms += 5000
        put(log, 9, sequences[9], [(b"last", b"")], now_ms)
        sequences[9] += 1
        model.append((log.log_end_offset - 1, b"last", b""))
        end(log, 9, COMMIT, now_ms)
        clean(dirs, log, now_ms)
    assert newest(committed(log)) == live(model, log.log_end_offset)
    assert len(committed(log)) == len(newest(committed(log)))
    return dirs, log


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_what_a_reader_of_committed_records_sees_is_each_keys_newest_committed_value(data: st.DataObject) -> None:
    dirs, log = begin(replace(COMPACT, delete_retention_ms=500))
    dirs, log = life(data.draw, dirs, log)
    seen = committed(log)
    dirs.close()
    _, log = reopen(dirs.disk, log.config)
    log.high_watermark = log.log_end_offset
    assert committed(log) == seen
    for start in {offset for offset, _, _ in seen}:
        assert committed(log, start) == [entry for entry in seen if entry[0] >= start]


def aborts_in_the_middle(disk: FaultyDisk) -> tuple[LogDirs, Log]:
    dirs, log = begin(COMPACT, disk)
    for number in range(6):
        put(log, 7, number, [(b"k%d" % (number % 3), b"%d" % number), (b"u%d" % number, bytes(60))])
        put(log, 8, number, [(b"k%d" % (number % 3), b"-")])
        end(log, 8, ABORT)
        end(log, 7, COMMIT if number % 4 else ABORT)
    return dirs, log


def crash_free() -> tuple[int, int, Live]:
    disk = FaultyDisk()
    dirs, log = aborts_in_the_middle(disk)
    log.flush()
    dirs.checkpoint()
    begun = len(disk.log)
    clean(dirs, log, 0)
    return begun, len(disk.log), newest(committed(log))


@pytest.mark.parametrize("kind", ["killed", "power"])
def test_a_crash_at_any_step_of_a_compaction_with_aborted_transactions_shows_none_of_them(kind: str) -> None:
    begun, ended, expected = crash_free()
    assert ended - begun > 20
    for step in range(begun, ended):
        disk = FaultyDisk(crash_at=step)
        try:
            dirs, log = aborts_in_the_middle(disk)
            log.flush()
            dirs.checkpoint()
            clean(dirs, log, 0)
        except Crash:
            pass
        _, log = reopen(disk.process_killed() if kind == "killed" else disk.power_cut(step), COMPACT)
        log.high_watermark = log.log_end_offset
        seen = newest(committed(log))
        for key, entry in seen.items():
            assert entry[1] != b"-", f"an aborted record of {key!r} is read after a crash at step {step}"
        if kind == "killed":
            assert seen == expected, step
