"""Logs with transactions: where what is decided ends, and which transactions were aborted, over restarts and cuts."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from moldau.storage import Log, LogConfig
from moldau.storage.aborted import AbortedTxn
from moldau.storage.log_dirs import LogDirs
from moldau.storage.transactions import aborted_within, all_aborted
from moldau.wire.batch import build, control_key
from tests.packages.storage.test_log import SMALL, again, fresh

ABORT, COMMIT = 0, 1


def write(log: Log, *whole: bytes) -> None:
    for data in whole:
        log.append_follower(data)
    log.high_watermark = log.log_end_offset


def data(log: Log, producer: int, sequence: int = 0) -> None:
    write(
        log,
        build(
            [(1, b"k", bytes(300), [])], base_offset=log.log_end_offset, producer_id=producer, producer_epoch=0,
            base_sequence=sequence, transactional=True, leader_epoch=0,
        ),
    )  # fmt: skip


def marker(log: Log, producer: int, type: int, coordinator: int = 0) -> None:
    record = (1, control_key(type), pack(">hi", 0, coordinator), [])
    write(
        log,
        build(
            [record], base_offset=log.log_end_offset, producer_id=producer, producer_epoch=0, leader_epoch=0,
            base_sequence=-1, transactional=True, control=True,
        ),
    )  # fmt: skip


def stable(log: Log) -> int:
    return log.producers.stable_offset(log.high_watermark)


def filled(path: Path, config: LogConfig = SMALL) -> tuple[LogDirs, Log, list[AbortedTxn]]:
    """Twenty aborted and twenty committed transactions of three producers in several segments, and an open one."""
    dirs, log = fresh(path, config)
    expected = []
    for number in range(20):
        first = log.log_end_offset
        data(log, 7, number)
        data(log, 8, number)
        marker(log, 7, ABORT)
        expected.append(AbortedTxn(7, first, first + 2, first + 1))
        marker(log, 8, COMMIT)
    data(log, 9)
    assert len(log.segments) > 3
    return dirs, log, expected


def test_what_is_decided_ends_at_the_first_open_transaction_and_at_markers_not_replicated(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    data(log, 7)
    data(log, 8)
    assert stable(log) == 0
    log.high_watermark = 2
    marker(log, 7, ABORT)
    assert log.producers.stable_offset(2) == 0, "the marker may be lost yet"
    assert log.producers.stable_offset(3) == 1
    marker(log, 8, COMMIT)
    assert stable(log) == 4
    assert all_aborted(log) == [AbortedTxn(7, 0, 2, 1)]


def test_index_files_hold_what_kafka_writes(tmp_path: Path) -> None:
    _, log = fresh(tmp_path)
    data(log, 7)
    marker(log, 7, ABORT)
    log.close()
    assert (tmp_path / "t-0" / f"{0:020d}.txnindex").read_bytes() == pack(">hqqqq", 0, 7, 0, 1, 2)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_open_and_aborted_transactions(tmp_path: Path, clean: bool) -> None:
    dirs, log, expected = filled(tmp_path)
    if clean:
        dirs.close()
    _, log = again(tmp_path)
    log.high_watermark = log.log_end_offset
    assert (stable(log), all_aborted(log)) == (80, expected)
    assert aborted_within(log, 3, 9) == expected[1:3]
    log.roll()
    log.close()
    _, log = again(tmp_path)
    assert all_aborted(log) == expected


@pytest.mark.parametrize("how", ["followed", "clean", "killed", "cut", "cut after a stop"])
def test_who_leads_next_knows_which_coordinator_has_ended_a_transaction_last(tmp_path: Path, how: str) -> None:
    """Only the leader that had written the marker knew: of the next one a deposed coordinator, whose request was late,
    had the producer's next transaction ended."""
    dirs, log = fresh(tmp_path)
    data(log, 7)
    marker(log, 7, COMMIT, coordinator=6)
    data(log, 7, 1)
    if how in ("clean", "cut after a stop"):
        dirs.close()
    if how not in ("followed", "cut"):
        _, log = again(tmp_path)
    if how.startswith("cut"):
        log.truncate_to(2)
    known = log.producers.get(7)
    assert known is not None
    assert (known.coordinator_epoch, known.txn_first_offset) == (6, -1 if how.startswith("cut") else 2)
    marker(log, 7, ABORT, coordinator=8)
    assert known.coordinator_epoch == 8


def test_a_damaged_index_is_made_up_for_by_the_log(tmp_path: Path) -> None:
    dirs, log, expected = filled(tmp_path)
    dirs.close()
    (tmp_path / "t-0" / f"{0:020d}.txnindex").write_bytes(b"torn")
    _, log = again(tmp_path)
    assert all_aborted(log) == expected


def test_a_cut_takes_back_what_ended_above_it(tmp_path: Path) -> None:
    dirs, log, expected = filled(tmp_path)
    log.truncate_to(42)  # inside the eleventh pair: both have written, neither has ended
    assert (stable(log), all_aborted(log)) == (40, expected[:10])
    marker(log, 7, COMMIT)
    marker(log, 8, COMMIT)
    dirs.close()
    _, log = again(tmp_path)
    log.high_watermark = log.log_end_offset
    assert (stable(log), all_aborted(log)) == (44, expected[:10])
