"""The tables of jobs, each against a naive way to the same answer over the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.clusterdata.jobs import JOBS, all_rows
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.jobs.splits import EPOCH_BACK, ISR_OUTSIDE, TWO_CONTROLLERS, TWO_LEADERS
from moldau.clusterdata.replica_check.comparing import ReplicaVerdict
from moldau.groups.codec import pack
from moldau.groups.records import GroupRecord, OffsetRecord, StoredGroup, StoredMember, StoredOffset
from moldau.wire.batch import ControlType, build, control_key
from tests.packages.clusterdata.naive import batch_of, fields, replica


def table(job: str, *paths: Path, **wish: Any) -> list[dict]:
    """The rows of a job by the names of their columns."""
    names = [one.name for one in JOBS[job].columns]
    rows = all_rows(JOBS[job], JobOptions(tuple(map(str, paths)), **wish))
    return [dict(zip(names, row, strict=True)) for row in rows]


# ---- state-change logs

AT = "[2024-01-31 10:00:{:02d},000] INFO"


def leader_line(second: int, node: int, partition: int, epoch: int, leader: int) -> str:
    return (
        f"{AT.format(second)} [Broker id={node}] Follower orders-{partition} starts at leader epoch {epoch} from offset"
        f" 0 with partition epoch 1 and high watermark 0. Current leader is {leader}. Previous leader None and previous"
        " leader epoch was -1. (state.change.logger)"
    )


def controller_line(second: int, controller: int, epoch: int) -> str:
    return f"{AT.format(second)} [Controller id={controller} epoch={epoch}] Sending UpdateMetadata request to brokers"


def logs(home: Path, lines: list[tuple[int, str]]) -> None:
    for node in {node for node, _ in lines}:
        (home / f"node-{node}").mkdir(parents=True, exist_ok=True)
        text = "\n".join(line for of, line in lines if of == node) + "\n"
        (home / f"node-{node}" / "state-change.log").write_text(text)


FACTS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 3), st.integers(-1, 2)), min_size=1, max_size=15
)


@settings(deadline=None, max_examples=60)
@given(FACTS)
def test_splits_of_leaders_and_epochs_are_those_that_comparing_every_two_lines_finds(
    facts: list[tuple[int, int, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        logs(Path(folder), [(fact[0], leader_line(second, *fact)) for second, fact in enumerate(facts)])
        rows = table("splits", Path(folder))
    two = {(r["partition"], r["epoch"], *sorted(r["nodes"])) for r in rows if r["finding"] == TWO_LEADERS}
    expected = {
        (p, e, min(a, b), max(a, b))
        for _, p, e, a in facts
        for _, q, f, b in facts
        if (p, e) == (q, f) and a != b and min(a, b) >= 0
    }
    assert two == expected
    back = [(r["nodes"], r["partition"], r["epoch"]) for r in rows if r["finding"] == EPOCH_BACK]
    fell = []
    for at, (node, partition, epoch, _) in enumerate(facts):
        before = [e for n, p, e, _ in facts[:at] if (n, p) == (node, partition)]
        if before and epoch < before[-1]:
            fell.append(([node], partition, epoch))
    assert back == fell
    assert {r["finding"] for r in rows} <= {TWO_LEADERS, EPOCH_BACK}


def test_two_controllers_in_an_epoch_and_a_stranger_in_the_isr_are_found_once(tmp_path: Path) -> None:
    state = (
        "LeaderAndIsrPartitionState(topicName='orders', partitionIndex=1, controllerEpoch=5, leader=1, leaderEpoch=7,"
        " isr=[1, 9], partitionEpoch=9, replicas=[2, 1], addingReplicas=[], removingReplicas=[], isNew=true)"
    )
    told = f"[Broker id=3] Received LeaderAndIsr request {state} correlation id 8 from controller 2 epoch 6"
    logs(tmp_path, [
        (1, controller_line(1, 1, 5)), (1, controller_line(2, 1, 5)), (2, controller_line(3, 2, 5)),
        (2, controller_line(4, 2, 6)),
        (3, f"{AT.format(5)} {told}"),
    ])  # fmt: skip
    found = [(row["finding"], row["epoch"], row["nodes"], row["told_by"]) for row in table("splits", tmp_path)]
    assert found == [(TWO_CONTROLLERS, 5, [1, 2], [1, 2]), (ISR_OUTSIDE, 7, [9], [3])]


def test_a_topic_made_anew_begins_again_at_epoch_zero(tmp_path: Path) -> None:
    made = AT + " [Broker id=1] Creating new partition orders-0 with topic id {}. (state.change.logger)"
    ids = ["NO5GCeygR0Su-hSGbyvOMA", "TPT3wcYRSui1RJQrY0TFxg"]
    lines = [(1, made.format(1, ids[0])), (1, leader_line(2, 1, 0, 0, 2)), (1, leader_line(3, 1, 0, 1, 3))]
    lines += [(1, made.format(4, ids[1])), (1, leader_line(5, 1, 0, 0, 3))]
    logs(tmp_path, lines)
    assert table("splits", tmp_path) == []
    logs(tmp_path, [line for line in lines if "Creating" not in line[1]])
    assert {row["finding"] for row in table("splits", tmp_path)} == {TWO_LEADERS, EPOCH_BACK}


def test_the_timeline_tells_each_change_of_each_partition(tmp_path: Path) -> None:
    logs(tmp_path, [(1, leader_line(1, 1, 0, 0, 2)), (2, leader_line(2, 2, 0, 1, 3)), (1, leader_line(3, 1, 1, 0, 2))])
    rows = [(r["partition"], r["leader_epoch"], r["leader"], r["seen_by"]) for r in table("timeline", tmp_path)]
    assert rows == [(0, 0, 2, [1]), (0, 1, 3, [2]), (1, 0, 2, [1])]
    assert table("timeline", tmp_path, topics=("others",)) == []


# ---- segments


@st.composite
def copies(draw: st.DrawFn) -> list[list[bytes]]:
    """Three replicas of a log, of which some were cut or changed."""
    log, base = [], 0
    for epoch in sorted(draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))):
        values = draw(st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=3))
        log.append(batch_of(base, values, epoch))
        base += len(values)
    found = [list(log) for _ in range(3)]
    for one in found[1:]:
        at = draw(st.integers(0, len(log) - 1))
        kind = draw(st.sampled_from(["", "cut", "other", "epoch", "rot"]))
        first = fields(log[at])[0]
        count = fields(log[at])[1] - first + 1
        if kind == "cut":
            del one[max(at, 1) :]
        elif kind == "other":
            one[at] = batch_of(first, [b"changed!"] * count, fields(log[at])[2])
        elif kind == "epoch":
            one[at] = log[at][:12] + b"\0\0\0\x09" + log[at][16:]
        elif kind == "rot":
            one[at] = log[at][:-1] + bytes([log[at][-1] ^ 4])
    return found


def naive_verdict(mine: list[bytes], right: list[bytes]) -> tuple[str, int | None]:
    for number, batch in enumerate(right):
        if number >= len(mine):
            return "LAGGING", fields(mine[-1])[1] + 1
        if mine[number] != batch:
            return "DIVERGED", fields(batch)[0]
    return "OK", None


@settings(deadline=None, max_examples=60)
@given(copies())
def test_the_verdict_on_each_replica_is_that_of_comparing_bytes(found: list[list[bytes]]) -> None:
    high = fields(found[0][-1])[1] + 1
    with tempfile.TemporaryDirectory() as folder:
        for broker, log in enumerate(found):
            replica(Path(folder) / str(broker), broker, "orders-0", log, high=high)
        rows = table("verify", Path(folder))
    verdicts = [(row["broker"], (row["verdict"], row["offset"])) for row in rows]
    assert verdicts == [(broker, naive_verdict(log, found[0])) for broker, log in enumerate(found)]


def test_a_replica_that_was_assigned_and_is_not_there_is_missing(tmp_path: Path) -> None:
    from moldau.wire.records import metadata as records
    from moldau.wire.records.framing import pack_metadata

    id = bytes(15) + b"\1"
    told = [
        records.TopicRecord(name="orders", topic_id=id),
        records.PartitionRecord(partition_id=0, topic_id=id, replicas=[0, 5], isr=[0], leader=0, leader_epoch=0),
    ]
    log = build([(1, None, pack_metadata(one), ()) for one in told])
    replica(tmp_path / "0", 0, "__cluster_metadata-0", [log])
    replica(tmp_path / "0", 0, "orders-0", [batch_of(0, [b"a"])], high=1)
    rows = [(r["topic"], r["broker"], r["verdict"]) for r in table("verify", tmp_path)]
    assert rows == [("orders", 0, ReplicaVerdict.OK.value), ("orders", 5, ReplicaVerdict.MISSING.value)]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), min_size=1, max_size=12), st.integers(1, 20))
def test_the_load_is_the_sum_over_spans_of_time(written: list[tuple[int, int]], every: int) -> None:
    log, sums, base = [], dict[int, list[int]](), 0
    for at, count in written:
        log.append(batch_of(base, [b"x"] * count, at_ms=at))
        base += count
        one = sums.setdefault((at + count - 1) // every * every, [0, 0, 0])
        one[0], one[1], one[2] = one[0] + len(log[-1]), one[1] + count, one[2] + 1
    with tempfile.TemporaryDirectory() as folder:
        path = replica(Path(folder), 4, "orders-3", log)
        path.write_bytes(path.read_bytes() + b"\1\2\3")
        rows = table("load", Path(folder), every_ms=every)
    assert {r["from_ms"]: [r["bytes"], r["records"], r["batches"]] for r in rows} == {**sums, None: [3, 0, 0]}
    assert (rows[0]["damaged"], rows[0]["broker"], rows[0]["partition"]) == (3, 4, 3)


# ---- __consumer_offsets

COMMITS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(0, 1), st.one_of(st.none(), st.integers(0, 30)), st.integers(0, 3),
        st.sampled_from(["plain", "plain", "held", "commit", "abort"]),
    ),
    min_size=1, max_size=14,
)  # fmt: skip


def marker(base: int, producer: int, kind: ControlType, at_ms: int) -> bytes:
    return build(
        [(at_ms, control_key(kind), b"\0\0\0\0\0\0", ())], base_offset=base, producer_id=producer, producer_epoch=0,
        control=True, transactional=True,
    )  # fmt: skip


def committed(home: Path, commits: list[tuple]) -> tuple[dict, list[tuple]]:
    """A log of __consumer_offsets; the newest of each key, and all commits that count, by a fold over dictionaries."""
    log, newest, counted, held = [], {}, [], dict[int, list]()

    def count(entry: tuple) -> None:
        key, value, offset = entry
        if key not in newest or newest[key][1] < offset:
            newest[key] = (value, offset)
        if value is not None:
            counted.append(entry)

    for offset, (group, partition, value, producer, kind) in enumerate(commits):
        if kind in ("commit", "abort"):
            control = ControlType.COMMIT if kind == "commit" else ControlType.ABORT
            log.append(marker(offset, producer, control, offset))
            for entry in held.pop(producer, []):
                if kind == "commit":
                    count(entry)
            continue
        stored = None if value is None else StoredOffset(value, -1, "", 10 * offset)
        key, data = pack(OffsetRecord(group, "orders", partition, stored))
        entry = ((group, "orders", partition), value, offset)
        more = {} if kind == "plain" else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
        log.append(build([(offset, key, data, ())], base_offset=offset, **more))
        if kind == "plain":
            count(entry)
        else:
            held.setdefault(producer, []).append(entry)
    replica(home, 1, "__consumer_offsets-7", log)
    return newest, counted


@settings(deadline=None, max_examples=80)
@given(COMMITS)
def test_the_offsets_of_groups_are_those_of_a_fold_transactions_and_all(commits: list[tuple]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        newest, _ = committed(Path(folder), commits)
        rows = table("offsets", Path(folder))
        one = table("offsets", Path(folder), groups=("a",))
    found = {(r["group"], r["topic"], r["partition"]): (r["offset"], r["log_offset"]) for r in rows}
    assert found == newest
    assert {r["tombstone"] for r in rows if r["offset"] is None} <= {True}
    assert {r["group"] for r in one} <= {"a"}


@settings(deadline=None, max_examples=60)
@given(COMMITS, st.lists(st.tuples(st.integers(0, 200), st.integers(1, 3)), max_size=8))
def test_the_lag_of_each_commit_is_that_of_looking_through_all_batches(
    commits: list[tuple], written: list[tuple[int, int]]
) -> None:
    log, ends, base, latest = [], [], 0, -1
    for at, count in written:
        log.append(batch_of(base, [b"x"] * count, at_ms=at))
        base += count
        latest = max(latest, at + count - 1)
        ends.append((latest, base))
    with tempfile.TemporaryDirectory() as folder:
        _, counted = committed(Path(folder) / "1", commits)
        if log:
            replica(Path(folder) / "1", 1, "orders-0", log)
        rows = table("lag", Path(folder))
    expected = []
    for (group, topic, partition), value, offset in counted:
        end = None
        if partition == 0 and log:
            end = max((end for at, end in ends if at <= 10 * offset), default=0)
        expected.append((group, topic, partition, value, end, None if end is None else max(end - value, 0)))
    keys = ("group", "topic", "partition", "committed", "log_end", "lag")
    assert [tuple(row[key] for key in keys) for row in rows] == expected


def test_groups_tell_their_members_and_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    member = StoredMember("m-1", None, "app", "/127.0.0.1", 1, 2, b"", b"")
    stored = StoredGroup("consumer", 3, "range", "m-1", 77, (member,))
    first = build([(1, *pack(GroupRecord("g", stored)), ())], base_offset=0)
    gone = build([(1, *pack(GroupRecord("h", None)), ()), (1, b"\0", b"x", ())], base_offset=1)
    rotten = bytearray(build([(1, *pack(GroupRecord("i", stored)), ())], base_offset=3))
    rotten[-1] ^= 1
    replica(tmp_path, 1, "__consumer_offsets-0", [first, gone, bytes(rotten)])
    rows = table("groups", tmp_path)
    assert [(r["group"], r["generation"], r["members"], r["clients"], r["tombstone"]) for r in rows[:2]] == [
        ("g", 3, ["m-1"], ["app@/127.0.0.1"], False), ("h", None, None, None, True),
    ]  # fmt: skip
    assert (rows[2]["log_offset"], rows[2]["reason"]) == (2, "a versioned blob needs 2 bytes, 1 are there")
    assert "the checksum is wrong" in rows[3]["reason"]


def test_the_replica_that_goes_furthest_is_read(tmp_path: Path) -> None:
    def commit(base: int, value: int) -> bytes:
        return build([(1, *pack(OffsetRecord("g", "t", 0, StoredOffset(value, -1, "", 5))), ())], base_offset=base)

    replica(tmp_path / "1", 1, "__consumer_offsets-0", [commit(0, 4)])
    replica(tmp_path / "2", 2, "__consumer_offsets-0", [commit(0, 4), commit(1, 9)])
    assert [row["offset"] for row in table("offsets", tmp_path)] == [9]


@pytest.mark.parametrize("job", JOBS)
def test_a_folder_that_is_not_there_is_named(job: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        table(job, tmp_path / "nothing")
