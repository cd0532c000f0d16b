"""Replicas compared: what differs is found where it begins, whatever it is, and nothing else is accused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.replica import replica
from moldau.clusterdata.replica_check.comparing import ComparedBatch, ReplicaVerdict, compare
from moldau.model import TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage import LogConfig, LogDirs
from moldau.storage.checkpoints import MetaProperties, format_meta, format_offsets
from moldau.storage.names import CLEANED_TO, HIGH_WATERMARKS, META
from moldau.wire.batch import build

T = TopicPartition("orders", 0)
NOW = 1_700_000_000_000
BATCHES = 30


def log(sizes: list[int]) -> list[ComparedBatch]:
    found, offset = [], 0
    for number, size in enumerate(sizes):
        found.append(ComparedBatch(offset, offset + size - 1, number // 3, 100 * size, 7919 * number))
        offset += size
    return found


def damaged(batches: list[ComparedBatch], at: int, how: int) -> list[ComparedBatch]:
    """The same with one batch wrong, or gone."""
    one = batches[at]
    changes: list[Callable[[], list[ComparedBatch]]] = [
        lambda: [one._replace(epoch=one.epoch + 1)],
        lambda: [one._replace(crc=one.crc + 1)],
        lambda: [one._replace(size=one.size + 1)],
        lambda: [one._replace(sound=False)],
        lambda: [one._replace(last_offset=one.last_offset + 1)],
        list,
    ]
    return [*batches[:at], *changes[how](), *batches[at + 1 :]]


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=20),
    st.lists(
        st.one_of(
            st.none(), st.tuples(st.just("short"), st.integers(0, 19)), st.tuples(st.integers(0, 5), st.integers(0, 19))
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 20),
)
def test_each_replica_is_judged_by_what_was_done_to_it(
    sizes: list[int], done: list[tuple[object, int] | None], known: int
) -> None:
    """The leader, number 0, is right; of the others any may be short, or wrong in one batch."""
    right = log(sizes)
    until = right[min(known, len(right) - 1)].last_offset + 1
    replicas = {0: right}
    wanted: dict[int, tuple[ReplicaVerdict, int | None]] = {0: (ReplicaVerdict.OK, None)}
    for id, what in enumerate(done, 1):
        replicas[id], wanted[id] = right, (ReplicaVerdict.OK, None)
        if what is None:
            continue
        how, at = what[0], min(what[1], len(right) - 1)
        offset = right[at].base_offset
        if how == "short" or (how == 5 and at == len(right) - 1):
            replicas[id] = right[:at]
            if offset < until:
                wanted[id] = (ReplicaVerdict.LAGGING, offset)
        else:
            assert isinstance(how, int)
            replicas[id] = damaged(right, at, how)
            if offset < until:
                wanted[id] = (ReplicaVerdict.DIVERGED, offset)
    found = compare({id: iter(batches) for id, batches in replicas.items()}, until, 0)
    assert {one.replica: (one.verdict, one.offset) for one in found} == wanted


def node(folder: Path, broker: int) -> Path:
    """A log directory with a log of some segments."""
    path = folder / f"node-{broker}"
    dirs = LogDirs(RealDisk(), [str(path)])
    config = LogConfig(internal_segment_bytes=3000)
    dirs.load(lambda _: config)
    made = dirs.create(T, bytes(range(16)), config)
    for number in range(BATCHES):
        entries = [(NOW + number, b"key", b"v" * 100, ()) for _ in range(3)]
        assert made.append_leader(bytearray(build(entries)), number // 10, NOW).code == 0
    made.high_watermark = made.log_end_offset
    made.flush()
    dirs.checkpoint()
    dirs.close()
    (path / META).write_bytes(format_meta(MetaProperties(cluster_id="c", node_id=broker)))
    (path / HIGH_WATERMARKS).write_bytes(format_offsets({T: BATCHES * 3}))
    return path


def test_a_directory_that_is_named_twice_is_one_replica_and_a_copy_of_a_folder_is_told(
    nodes: list[Path], tmp_path: Path
) -> None:
    """Two names of one directory, and a copy of it, were two replicas that are well."""
    twice = verify(nodes[0], nodes[0] / ".." / "node-1", nodes[1], "--all", "-o", "json")
    assert [row["broker"] for row in json.loads(twice.stdout)] == [1, 2]
    shutil.copytree(nodes[0], tmp_path / "copy")
    copied = verify(nodes[0], tmp_path / "copy")
    assert copied.exit_code == 1
    assert f"copy/orders-0: broker 1 has orders-0 in {nodes[0] / 'orders-0'}, too" in copied.stderr


def test_a_partition_that_one_of_several_brokers_has_is_told(nodes: list[Path]) -> None:
    shutil.rmtree(nodes[1] / "orders-0")
    told = verify(nodes[0], nodes[1], nodes[2])
    assert "with one of these" not in told.stderr
    shutil.rmtree(nodes[2] / "orders-0")
    other = nodes[1] / "other-0"
    shutil.copytree(nodes[0] / "orders-0", other)
    told = verify(nodes[0], nodes[1])
    assert "2 partitions lie with one of these 2 brokers only: whether others are to have them" in told.stderr


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    return [node(tmp_path, broker) for broker in (1, 2, 3)]


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(replica, ["verify", "--folders", "-o", "json", *map(str, arguments)])


def rows(result: Result) -> list[tuple[int, str, int | None]]:
    return [(row["broker"], row["verdict"], row["offset"]) for row in json.loads(result.stdout)]


def test_folders_that_are_equal_are_well(nodes: list[Path]) -> None:
    done = verify("--all", *nodes)
    assert done.exit_code == 0, done.output
    assert rows(done) == [(1, "OK", None), (2, "OK", None), (3, "OK", None)]
    assert "3 of 3 replicas of 1 partition are well" in done.stderr


@pytest.mark.parametrize("file", range(3))
def test_one_flipped_bit_is_found_with_its_offset(nodes: list[Path], file: int) -> None:
    path = sorted((nodes[1] / "orders-0").glob("*.log"))[file]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = verify(*nodes)
    assert done.exit_code == 4
    ((broker, verdict, offset),) = rows(done)
    following = sorted((nodes[1] / "orders-0").glob("*.log"))[file + 1]
    assert (broker, verdict, offset) == (2, "DIVERGED", int(following.stem) - 3)
    assert "its checksum is wrong" in done.stdout


def test_a_segment_that_is_gone_or_cut_in_the_middle_diverges_and_one_at_the_end_lags(nodes: list[Path]) -> None:
    first, second, *_, last = sorted((nodes[2] / "orders-0").glob("*.log"))
    last.unlink()
    assert rows(verify(*nodes)) == [(3, "LAGGING", int(last.stem))]
    assert verify(*nodes).exit_code == 1
    second.write_bytes(second.read_bytes()[:-5])
    (found,) = rows(verify(*nodes))
    assert found[:2] == (3, "DIVERGED")
    second.unlink()
    assert rows(verify(*nodes)) == [(3, "DIVERGED", int(second.stem))]
    assert verify(*nodes).exit_code == 4
    assert first.exists()


def test_what_is_above_the_high_watermark_or_below_a_later_start_is_nobodys_fault(nodes: list[Path]) -> None:
    for path in nodes:
        (path / HIGH_WATERMARKS).write_bytes(format_offsets({T: 60}))
    files = sorted((nodes[0] / "orders-0").glob("*.log"))
    files[0].unlink()  # retention was here earlier than at the others
    files[-1].write_bytes(files[-1].read_bytes()[:-9])
    assert verify(*nodes).exit_code == 0


def test_of_a_compacted_log_only_what_nobody_has_compacted_is_compared(nodes: list[Path]) -> None:
    files = sorted((nodes[0] / "orders-0").glob("*.log"))
    files[1].write_bytes(b"")
    assert verify(*nodes).exit_code == 4
    (nodes[0] / CLEANED_TO).write_bytes(format_offsets({T: int(files[2].stem)}))
    assert verify(*nodes).exit_code == 0


def test_folders_that_are_none_are_named_in_one_line(tmp_path: Path, nodes: list[Path]) -> None:
    for path, why in ((tmp_path / "no", "No such directory"), (nodes[0] / "orders-0", "no meta.properties in it")):
        done = verify(path)
        assert done.exit_code == 1
        assert done.stderr.startswith(f"moldau: {path}: {why}")
        assert done.stderr.count("\n") == 1
    shutil.rmtree(nodes[0] / "orders-0")
    assert verify("--topic", "nothing", *nodes).exit_code == 1


@pytest.mark.parametrize("mark", [None, 10])
def test_what_was_not_compared_is_not_called_well(nodes: list[Path], mark: int | None) -> None:
    """Without the checkpoint, nothing was compared and all was well; with an old one, nearly nothing."""
    path = sorted((nodes[1] / "orders-0").glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for one in nodes:
        (one / HIGH_WATERMARKS).unlink() if mark is None else (one / HIGH_WATERMARKS).write_bytes(
            format_offsets({T: mark})
        )
    done = verify("--all", *nodes)
    compared = {row["broker"]: row["compared_to"] for row in json.loads(done.stdout)}
    if mark is None:
        assert (done.exit_code, rows(done)[1][1]) == (4, "DIVERGED")
        assert set(compared.values()) == {BATCHES * 3}
        assert f"orders-0: compared up to offset {BATCHES * 3}: no checkpoint names the high watermark" in done.stderr
    else:
        assert set(compared.values()) == {10}
        assert f"orders-0: compared up to offset 10: all logs go on to {BATCHES * 3}" in done.stderr


def test_a_replica_without_records_is_not_well_where_nobody_knows_the_high_watermark(nodes: list[Path]) -> None:
    for one in nodes:
        (one / HIGH_WATERMARKS).unlink()
    for file in (nodes[2] / "orders-0").glob("*.log"):
        file.unlink()
    done = verify(*nodes)
    assert (done.exit_code, rows(done)) == (1, [(3, "LAGGING", 0)])


def test_without_checkpoint_logs_are_compared_up_to_where_the_shortest_ends(nodes: list[Path]) -> None:
    for one in nodes:
        (one / HIGH_WATERMARKS).unlink()
    last = sorted((nodes[2] / "orders-0").glob("*.log"))[-1]
    last.unlink()
    done = verify("--all", *nodes)
    assert (done.exit_code, [row["compared_to"] for row in json.loads(done.stdout)]) == (0, [int(last.stem)] * 3)
    assert f"(the longest log ends at {BATCHES * 3})" in done.stderr
