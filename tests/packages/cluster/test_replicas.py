"""The comparison of replicas: made-up ones, one for each way to differ, and real folders written by a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cluster.kills import replicas
from moldau.cluster.kills.replicas import (
    Stored,
    StoredReplica,
    check_folders,
    compare,
    epochs_in_order,
    read_values,
    same_values,
    sequences_in_order,
)
from moldau.history.checks import DUPLICATED, INCONSISTENT, LOST, Anomaly
from moldau.history.rows import Read
from moldau.model import TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage import LogConfig, LogDirs
from moldau.wire.batch import build

GOOD = [Stored(0, 3, 0, 11, b"a"), Stored(3, 5, 0, 22, b"b"), Stored(5, 6, 2, 33, b"c")]


def replica(batches: list[Stored], node: int = 1, problems: tuple[str, ...] = ()) -> StoredReplica:
    return StoredReplica(node, batches, [(0, 0), (2, 5)], list(problems))


def kinds(found: list[Anomaly]) -> list[str]:
    return [anomaly.kind for anomaly in found]


def test_equal_replicas_have_nothing_to_tell() -> None:
    assert list(compare("t-0", [replica(GOOD), replica(GOOD, 2), replica(GOOD, 3)], 6)) == []


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ([*GOOD[:2], GOOD[2]._replace(crc=34)], replicas.DIVERGED),
        ([*GOOD[:2], GOOD[2]._replace(leader_epoch=1)], replicas.DIVERGED),
        ([*GOOD[:2], GOOD[2]._replace(digest=b"x")], replicas.DIVERGED),
        ([GOOD[0], Stored(3, 4, 0, 22, b"b"), Stored(4, 5, 0, 22, b"d"), GOOD[2]], replicas.DIVERGED),
        ([*GOOD[:2], GOOD[2]._replace(sound=False)], replicas.UNSOUND),
        (GOOD[:2], replicas.SHORT),
        ([], replicas.SHORT),
    ],
)
def test_a_replica_that_differs_below_the_high_watermark_is_told(other: list[Stored], kind: str) -> None:
    assert kind in kinds(list(compare("t-0", [replica(GOOD), replica(other, 2)], 6)))


def test_what_differs_above_the_high_watermark_is_nobodys_business() -> None:
    tail = [*GOOD[:2], Stored(5, 6, 1, 99, b"z"), Stored(6, 7, 1, 99, b"y")]
    assert list(compare("t-0", [replica(GOOD), replica(tail, 2)], 5)) == []


def test_logs_that_snapshots_cut_are_compared_where_both_have_something() -> None:
    assert list(compare("t-0", [replica(GOOD), replica(GOOD[1:], 2)], 6)) == []


def test_a_file_that_does_not_parse_is_told() -> None:
    assert kinds(list(compare("t-0", [replica(GOOD, problems=("torn",)), replica(GOOD, 2)], 6))) == [replicas.UNSOUND]


def test_epochs_that_go_back_and_checkpoints_that_lie_are_told() -> None:
    assert list(epochs_in_order("t-0", replica(GOOD))) == []
    back = [*GOOD, Stored(6, 7, 1, 44, b"d")]
    assert kinds(list(epochs_in_order("t-0", replica(back)))) == [replicas.EPOCHS]
    overlapping = [*GOOD, Stored(5, 7, 2, 44, b"d")]
    assert kinds(list(epochs_in_order("t-0", replica(overlapping)))) == [replicas.EPOCHS]
    for lie in ([(0, 0)], [(0, 0), (2, 4)], [(2, 5), (0, 0)], [(0, 0), (2, 5), (2, 6)]):
        assert kinds(list(epochs_in_order("t-0", replica(GOOD)._replace(epochs=lie)))) == [replicas.EPOCHS]
    more = replica(GOOD)._replace(epochs=[(0, 0), (1, 5), (2, 5), (3, 6)])
    assert list(epochs_in_order("t-0", more)) == []


def test_sequences_that_repeat_or_leave_some_out_are_told() -> None:
    def written(*bases: int, epoch: int = 0) -> StoredReplica:
        return replica([Stored(n, n + 1, 0, n, b"", True, 9, epoch, base) for n, base in enumerate(bases)])

    assert list(sequences_in_order("t-0", written(0, 1, 2))) == []
    assert list(sequences_in_order("t-0", written((1 << 31) - 1, 0))) == []
    assert kinds(list(sequences_in_order("t-0", written(0, 1, 1)))) == [DUPLICATED]
    assert kinds(list(sequences_in_order("t-0", written(0, 1, 3)))) == [replicas.SEQUENCE]
    again = replica([*written(0, 1).batches, *(b._replace(producer_epoch=1) for b in written(0).batches)])
    assert list(sequences_in_order("t-0", again)) == []


def test_what_was_read_must_be_what_is_on_disk() -> None:
    stored = [Read("disk", 0, 0, "a"), Read("disk", 0, 1, "b")]
    assert list(same_values("t-0", stored, stored)) == []
    assert kinds(list(same_values("t-0", stored, stored[:1]))) == [LOST]
    assert kinds(list(same_values("t-0", stored[:1], stored))) == [INCONSISTENT]
    assert kinds(list(same_values("t-0", stored, [stored[0], stored[1]._replace(value="x")]))) == [INCONSISTENT]


def test_real_folders_are_read_compared_and_found_out_after_one_byte_changed(tmp_path: Path) -> None:
    partition = TopicPartition("t", 0)
    for node in (1, 2):
        dirs = LogDirs(RealDisk(), [str(tmp_path / str(node))])
        dirs.load(lambda _: LogConfig())
        log = dirs.create(partition, b"i" * 16, LogConfig())
        for epoch, value in enumerate((b"one", b"two", b"three")):
            log.append_leader(build([(5, None, value, ())]), epoch, 0)
        dirs.close(broker_epoch=1)
    folders = {node: tmp_path / str(node) / "t-0" for node in (1, 2)}

    assert check_folders("t-0", folders, 3) == []
    assert [row.value for row in read_values(folders[1], 0, 2)] == ["one", "two"]
    segment = folders[2] / "00000000000000000000.log"
    damaged = bytearray(segment.read_bytes())
    damaged[-3] ^= 1
    segment.write_bytes(damaged)
    assert set(kinds(check_folders("t-0", folders, 3))) == {replicas.DIVERGED, replicas.UNSOUND}
    assert replicas.SHORT in kinds(check_folders("t-0", folders | {3: tmp_path / "nowhere"}, 3))
