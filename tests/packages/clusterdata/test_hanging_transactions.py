"""Transactions that hang, against a fold over the events that were written, whatever lies on disk of them: whole logs,
segments and snapshots of producers, several replicas. That Kafka's own tool finds the same:
tests/live/test_hanging_transactions.py."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.clusterdata.jobs import JOBS
from moldau.clusterdata.jobs.options import JobOptions
from moldau.storage.errors import BrokenFile
from moldau.wire.batch import ControlType, build, control_key
from moldau.wire.records.framing import pack_versioned
from moldau.wire.records.transactions import TransactionLogKey, TransactionLogValue
from tests.examples import examples
from tests.packages.clusterdata.naive import crc32c, replica
from tests.packages.clusterdata.test_job_commands import said
from tests.packages.clusterdata.test_jobs import table

JOB = "hanging-transactions"
STATE = "__transaction_state"
NOW, LONGEST = 10_000_000, 900_000
OLD, YOUNG = NOW - LONGEST - 1, NOW - LONGEST
ONGOING, COMPLETE = 1, 4

Held = Sequence[tuple[str, int]]


def batch(base: int, producer: int, at_ms: int, *, epoch: int = 0, transactional: bool = True) -> bytes:
    return build(
        [(at_ms, None, b"v", ())], base_offset=base, producer_id=producer, producer_epoch=epoch, base_sequence=0,
        transactional=transactional,
    )  # fmt: skip


def marker(base: int, producer: int, at_ms: int, *, epoch: int = 0, coordinator: int = 0) -> bytes:
    value = struct.pack(">hi", 0, coordinator)
    return build(
        [(at_ms, control_key(ControlType.ABORT), value, ())], base_offset=base, producer_id=producer,
        producer_epoch=epoch, control=True, transactional=True,
    )  # fmt: skip


def states(home: Path, *entries: tuple[str, int, int, Held], number: int = 0, broker: int = 1) -> Path:
    """A partition of the coordinators' log: transactional id, producer id, state, the partitions of its transaction."""
    log = []
    for offset, (id, producer, status, held) in enumerate(entries):
        topics = [
            TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=[partition]) for topic, partition in held
        ]
        value = TransactionLogValue(producer_id=producer, transaction_status=status, transaction_partitions=topics)
        key = pack_versioned(TransactionLogKey(transactional_id=id), 0)
        log.append(build([(1, key, pack_versioned(value, 1), ())], base_offset=offset))
    return replica(home, broker, f"{STATE}-{number}", log)


