"""One hundred thousand partitions: a broker's death costs its own partitions, counted in looks, not in seconds."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from moldau.controller import change, failures
from moldau.controller.facts import DecisionContext, Facts, Settings, SoftState
from moldau.image import Delta, Image
from moldau.image.partition import Partition, to_record
from moldau.image.registration import Broker, broker_record
from moldau.wire.records.metadata import TopicRecord

BROKERS, TOPICS, PARTITIONS = 100, 100, 1000


@pytest.fixture(scope="module")
def big() -> Image:
    """100 brokers, 100 topics of 1000 partitions, three replicas each."""
    image = Image()
    for id in range(BROKERS):
        image.apply(broker_record(Broker(id, id, bytes(16), fenced=False)))
    for topic in range(TOPICS):
        topic_id = topic.to_bytes(16, "big")
        image.apply(TopicRecord(name=f"topic-{topic}", topic_id=topic_id))
        for number in range(PARTITIONS):
            replicas = tuple((number + topic + n * 7) % BROKERS for n in range(3))
            partition = Partition(
                topic_id, number, replicas, replicas, leader=replicas[0], directories=(bytes(16),) * 3
            )
            image.apply(to_record(partition))
    return image


def view(image: Image) -> DecisionContext:
    return DecisionContext(image, SoftState(Settings()), Facts(now_ms=0, next_offset=0))


def test_a_death_looks_at_the_partitions_of_the_dead_and_at_no_others(
    big: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    real = Image.at

    def counted(self: Image, key: Any) -> Partition:
        nonlocal looks
        looks += 1
        return real(self, key)

    monkeypatch.setattr(Image, "at", counted)
    records = failures.fence(view(big), [5])
    own = len(big.index.assigned[5])
    assert own == 3 * TOPICS * PARTITIONS // BROKERS
    assert len(records) == own + 1
    assert looks <= 3 * own
    assert big.partition_count() == TOPICS * PARTITIONS


def test_settings_are_looked_up_once_for_each_topic(big: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    from moldau.controller import facts

    calls = []
    real = facts.topic_value  # type: ignore[attr-defined]
    monkeypatch.setattr(facts, "topic_value", lambda *args: calls.append(args[1:3]) or real(*args))
    failures.fence(view(big), [5])
    assert len(calls) == len(set(calls)) == TOPICS, "unclean election, once for each topic"


def test_a_delta_holds_what_changed_and_no_more(big: Image) -> None:
    image = big.copy()
    delta = Delta()
    records = failures.fence(view(image), [5])
    image.apply_all(records, delta=delta)
    assert len(delta.partitions) == len(big.index.assigned[5])
    assert len(delta.partition_changes(image)) == len(delta.partitions)
    assert image.index.led.get(5) is None
    assert big.index.led[5], "the copy went its own way"


def test_a_partition_costs_a_few_hundred_bytes(big: Image) -> None:
    values = [p for topic in big.topics.values() for p in topic.partitions.values()]
    distinct = {id(p.replicas) for p in values}
    assert len(distinct) == BROKERS, "equal lists are one tuple"
    assert sys.getsizeof(values[0]) <= 160


def test_partitions_that_stand_alike_are_worked_out_once(big: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    worked = []
    real = change._work_out
    monkeypatch.setattr(change, "_work_out", lambda *args, **how: worked.append(args[0]) or real(*args, **how))
    records = failures.fence(view(big), [5])
    ways = {(p.replicas, p.isr, p.leader) for p in map(big.at, big.index.assigned[5])}
    assert len(worked) == len(ways) < len(records) / 100


def test_what_was_worked_out_for_one_holds_for_every_other_that_stands_alike(big: Image) -> None:
    fenced: list[Any] = failures.fence(view(big), [5])[:-1]
    together = {(r.topic_id, r.partition_id): r for r in fenced}
    for key in sorted(together)[::97]:
        alone = change.change(
            big.at(key), "topic", change.DesiredState(), change.LeaderEligibility(view(big), leaving=frozenset({5}))
        )
        assert together[key] == alone
    first, second, *_ = together.values()
    assert first.isr is not second.isr, "records share no list that one of them could change"
