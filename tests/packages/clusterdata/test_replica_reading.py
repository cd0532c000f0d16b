"""Segments of replicas read while their node goes on: cut under the reader, larger than what is read at once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from moldau.clusterdata.replica_check.comparing import ReplicaVerdict
from moldau.clusterdata.replica_check.folders import WINDOW_BYTES, ReadPace, _end, directories, replicas_in, verify
from moldau.model import TopicPartition
from moldau.wire.batch import build
from tests.packages.clusterdata.naive import batch_of, replica

ORDERS = TopicPartition("orders", 0)
VALUE = bytes(64 << 10)
COUNT = 2 * WINDOW_BYTES // len(VALUE)


class Cuts(ReadPace):
    """Cuts a file when a batch of each of two replicas has been read, as a follower that gives up what it has alone."""

    def __init__(self, file: Path, size: int) -> None:
        super().__init__(None)
        self._file, self._size, self._batches = file, size, 0

    def read(self, size: int) -> None:
        self._batches += 1
        if self._batches == 2:
            os.truncate(self._file, self._size)
        super().read(size)


@pytest.mark.parametrize("has_more", [False, True])
def test_a_segment_that_is_cut_while_it_is_read_ends_the_log_there(tmp_path: Path, has_more: bool) -> None:
    batches = [batch_of(number, [VALUE]) for number in range(COUNT)]
    following = [batch_of(COUNT, [b"more"])] if has_more else []
    replica(tmp_path / "1", 1, "orders-0", batches, high=COUNT + len(following))
    cut = replica(tmp_path / "2", 2, "orders-0", batches, high=COUNT)
    for home in ("1", "2"):
        for batch in following:
            (tmp_path / home / "orders-0" / f"{COUNT:020d}.log").write_bytes(batch)
    found = replicas_in(directories([str(tmp_path)]))[ORDERS]
    first, second = verify(found, Cuts(cut, len(VALUE)))
    assert first.verdict is ReplicaVerdict.OK
    assert second.verdict is ReplicaVerdict.LAGGING
    assert second.offset is not None
    assert second.offset < COUNT


def test_a_replica_that_ends_before_what_is_compared_is_behind_by_what_it_lacks(tmp_path: Path) -> None:
    replica(tmp_path / "1", 1, "orders-0", [batch_of(at, [b"x"]) for at in range(5)])
    replica(tmp_path / "2", 2, "orders-0", [batch_of(at, [b"x"]) for at in range(6, 10)], high=10)
    replica(tmp_path / "3", 3, "orders-0", [])
    (tmp_path / "4").mkdir()
    (replica(tmp_path / "4", 4, "orders-0", [])).rename(tmp_path / "4" / "orders-0" / f"{6:020d}.log")
    found = verify(replicas_in(directories([str(tmp_path)]))[ORDERS], ReadPace(None))
    assert [(one.verdict.value, one.offset, one.detail) for one in found] == [
        ("LAGGING", 5, "5 offsets behind"),
        ("OK", None, ""),
        ("LAGGING", 0, "10 offsets behind"),
        ("LAGGING", 6, "4 offsets behind"),
    ]


def test_a_batch_larger_than_what_is_read_at_once_is_compared_too(tmp_path: Path) -> None:
    batches = [batch_of(0, [b"small"]), batch_of(1, [bytes(WINDOW_BYTES + 5)]), batch_of(2, [b"last"])]
    for broker in (1, 2):
        file = replica(tmp_path / str(broker), broker, "orders-0", batches, high=3)
    with file.open("r+b") as opened:
        opened.seek(len(batches[0]) + WINDOW_BYTES)
        opened.write(b"x")
    found = replicas_in(directories([str(tmp_path)]))[ORDERS]
    pace = ReadPace(None)
    first, second = verify(found, pace)
    assert first.verdict is ReplicaVerdict.OK
    assert (second.verdict, second.offset) == (ReplicaVerdict.DIVERGED, 1)
    assert pace.total == 2 * sum(map(len, batches)) - len(batches[2])


def test_bytes_between_two_segments_that_are_no_batch_are_a_difference(tmp_path: Path) -> None:
    batches = [batch_of(0, [b"a"])]
    for broker, more in ((1, b""), (2, bytes(70)), (3, bytes(7))):
        with replica(tmp_path / str(broker), broker, "orders-0", batches, high=6).open("ab") as file:
            file.write(more)
        (tmp_path / str(broker) / "orders-0" / f"{5:020d}.log").write_bytes(batch_of(5, [b"b"]))
    found = verify(replicas_in(directories([str(tmp_path)]))[ORDERS], ReadPace(None))
    assert [one.verdict for one in found] == [ReplicaVerdict.OK, ReplicaVerdict.DIVERGED, ReplicaVerdict.DIVERGED]


def test_the_end_of_a_log_is_found_by_lengths_wherever_windows_of_small_and_large_batches_meet(tmp_path: Path) -> None:
    rng = random.Random(5)
    file = tmp_path / f"{0:020d}.log"
    for _ in range(20):
        data, ends, offset = b"", [0], 0
        while len(data) < 600_000:
            size = rng.choice([10, 500, 8_000, 40_000, 300_000])
            data += build([(0, None, bytes(size), ())] * 2, base_offset=offset)
            offset += 2
            ends.append(len(data))
        for cut in (len(data), rng.randrange(len(data)), ends[-2] + 60):
            file.write_bytes(data[:cut])
            whole = sum(end <= cut for end in ends) - 1
            assert _end([(0, str(file))]) == 2 * whole