def hanging(*paths: Path, longest_ms: int = LONGEST, topics: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return table(JOB, *paths, now_ms=NOW, longest_ms=longest_ms, topics=topics)


def test_what_no_coordinator_has_hangs_and_what_one_has_or_is_young_does_not(tmp_path: Path) -> None:
    states(tmp_path, ("has it", 1, ONGOING, [("orders", 0)]), ("has another", 2, ONGOING, [("orders", 1)]),
           ("ended", 3, COMPLETE, []))  # fmt: skip
    log = [batch(0, 1, OLD), batch(1, 2, OLD, epoch=5), batch(2, 3, OLD), batch(3, 4, OLD), batch(4, 5, YOUNG),
           batch(5, 6, OLD, transactional=False), batch(6, 7, OLD), marker(7, 7, OLD, coordinator=9),
           batch(8, 7, OLD - 5)]  # fmt: skip
    replica(tmp_path, 1, "orders-0", log)
    found = hanging(tmp_path)
    names = ("producer_id", "producer_epoch", "coordinator_epoch", "start_offset", "last_ms")
    assert [tuple(one[name] for name in names) for one in found] == [
        (2, 5, -1, 1, OLD), (3, 0, -1, 2, OLD), (4, 0, -1, 3, OLD), (7, 0, 9, 8, OLD - 5),
    ]  # fmt: skip
    assert {(one["topic"], one["partition"], one["broker"], one["reason"]) for one in found} == {("orders", 0, 1, None)}
    assert found[0]["silent_ms"] == LONGEST + 1
    assert [one["producer_id"] for one in hanging(tmp_path, longest_ms=LONGEST - 1)] == [2, 3, 4, 5, 7]


def test_the_command_prints_them_and_says_by_its_exit_code_whether_there_are_any(tmp_path: Path) -> None:
    states(tmp_path)
    replica(tmp_path, 1, "orders-0", [batch(0, 1, OLD)])
    code, text = said(JOB, tmp_path, "-o", "json")
    assert (code, [one["producer_id"] for one in json.loads(text)]) == (4, [1])
    code, text = said(JOB, tmp_path, "--max-transaction-timeout", "100000d")
    assert (code, text) == (0, "no transaction hangs in these logs.\n")
    code, text = said(JOB, tmp_path, "--topic", "oders")
    assert (code, "topic oders" in text) == (1, True)


def test_of_several_replicas_the_one_that_goes_furthest_tells(tmp_path: Path) -> None:
    states(tmp_path / "1")
    replica(tmp_path / "1", 1, "orders-0", [batch(0, 1, OLD)])
    replica(tmp_path / "2", 2, "orders-0", [batch(0, 1, OLD), marker(1, 1, OLD), batch(2, 2, OLD)])
    assert [(one["producer_id"], one["broker"]) for one in hanging(tmp_path)] == [(2, 2)]


def test_without_all_of_the_coordinators_log_nothing_is_told(tmp_path: Path) -> None:
    replica(tmp_path, 1, "orders-0", [batch(0, 1, OLD)])
    with pytest.raises(FileNotFoundError, match=STATE):
        hanging(tmp_path)
    code, text = said(JOB, tmp_path)
    assert (code, f"no {STATE}" in text) == (1, True), text
    states(tmp_path, number=3)
    with pytest.raises(BrokenFile, match=f"of {STATE} not there: 0, 1, 2;"):
        hanging(tmp_path)
    code, text = said(JOB, tmp_path)
    assert (code, "not there: 0, 1, 2" in text) == (1, True), text


def test_what_cannot_be_read_and_may_have_said_otherwise_is_named(tmp_path: Path) -> None:
    file = states(tmp_path, ("a", 1, ONGOING, [("orders", 0)]), ("b", 2, ONGOING, []))
    log = replica(tmp_path, 1, "orders-0", [batch(0, 1, OLD), marker(1, 1, OLD), batch(2, 2, OLD)])
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    (one,) = hanging(tmp_path)
    assert (one["producer_id"], one["reason"]) == (2, f"1 place of {STATE} cannot be read")
    whole = bytearray(log.read_bytes())
    whole[len(batch(0, 1, OLD)) + 65] ^= 1
    log.write_bytes(whole)
    found = hanging(tmp_path)
    assert [one["producer_id"] for one in found] == [1, 2]
    assert all("orders-0" in one["reason"] and "checksum" in one["reason"] for one in found)


# ---- against a fold

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(1, 4), st.sampled_from(["write", "write", "end", "plain"]), st.integers(0, 3),
        st.booleans(),
    ),
    min_size=1, max_size=30,
)  # fmt: skip
HOLDS = st.dictionaries(st.integers(1, 4), st.lists(st.integers(0, 1), unique=True), max_size=4)


class Written:
    """A partition, and what is open in it by a fold over the events."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.known: dict[int, list[int]] = {}
        """Producer id -> epoch, epoch of the coordinator, last time, start of what is open."""
        self.snapshots: list[bytes] = [self._snapshot()]

    def add(self, producer: int, what: str, number: int, old: bool) -> None:
        base, at_ms = len(self.log), OLD - number if old else YOUNG + number
        if what == "plain":
            self.log.append(batch(base, 9, at_ms, transactional=False))
        else:
            one = self.known.setdefault(producer, [0, -1, -1, -1])
            one[0], one[2] = number, at_ms
            if what == "write":
                self.log.append(batch(base, producer, at_ms, epoch=number))
                one[3] = base if one[3] < 0 else one[3]
            else:
                self.log.append(marker(base, producer, at_ms, epoch=number, coordinator=number + 5))
                one[1], one[3] = number + 5, -1
        self.snapshots.append(self._snapshot())

    def _snapshot(self) -> bytes:
        """The file that a broker would have written here, by Kafka's format."""
        body = b"".join(
            struct.pack(">qhiqiqiq", id, one[0], -1, -1, 0, one[2], one[1], one[3]) for id, one in self.known.items()
        )
        body = struct.pack(">i", len(self.known)) + body
        return struct.pack(">hI", 1, crc32c(body)) + body


