"""Reassignment plans: Kafka's files, and plans that are even, minimal and spread over racks, whatever there was."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.plans import BadPlan, Plan, directories_in, parse, spread, text_of, topics_in
from moldau.model import TopicPartition


def at(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


@st.composite
def assignments(draw: st.DrawFn) -> tuple[Plan, dict[int, str | None], int]:
    """(today's replicas on brokers 0..7, the brokers to use with their racks, replication factor)."""
    factor = draw(st.integers(1, 3))
    brokers = draw(st.lists(st.integers(0, 9), min_size=factor, max_size=8, unique=True))
    racks = {broker: draw(st.sampled_from(["a", "b", "c"])) for broker in brokers}
    replicas = st.lists(st.integers(0, 7), min_size=factor, max_size=factor, unique=True)
    today = draw(st.lists(replicas, min_size=1, max_size=30))
    return {at(number): held for number, held in enumerate(today)}, dict(racks), factor


@given(assignments())
def test_a_plan_uses_the_brokers_given_and_keeps_the_number_of_replicas(
    drawn: tuple[Plan, dict[int, str | None], int],
) -> None:
    today, racks, factor = drawn
    before = {p: list(held) for p, held in today.items()}
    plan = spread(today, racks)
    assert today == before, "what was given is not touched"
    assert plan.keys() == today.keys()
    for replicas in plan.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(racks)


@given(assignments())
def test_without_racks_every_broker_holds_about_as_much_and_leads_about_as_often(
    drawn: tuple[Plan, dict[int, str | None], int],
) -> None:
    today, racks, _factor = drawn
    plan = spread(today, dict.fromkeys(racks))
    held: Counter[int] = Counter()
    for replicas in plan.values():
        held.update(replicas)
    counts = [held[broker] for broker in racks]
    assert max(counts) - min(counts) <= 2, "one round of levelling leaves at most one step more than even"


@given(assignments())
def test_a_plan_that_was_carried_out_is_left_alone(drawn: tuple[Plan, dict[int, str | None], int]) -> None:
    today, racks, _ = drawn
    plan = spread(today, racks)
    for _ in range(40):
        again = spread(plan, racks)
        if again == plan:
            return
        plan = again
    raise AssertionError("it goes on for ever")


def test_racks_come_before_evenness() -> None:
    today = {at(n): [1, 2] for n in range(6)}
    plan = spread(today, {1: "a", 2: "a", 3: "b"})
    assert all(3 in replicas for replicas in plan.values() if replicas not in ([1, 2], [2, 1]))
    gone = spread({at(0): [1, 9]}, {1: "a", 2: "a", 3: "b"})
    assert set(gone[at(0)]) == {1, 3}, "the new replica goes to the other rack"


def test_only_what_must_moves() -> None:
    today = {at(0): [1, 2], at(1): [2, 3], at(2): [3, 1]}
    assert spread(today, dict.fromkeys((1, 2, 3))) == today
    plan = spread(today, dict.fromkeys((1, 2, 4)))
    assert plan[at(0)] == [1, 2]
    assert {frozenset(plan[at(1)]), frozenset(plan[at(2)])} == {frozenset({2, 4}), frozenset({1, 4})}


def test_too_few_brokers_are_named() -> None:
    with pytest.raises(ValueError, match="3 replicas, and there are 2 brokers"):
        spread({at(0): [1, 2, 3]}, dict.fromkeys((1, 2)))


def test_kafka_s_file_is_read_and_written() -> None:
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1],"log_dirs":["any","any"]}]}'
    assert parse(text) == {at(0): [3, 1]}
    assert parse(text_of({at(1): [2], at(0, "a"): [1]})) == {at(0, "a"): [1], at(1): [2]}
    assert topics_in('{"version":1,"topics":[{"topic":"a"},{"topic":"b"}]}') == ["a", "b"]


def test_log_directories_that_are_known_are_written() -> None:
    plan, placed = {at(0): [1, 2], at(1): [2]}, {(at(0), 2): "/a", (at(1), 7): "/b"}
    written = text_of(plan, placed=placed)
    assert directories_in(written) == {(at(0), 2): "/a"}
    assert parse(written) == plan
    assert '"log_dirs":["any","/a"]' in written
    assert written.count("log_dirs") == 1, "where nothing is known nothing is asked for"


def entry(number: int, *replicas: int) -> dict[str, object]:
    return {"topic": "t", "partition": number, "replicas": replicas}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "expected"),
        ("[]", "expected"),
        ('{"partitions": [{"topic": "t"}]}', "expected"),
        (json.dumps({"partitions": [entry(0, 1), entry(0, 2)]}), "listed twice"),
        (json.dumps({"partitions": [entry(0)]}), "no replicas"),
        (json.dumps({"partitions": [entry(0, 1, 1)]}), "broker twice"),
        ('{"partitions": []}', "no partition"),
        ('{"version": 7, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}', "version 7"),
        ('{"partitions": [{"topic": 5, "partition": 0, "replicas": [1]}]}', "expected"),
        ('{"partitions": [{"topic": "t", "partition": 0.5, "replicas": [1]}]}', "0.5"),
        ('{"partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}', "True"),
        ('{"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}', "-1"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": ["2"]}]}', "'2'"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [99999999999]}]}', "99999999999"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": "12"}]}', "expected"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_file_that_is_no_plan_is_told_why(text: str, why: str) -> None:
    with pytest.raises(BadPlan, match=why):
        parse(text)


def test_log_directories_are_read_and_any_is_anywhere() -> None:
    entries = [
        {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/data/b"]},
        {"topic": "t", "partition": 1, "replicas": [2, 3]},
    ]
    assert directories_in(json.dumps({"partitions": entries})) == {(at(0), 2): "/data/b"}


@pytest.mark.parametrize("paths", [["any"], ["any", "data"], ["any", 1], "any", {}])
def test_log_directories_that_are_none_are_refused(paths: object) -> None:
    entries = [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": paths}]
    with pytest.raises(BadPlan, match="log_dirs"):
        directories_in(json.dumps({"partitions": entries}))
