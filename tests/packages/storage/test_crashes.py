"""A life of a log, ended at every single step of the disk, by a kill and by power cuts: what the next start finds.

The promise: a log is always a prefix of what was appended (no gap, no repeat, no torn batch), never shorter than the
last flush that returned, and everything derived from it (epochs, producers, indexes) agrees with it.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from moldau.model import Code, TopicPartition
from moldau.storage import DirOffline, DiskFull, Log, LogConfig, LogDirs, LogError, truncation
from moldau.storage.flush import Flush
from moldau.storage.producer_state import load_producers
from moldau.storage.reader import epochs_of
from moldau.storage.truncation import Cutting, drop_done
from moldau.wire.batch import headers
from tests.packages.storage.faulty_disk import Crash, FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P, batch, check_files

CONFIG = LogConfig(internal_segment_bytes=1500, index_interval_bytes=300, file_delete_delay_ms=10)
Q = TopicPartition("other", 3)


@dataclass
class Life:
    """What a log has been through: every version of its content since the last time everything was durable."""

    written: list[tuple[int, bytes]] = field(default_factory=list)
    older: list[list[tuple[int, bytes]]] = field(default_factory=list)
    """Versions that a truncation replaced, and that a power cut may bring back."""
    flushed: int = 0
    settled: int = 0
    """Up to where a broker may have acknowledged."""
    sequence: int = 0

    def append(self, log: Log, epoch: int, count: int = 2) -> None:
        data = batch(count, producer_id=9, producer_epoch=0, base_sequence=self.sequence, size=150)
        result = log.append_leader(data, epoch, 0)
        assert result.code is Code.NONE
        self.sequence += count
        self.written.append((result.first_offset, bytes(data)))

    def flush(self, log: Log) -> None:
        log.flush()
        self.flushed = log.log_end_offset
        self.older.clear()

    def truncate(self, log: Log, offset: int) -> None:
        """The model goes first: a crash anywhere inside may leave the log before or after."""
        self.older.append(list(self.written))
        self.flushed, self.settled = min(self.flushed, offset), min(self.settled, offset)
        self.written = [entry for entry in self.written if entry[0] < offset]
        self.sequence = 2 * len(self.written)
        log.truncate_to(offset)


def live(disk: FaultyDisk, life: Life) -> None:
    """Two starts with appends, rolls, flushes, truncations, checkpoints, deletions between them."""
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    other = dirs.create(Q, TOPIC_ID, CONFIG)
    for number in range(7):
        life.append(log, number // 3)
    dirs.checkpoint()
    life.flush(log)
    dirs.checkpoint()
    for _ in range(3):
        life.append(log, 3)
    life.truncate(log, 10)
    for _ in range(4):
        life.append(log, 5)
    other.append_leader(batch(), 1, 0)
    dirs.flush_pass(0)
    dirs.delete(Q, 0)
    dirs.deletion_pass(100)
    dirs.checkpoint()
    life.flush(log)
    life.append(log, 6)
    dirs.close(broker_epoch=4)
    life.flushed = log.log_end_offset
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    log = dirs.logs[P]
    for _ in range(3):
        life.append(log, 7)


def check(disk: FaultyDisk, life: Life, *, whole: bool = False) -> None:
    """Start on what is left, and hold it against the life; ``whole``: nothing that was written may be missing."""
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    log = dirs.logs.get(P)
    if log is None:
        assert not life.flushed
        return
    found: list[tuple[int, bytes]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000)
        assert data, f"nothing at {offset} though the log ends at {log.log_end_offset}"
        for position, header in headers(data):
            assert header.base_offset == offset
            found.append((offset, data[position : position + header.size]))
            offset = header.next_offset
    versions = [life.written, *life.older]
    assert any(found == version[: len(found)] for version in versions), "the log is no prefix of what was written"
    assert not whole or any(found[: len(version)] == version for version in versions), "written batches are missing"
    assert log.log_end_offset >= life.flushed, f"{life.flushed} was flushed, {log.log_end_offset} is left"
    epochs: dict[int, int] = {}
    for base, data in found:
        epochs.setdefault(next(headers(data))[1].leader_epoch, base)
    assert log.epochs.entries() == sorted(epochs.items())
    again = load_producers(log.folder, log.segments, log.log_end_offset)
    known = again.get(9)
    assert (known.last_sequence + 1 if known else 0) == 2 * len(found)
    assert Q not in dirs.logs or dirs.logs[Q].log_end_offset in (0, 3)
    check_files(log)
    next_one = log.append_leader(batch(2, size=10), 9, 0)
    assert next_one.first_offset == offset
    most = max(version[-1][0] if version else 0 for version in versions)
    while log.log_end_offset <= most + 4:  # beyond where segments began that the start removed
        log.append_leader(batch(2, size=10), 9, 0)
    assert all(log.read(at, 1) for at in range(log.log_start_offset, log.log_end_offset))


def steps() -> int:
    disk = FaultyDisk()
    live(disk, Life())
    return disk.steps


STEPS = steps()


def test_the_whole_life_is_found_again_when_nothing_goes_wrong() -> None:
    disk, life = FaultyDisk(), Life()
    live(disk, life)
    check(disk.process_killed(), life, whole=True)


def test_a_kill_at_any_step_loses_nothing_that_was_written() -> None:
    for step in range(STEPS):
        disk, life = FaultyDisk(crash_at=step), Life()
        with contextlib.suppress(Crash):
            live(disk, life)
        check(disk.process_killed(), life, whole=True)


def test_epochs_that_were_read_from_the_log_again_are_written_to_their_file() -> None:
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    log, life = dirs.create(P, TOPIC_ID, CONFIG), Life()
    for epoch in (0, 2):
        life.append(log, epoch)
    left = disk.process_killed()  # before any flush: the file of the epochs was never written
    dirs = LogDirs(left, ["/d"])
    dirs.load(lambda _: CONFIG)
    assert dirs.logs[P].epochs.entries() == [(0, 0), (2, 2)]
    dirs.close(broker_epoch=4)

    assert epochs_of(left, dirs.logs[P].folder.path) == [(0, 0), (2, 2)]


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_at_any_step_leaves_a_prefix_that_holds_every_flush(seed: int) -> None:
    for step in range(STEPS):
        disk, life = FaultyDisk(crash_at=step), Life()
        with contextlib.suppress(Crash):
            live(disk, life)
        check(disk.power_cut(seed * 10_000 + step), life)


def test_a_log_whose_last_segments_a_start_removed_is_read_beyond_where_they_began() -> None:
    """Only the records that follow the cut say which offsets the segment before it holds."""
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    log, life = dirs.create(P, TOPIC_ID, CONFIG), Life()
    dirs.checkpoint()
    for _ in range(12):
        life.append(log, 0)
    assert len(log.segments) == 4
    left = disk.process_killed()
    torn, gone = left.names[log.segments[0].path()], log.bases[1]
    assert torn is not None
    del torn.data[-10:]
    dirs = LogDirs(left, ["/d"])
    dirs.load(lambda _: LogConfig(internal_segment_bytes=1 << 20))
    log = dirs.logs[P]
    assert log.bases == [0]
    assert log.log_end_offset < gone
    for _ in range(6):
        log.append_leader(batch(2, size=150), 1, 0)
    assert log.log_end_offset > gone
    assert all(log.read(offset, 1) for offset in range(log.log_end_offset))


def test_an_io_error_at_any_step_takes_the_directory_offline_and_a_restart_finds_a_prefix() -> None:
    for step in range(STEPS):
        disk, life = FaultyDisk(fail_at=step, error=errno.EIO), Life()
        with contextlib.suppress(DirOffline, KeyError):
            live(disk, life)
        check(disk.process_killed(), life)


def test_a_full_disk_at_any_step_leaves_no_partial_batch() -> None:
    for step in range(STEPS):
        disk, life = FaultyDisk(fail_at=step, error=errno.ENOSPC, once=False), Life()
        with contextlib.suppress(DirOffline, DiskFull, KeyError):
            live(disk, life)
        check(disk.process_killed(), life)


def live_with_workers(disk: FaultyDisk, life: Life) -> None:
    """Cuts of which the files hear later, as in a broker: checkpoints, flushes and a stop come in between."""
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    waiting: list[Log] = []
    dirs.dirs[0].on_checkpoint_wanted = waiting.append
    log = dirs.create(P, TOPIC_ID, CONFIG)
    for number in range(9):
        life.append(log, number // 3)
    life.flush(log)
    dirs.checkpoint()
    for _ in range(3):
        life.append(log, 3)
    begun = log.begin_flush()
    life.truncate(log, 10)
    assert waiting == [log]
    assert begun is not None
    begun.run()  # as a worker that began before the cut
    log.end_flush(begun)
    dirs.checkpoint()
    cutting = Cutting(log)
    cutting.run()
    drop_done(log)
    assert cutting.error is None
    dirs.checkpoint()
    for _ in range(6):
        life.append(log, 5)
    life.flush(log)
    life.truncate(log, 4)
    life.append(log, 6)  # as who leads at once
    life.truncate(log, 2)
    dirs.close()
    life.flushed = log.log_end_offset


def steps_with_workers() -> int:
    disk = FaultyDisk()
    live_with_workers(disk, Life())
    return disk.steps


@pytest.mark.parametrize("seed", [-1, 0, 1, 2])
def test_a_crash_at_any_step_of_a_life_in_which_files_are_cut_later_leaves_a_prefix(seed: int) -> None:
    for step in range(steps_with_workers()):
        disk, life = FaultyDisk(crash_at=step), Life()
        with contextlib.suppress(Crash):
            live_with_workers(disk, life)
        check(disk.process_killed() if seed < 0 else disk.power_cut(seed * 10_000 + step), life)


def live_with_late_files(disk: FaultyDisk, life: Life) -> None:
    """Rolls of which the new segments' files are made later, as in a broker, and all that may come in between."""
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    wanted: list[Log] = []
    dirs.dirs[0].on_file_wanted = wanted.append
    log = dirs.create(P, TOPIC_ID, CONFIG)

    def append(epoch: int, until_rolled: bool = True) -> None:
        while True:
            life.append(log, epoch)
            life.settled = log.settled_end
            if log.awaits_file or not until_rolled:
                return

    def make(more: int = 0) -> None:
        opening = log.opening
        assert opening is not None
        opening.run()
        for _ in range(more):
            append(log.epochs.latest, until_rolled=False)
        opening.end()
        life.settled = log.settled_end

    append(0)
    make()
    append(1)
    append(1, until_rolled=False)
    begun = log.begin_flush()
    assert begun is not None
    begun.run()
    log.end_flush(begun)
    life.flushed = log.recovery_point
    make(more=2)
    append(2)
    opening = log.opening
    assert opening is not None
    opening.run()
    life.truncate(log, log.segments[-2].base_offset + 2)  # below the segment whose file has just been made
    opening.end()
    assert not log.awaits_file
    append(3)
    opening = log.opening
    life.truncate(log, log.active.base_offset)  # the new segment stays, and is empty
    assert log.opening is opening
    append(4, until_rolled=False)
    dirs.checkpoint()
    make(more=1)
    life.flush(log)
    append(5)
    life.truncate(log, log.active.base_offset - 2)
    append(6)
    life.flush(log)  # makes the file itself
    append(7)
    dirs.close()
    life.flushed = life.settled = log.log_end_offset


