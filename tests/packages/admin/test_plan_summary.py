"""What a plan costs is counted right: replicas and bytes in and out, seconds at a rate, skew, racks."""

from __future__ import annotations

import json

import pytest

from moldau.admin.plans import BadPlan
from moldau.admin.rate import bytes_text, time_text
from moldau.admin.reassignment.plan_command import sizes_in
from moldau.admin.reassignment.summary import summarize
from moldau.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_moves_are_counted_by_broker_and_bytes_by_whom_they_are_copied_from() -> None:
    found = summarize(
        {A: [1, 2], B: [1, 2]},
        {A: [3, 2], B: [1, 2]},
        {1: "a", 2: "a", 3: "b"},
        sizes={A: 1000, B: 10},
        leaders={A: 2, B: 1},
        rate=100,
    )
    assert (found.partitions, found.replicas_to_move, found.bytes_to_move, found.leaders_to_change) == (1, 1, 1000, 1)
    assert found.seconds == 10
    assert (found.too_few_racks, found.too_few_racks_after) == (2, 1)
    loads = {one.broker: one for one in found.brokers}
    assert (loads[1].moves_out, loads[2].moves_out, loads[3].moves_in) == (1, 0, 1)
    assert (loads[2].bytes_out, loads[3].bytes_in, loads[1].bytes_after, loads[3].bytes_after) == (1000, 1000, 10, 1000)
    assert [(one.what, one.before, one.after) for one in found.skew] == [
        ("replicas", 150.0, 75.0), ("leaders", 300.0, 150.0), ("bytes", 150.0, 148.5),
    ]  # fmt: skip


def test_a_drained_broker_is_left_out_of_what_is_to_be_even() -> None:
    found = summarize({A: [1], B: [2]}, {A: [2], B: [2]}, {1: None, 2: None}, sizes={}, leaders={}, targets=[2])
    assert [(one.before, one.after) for one in found.skew] == [(0.0, 0.0)] * 3


def test_bytes_and_seconds_are_told_as_people_do() -> None:
    assert [bytes_text(n) for n in (0, 999, 1500, 3_400_000_000, 5e15)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "3.4 GB",
        "5000.0 TB",
    ]
    assert [time_text(n) for n in (0.4, 61, 7500)] == ["0 s", "1 min 1 s", "2 h 5 min"]


def test_the_table_of_the_load_job_gives_the_bytes_of_the_largest_replica() -> None:
    rows = [
        {"topic": "orders", "partition": 0, "broker": broker, "directory": "d", "from_ms": at, "bytes": size}
        for broker, at, size in ((1, None, 5), (1, 0, 10), (1, 3600, 7), (2, 0, 10))
    ]
    assert sizes_in(json.dumps(rows)) == {TopicPartition("orders", 0): 22}


@pytest.mark.parametrize("text", ["", "7", "[7]", "[{}]", '[{"topic": "a", "partition": "x", "bytes": 1}]', "{" * 9])
def test_a_file_that_is_no_such_table_is_refused(text: str) -> None:
    with pytest.raises(BadPlan, match="moldau job load") as refused:
        sizes_in(text)
    assert "Error(" not in str(refused.value)
