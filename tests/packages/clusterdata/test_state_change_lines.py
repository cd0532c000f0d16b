# ruff: noqa: E501  # lines of logs are as long as they are
"""Every line of a state-change log is a row, whichever way it is read."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.clusterdata.state_changes.arrow import batch, batches
from moldau.clusterdata.state_changes.eras import parse
from moldau.clusterdata.state_changes.lines import (
    COLUMNS,
    CONTINUES,
    CUT_JSON,
    FIELDS,
    TOO_LARGE,
    FileRange,
    blocks,
    fields_of,
    files_of,
    ranges,
    text_of,
)
from moldau.clusterdata.state_changes.sentences import SENTENCES
from moldau.clusterdata.state_changes.shapes import Shapes

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = sorted((ROOT / "tests" / "golden" / "state_changes").rglob("*.gz"))
AT = "[2024-01-31 10:00:00,123]"
STATE = "topicName='a.b-1', partitionIndex=3, controllerEpoch=5, leader=-1, leaderEpoch=7, isr=[1, 2], {}=9,"
STATE += " replicas=[2, 1],"
ADDED = " addingReplicas=[], removingReplicas=[4], isNew=true, leaderRecoveryState=0)"
LINES = [
    f"{AT} INFO [Broker id=2] Follower a.b-1-3 starts at leader epoch 7 from offset 12 with partition epoch 9 and high"
    " watermark 11. Current leader is 1. Previous leader Some(2) and previous leader epoch was 3. (state.change.logger)",
    f"{AT} TRACE [Broker id=2] Received LeaderAndIsr request LeaderAndIsrPartitionState({STATE.format('partitionEpoch')}"
    f"{ADDED} correlation id 8 from controller 1 epoch 5 (state.change.logger)",
    f"{AT} TRACE [Broker id=2] Cached leader info UpdateMetadataPartitionState({STATE.format('zkVersion')}"
    " offlineReplicas=[]) for partition a.b-1-3 in response to UpdateMetadata request sent by controller 1 epoch 5 with"
    " correlation id 8 (state.change.logger)",
    f"{AT} INFO [Controller id=1 epoch=5] Changed partition a.b-1-3 from OnlinePartition to OnlinePartition with state"
    " LeaderAndIsr(leader=-1, leaderEpoch=7, isr=List(), leaderRecoveryState=RECOVERED, partitionEpoch=9)"
    " (state.change.logger)",
    f"{AT} TRACE [Controller id=1 epoch=5] Sending become-follower LeaderAndIsr request LeaderAndIsrPartitionState("
    f"{STATE.format('partitionEpoch')}{ADDED} to broker 2 for partition a.b-1-3 (state.change.logger)",
    f"{AT} TRACE Controller 1 epoch 2 changed partition [foo,0] state from NewPartition to OnlinePartition with leader 1",
    f"{AT} INFO [Broker id=1] Mark replicas foo-0,foo-1 on broker 2 as offline",
    "java.io.IOException: disk",
    "\tat kafka.Thing.run(Thing.scala:1)",
    "",
    '{"time_ms":1706695200123,"node":3,"event":"partition","topic":"t","partition":0,"to":"OnlinePartition","leader":1,'
    '"leaderEpoch":2,"isr":[1],"replicas":[1,2],"why":"created","controller":3,"controllerEpoch":4}',
    '{"time_ms":17066952001',
]


def compared(data: bytes) -> list[dict]:
    """The rows of lines, which are the same whether they are read one by one or many at once."""
    rows = batch("log", 0, data, Shapes(one.name for one in COLUMNS)).to_pylist()
    lines = data.split(b"\n")
    assert len(rows) == len(lines)
    position = 0
    for row, line in zip(rows, lines, strict=True):
        assert (row["position"], row["line"]) == (position, text_of(line))
        position += len(line) + 1
        assert (row["reason"], tuple(row[name] for name in FIELDS)) == fields_of(text_of(line))
    return rows


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_the_recorded_logs_of_each_era_are_read_alike_line_by_line_and_at_once(path: Path) -> None:
    data = gzip.decompress(path.read_bytes()).removesuffix(b"\n")
    rows = compared(data)
    for row in rows:
        event = parse(row["line"].encode())
        assert event is not None
        assert (row["time"], row["leader"], row["leader_epoch"], row["event"]) == (
            event.time, event.leader, event.leader_epoch, event.event,
        )  # fmt: skip


def test_each_sentence_that_is_read_at_once_has_a_line_here() -> None:
    assert all(any(one.pattern.match(line) for line in LINES) for one in SENTENCES.values())


@pytest.mark.parametrize("ms", [10**30, "now", None, -(10**30)])
def test_a_json_line_of_no_time_is_no_entry(ms: object) -> None:
    (row,) = compared(json.dumps({"time_ms": ms, "node": 1}).encode())
    assert row["reason"] == "JSON that does not parse"


def test_what_is_no_entry_is_kept_and_says_why() -> None:
    rows = compared("\n".join(LINES).encode())
    assert [row["reason"] for row in rows] == [None] * 7 + [CONTINUES] * 3 + [None, CUT_JSON]
    assert rows[6]["partitions"] == ["foo-0", "foo-1"]
    assert (rows[10]["node"], rows[10]["state"], rows[10]["why"]) == (3, "OnlinePartition", "created")


def test_a_number_that_no_cluster_has_is_a_reason_and_no_error() -> None:
    (row,) = compared(LINES[0].replace("epoch 7", "epoch 70000000000").encode())
    assert row["reason"] == TOO_LARGE
    (row,) = compared(LINES[0].replace("epoch 7", "epoch " + "7" * 5000).encode())
    assert row["reason"] == TOO_LARGE
    of_lists = re.compile(r"(isr=List\(|isr=\[|replicas=\[)\d")
    listed = [of_lists.sub(r"\g<1>70000000000", one) for one in LINES if of_lists.search(one)]
    assert {row["reason"] for row in compared("\n".join(listed).encode())} == {TOO_LARGE}


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_lines_that_were_garbled_are_read_alike_too(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(LINES))
    at = data.draw(st.integers(0, len(line)))
    put = data.draw(st.sampled_from(["", "9", "-", " ", "]", "[", "\u00e9", "'", ",", "a-1", "partition x-2 "]))
    compared((line[:at] + put + line[at + data.draw(st.integers(0, 3)) :]).encode())


TOPICS = ("a.b-1", "a1.b-", "a.b1", "a.b", "a.b-20240131120000", "1", "x" * 250)
NUMBERS = st.one_of(st.integers(0, 30), st.sampled_from([0, 9, 10, 999_999_999, 1_000_000_000, 10**12]))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(LINES[:5]), st.randoms(use_true_random=False)), min_size=1, max_size=12),
    st.data(),
)
def test_lines_of_one_shape_with_any_numbers_are_read_alike(
    given: list[tuple[str, Random]], data: st.DataObject
) -> None:
    """Also where a topic's name has digits, and where two texts without digits are one although the lines differ."""

    def changed(line: str, random: Random, number: int) -> str:
        some = re.sub(
            r"(?<=[ =\[(-])\d+(?=[ ,.)\]])", lambda match: str(number) if random.random() < 0.3 else match[0], line
        )
        return some.replace("a.b-1", random.choice(TOPICS))

    lines = [changed(line, random, data.draw(NUMBERS)) for line, random in given]
    compared("\n".join(lines).encode())