def live_with_a_late_first_file(disk: FaultyDisk, life: Life) -> None:
    """The file of a log that takes its first batch is made later as well, and the log cut meanwhile."""
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    dirs.dirs[0].on_file_wanted = lambda log: None
    log = dirs.create(P, TOPIC_ID, CONFIG)
    life.append(log, 0)
    opening = log.opening
    assert opening is not None
    for epoch in (1, 2):
        assert log.settled_end == 0
        if epoch == 2:
            opening.run()
        life.truncate(log, 0)
        life.append(log, epoch)
    life.append(log, 2)
    dirs.checkpoint()
    begun = log.begin_flush()
    assert begun is not None
    begun.run()
    log.end_flush(begun)
    assert log.recovery_point == 0
    opening.end()
    assert not log.awaits_file
    life.settled = log.settled_end
    life.append(log, 3)
    life.flush(log)
    life.append(log, 3)
    dirs.close()
    life.flushed = life.settled = log.log_end_offset


@pytest.mark.parametrize("seed", [-1, 0, 1, 2])
@pytest.mark.parametrize("live", [live_with_late_files, live_with_a_late_first_file])
def test_a_crash_at_any_step_of_a_life_in_which_segments_have_their_files_later_leaves_a_prefix(
    live: Callable[[FaultyDisk, Life], None], seed: int
) -> None:
    disk = FaultyDisk()
    live(disk, Life())
    for step in range(disk.steps):
        disk, life = FaultyDisk(crash_at=step), Life()
        with contextlib.suppress(Crash):
            live(disk, life)
        if seed < 0:
            life.flushed = max(life.flushed, life.settled)  # what was acknowledged outlives a kill
        check(disk.process_killed() if seed < 0 else disk.power_cut(seed * 10_000 + step), life)


