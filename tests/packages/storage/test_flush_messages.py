"""Records that wait for a flush that flush.messages wants and somebody else runs: what counts as durable, and when."""

from __future__ import annotations

import pytest

from moldau.storage import Log, LogConfig
from moldau.storage.flush import Flush
from moldau.storage.names import EPOCHS
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_log import TOPIC_ID, P, batch
from tests.packages.storage.test_log_dirs import loaded


def waiting_log() -> tuple[Log, list[Log]]:
    """A log that wants each record flushed, and whom it has told so."""
    dirs = loaded(FaultyDisk())
    log = dirs.create(P, TOPIC_ID, LogConfig(flush_messages=1))
    wanted: list[Log] = []
    log.dir.on_flush_wanted = wanted.append
    return log, wanted


def flush_of(log: Log) -> Flush:
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    return flush


def test_what_comes_during_a_flush_waits_for_the_next_one() -> None:
    log, wanted = waiting_log()
    log.append_leader(batch(2), 0, 0)
    flush = flush_of(log)
    log.append_leader(batch(3), 0, 0)
    assert (log.settled_end, log.log_end_offset, len(wanted)) == (0, 5, 2)
    log.end_flush(flush)
    assert (log.settled_end, log.awaits_flush) == (2, True)
    log.end_flush(flush_of(log))
    assert (log.settled_end, log.awaits_flush) == (5, False)


@pytest.mark.parametrize("cut_to", [0, 2, 3])
def test_what_is_cut_during_its_flush_is_not_taken_for_flushed(cut_to: int) -> None:
    log, _ = waiting_log()
    log.append_leader(batch(2), 0, 0)
    log.end_flush(flush_of(log))
    log.append_leader(batch(1), 0, 0)
    log.append_leader(batch(1), 0, 0)
    flush = flush_of(log)
    log.truncate_to(cut_to)
    assert log.settled_end == min(cut_to, 2)
    log.append_leader(batch(5), 1, 0)
    log.end_flush(flush)
    assert log.settled_end <= min(cut_to, 2), "the flush was of what was cut"
    assert log.awaits_flush
    log.end_flush(flush_of(log))
    assert log.settled_end == log.recovery_point == cut_to + 5


def test_a_log_that_starts_over_waits_for_no_flush_of_what_is_gone() -> None:
    log, _ = waiting_log()
    log.append_leader(batch(4), 0, 0)
    flush = flush_of(log)
    log.truncate_fully_at(2)
    assert (log.settled_end, log.awaits_flush) == (2, False)
    log.end_flush(flush)
    assert (log.settled_end, log.recovery_point) == (2, 0)
    log.append_leader(batch(1), 1, 0)
    assert (log.settled_end, log.awaits_flush) == (2, True)
    log.end_flush(flush_of(log))
    assert log.settled_end == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_flush_that_overtakes_another_writes_its_small_files_too(seed: int) -> None:
    log, _ = waiting_log()
    log.append_leader(batch(1), 3, 0)
    slow = log.begin_flush()
    assert slow is not None
    log.append_leader(batch(1), 3, 0)
    log.end_flush(flush_of(log))
    assert log.recovery_point == 2
    disk = log.folder.disk
    assert isinstance(disk, FaultyDisk)
    assert disk.power_cut(seed).read(log.folder.file(EPOCHS)) == b"0\n1\n3 0\n"
    slow.release()