def test_the_columns_that_are_asked_for_are_those_of_all(tmp_path: Path) -> None:
    log = tmp_path / "state-change.log"
    log.write_text("\n".join(LINES))
    (everything,) = batches(FileRange(str(log), 0, None))
    for names in (["time"], ["line", "leader"], ["isr", "reason", "topic", "controller"]):
        asked = tuple(one for one in COLUMNS if one.name in names)
        (some,) = batches(FileRange(str(log), 0, None), asked)
        assert some.equals(everything.select([one.name for one in asked]))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([*LINES[5:10], "\u00e9", LINES[0]]), min_size=1, max_size=12),
    st.integers(1, 400),
    st.booleans(),
)
def test_ranges_that_meet_share_no_line_and_lose_none(lines: list[str], size: int, ended: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended or lines == [""] else b"")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/state-change.log"
        Path(path).write_bytes(data)
        found = [block for part in ranges(path, size) for block in blocks(part, 64)]
        rows = [row for part in ranges(path, size) for one in batches(part) for row in one.to_pylist()]
    assert b"\n".join(block for _, block in found) == data.removesuffix(b"\n")
    assert [row["line"] for row in rows] == data.removesuffix(b"\n").decode().split("\n")
    for row in rows:
        line = row["line"].encode()
        assert data[row["position"] : row["position"] + len(line)] == line


def test_folders_patterns_and_packed_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    log, twin = tmp_path / "node-1" / "state-change.log.1.gz", tmp_path / "node-1" / "state-change.jsonl"
    log.write_bytes(gzip.compress(LINES[0].encode()))
    twin.write_text(json.dumps({"time_ms": 1_706_695_200_123}) + "\n")
    assert files_of(str(tmp_path)) == sorted([str(log), str(twin)])
    assert files_of(f"{tmp_path}/*/state-change.log*") == [str(log)]
    assert ranges(str(log), 1) == [FileRange(str(log), 0, None)]
    (row,) = [row for one in batches(FileRange(str(log), 0, None)) for row in one.to_pylist()]
    assert row["leader"] == 1
    with pytest.raises(FileNotFoundError):
        files_of(str(tmp_path / "nothing"))