def appended_to_before_its_files_are_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(truncation, "finish", lambda log: None)


def flushed_in_its_last_segment_alone(patch: pytest.MonkeyPatch) -> None:
    begun = Flush.__init__
    patch.setattr(Flush, "__init__", lambda self, folder, some, *more: begun(self, folder, some[-1:], *more))


def written_to_where_the_next_segment_begins(patch: pytest.MonkeyPatch) -> None:
    """The batch that a roll makes room for goes into the segment that is closed."""

    def roll(log: Log, base_offset: int | None = None, now_ms: int = 0) -> None:
        old = log.active
        begun(log, base_offset, now_ms)
        new, log.active = log.active, old
        late.append((log, new))

    def append(log: Log, *more: Any) -> None:
        written(log, *more)
        while late:
            rolled, new = late.pop()
            rolled.active = new

    late: list[tuple[Log, Any]] = []
    begun, written = Log.roll, Log._write
    patch.setattr(Log, "roll", roll)
    patch.setattr(Log, "_write", append)


@pytest.mark.parametrize(
    "mistake",
    [
        appended_to_before_its_files_are_cut,
        flushed_in_its_last_segment_alone,
        written_to_where_the_next_segment_begins,
    ],
    ids=lambda mistake: str(mistake.__name__),
)
def test_a_log_whose_files_do_not_follow_it_in_order_is_found_after_a_crash(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known mistakes, put back in: the crashes above tell each of them."""
    mistake(monkeypatch)
    for seed in range(-1, 3):
        for step in range(300):
            disk, life = FaultyDisk(crash_at=step), Life()
            try:
                with contextlib.suppress(Crash):
                    live_with_workers(disk, life)
                check(disk.process_killed() if seed < 0 else disk.power_cut(seed * 10_000 + step), life)
            except (AssertionError, LogError):
                return
    pytest.fail("no crash shows it")


def test_a_torn_batch_does_not_pass_for_one_that_compaction_has_left() -> None:
    """Its count may be zeros: the segment before it lost its records, and nothing after it may be served."""
    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/d"])
    dirs.load(lambda _: CONFIG)
    log = dirs.create(P, TOPIC_ID, CONFIG)
    for number in range(5):
        log.append_leader(batch(2, size=150), number // 3, 0)
        if number == 1:
            log.roll()
    dirs.checkpoint()
    log.flush()
    first, second = (disk.names[segment.path()] for segment in log.segments)
    assert first is not None
    assert second is not None
    first.data.clear()
    size = len(second.data) // 3
    second.data[size + 57 : 2 * size] = bytes(size - 57)
    again = LogDirs(disk.process_killed(), ["/d"])
    again.load(lambda _: CONFIG)
    log = again.logs[P]
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert len(log.segments) == 1