@settings(deadline=None, max_examples=examples(80))
@given(EVENTS, HOLDS, st.sets(st.integers(0, 29)), st.sets(st.integers(0, 30)), st.booleans())
def test_what_hangs_is_what_a_fold_tells(
    events: list[tuple], holds: dict[int, list[int]], rolls: set[int], kept: set[int], deleted: bool
) -> None:
    """Segments begin at ``rolls``, there are snapshots at ``kept``, and what lies before one may be deleted."""
    partitions = [Written(), Written()]
    for number, producer, what, value, old in events:
        partitions[number].add(producer, what, value, old)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        states(home, *((f"t{id}", id, ONGOING, [("orders", one) for one in of]) for id, of in holds.items()))
        for number, one in enumerate(partitions):
            file = replica(home, 1, f"orders-{number}", one.log[:0])
            file.unlink()
            begins = sorted({0} | {at for at in rolls if at < len(one.log)})
            for at, end in zip(begins, [*begins[1:], len(one.log)], strict=True):
                (file.parent / f"{at:020d}.log").write_bytes(b"".join(one.log[at:end]))
            for at in kept:
                if at < len(one.snapshots):
                    (file.parent / f"{at:020d}.snapshot").write_bytes(one.snapshots[at])
            if deleted and begins[-1] in kept:
                for at in begins[:-1]:
                    (file.parent / f"{at:020d}.log").unlink()
        found = hanging(home)
    names = ("partition", "producer_id", "producer_epoch", "coordinator_epoch", "last_ms", "start_offset")
    assert sorted(tuple(one[name] for name in names) for one in found) == sorted(
        (number, id, epoch, coordinator, last_ms, start)
        for number, one in enumerate(partitions)
        for id, (epoch, coordinator, last_ms, start) in one.known.items()
        if start >= 0 and number not in holds.get(id, []) and NOW - last_ms > LONGEST
    )
    assert all(one["reason"] is None for one in found)


def test_of_several_snapshots_the_newest_tells_what_lay_in_segments_that_are_gone(tmp_path: Path) -> None:
    one = Written()
    for event in ((1, "write", 0, True), (2, "write", 0, True), (1, "end", 0, True), (3, "plain", 0, True)):
        one.add(*event)
    states(tmp_path)
    file = replica(tmp_path, 1, "orders-0", one.log[3:])
    for at in (1, 3):
        (file.parent / f"{at:020d}.snapshot").write_bytes(one.snapshots[at])
    assert [(row["producer_id"], row["start_offset"]) for row in hanging(tmp_path)] == [(2, 1)]


def test_a_snapshot_that_is_damaged_or_of_a_log_that_was_cut_off_is_not_believed(tmp_path: Path) -> None:
    one = Written()
    for event in ((1, "write", 0, True), (2, "write", 0, True), (1, "end", 0, True)):
        one.add(*event)
    states(tmp_path)
    file = replica(tmp_path, 1, "orders-0", one.log)
    (file.parent / f"{2:020d}.snapshot").write_bytes(one.snapshots[2][:-1])
    (file.parent / f"{9:020d}.snapshot").write_bytes(one.snapshots[0])
    assert [row["producer_id"] for row in hanging(tmp_path)] == [2]


def test_the_job_in_spark_takes_the_topics_and_the_timeout() -> None:
    assert JOBS[JOB].options == ("topics", "maxTransactionTimeout")
    assert JobOptions(("a",)).longest_ms == LONGEST
