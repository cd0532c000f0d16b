"""Very many partitions of one topic are made in parts and written all at once, true to the world as it is by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.broker.kraft.batches import decided, proposal
from moldau.controller.large_topics import ATTEMPTS
from moldau.controller.requests import (
    BrokerRefused,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
)
from moldau.image import image_from, image_hash, snapshot_records
from moldau.image.index import PartitionIndex
from moldau.image.prepared import Prepared
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records.metadata import PartitionRecord
from tests.packages.controller.test_parts import calls, partitions_of

AT_ONCE = 20
LARGE = 15 * AT_ONCE
BY_HAND = tuple((number, (number % 3, (number + 1) % 3)) for number in reversed(range(LARGE)))


def harness(at_once: int = AT_ONCE, brokers: int = 3) -> ControllerHarness:
    made = ControllerHarness(brokers, partitions_at_once=at_once, elr=False)
    made.submit(CreateTopics(topics=(NewTopic(name="small", partitions=2, replication_factor=2),)))
    return made


def large(name: str = "large", count: int = LARGE) -> NewTopic:
    return NewTopic(name=name, partitions=count, replication_factor=2)


ASKS: dict[str, Any] = {
    "placed": CreateTopics(topics=(large(),)),
    "by hand": CreateTopics(topics=(NewTopic(name="large", assignments=BY_HAND, configs=(("retention.ms", "7"),)),)),
    "among others": CreateTopics(topics=(large("a", 3), large(), large("b", 3), large("large-too"))),
    "more": CreatePartitions(topics=(MorePartitions(name="small", count=LARGE),)),
    "more by hand": CreatePartitions(
        topics=(MorePartitions(name="small", count=LARGE + 2, assignments=tuple(r for _, r in BY_HAND)),)
    ),
}


def parts(
    made: ControllerHarness, request: Any, between: Callable[[int], object] = lambda number: None
) -> tuple[Any, list[Any]]:
    """The reply to a request, and the records of each of its parts; something may happen between them."""
    written: list[Any] = []
    while True:
        answer = made.controller.decide(request, made.facts())
        written.append(answer.records)
        ready = made.commit(answer.records)
        if answer.then is None:
            return answer.reply if answer.token is None else ready[-1][1], written
        between(len(written))
        request = answer.then


@pytest.mark.parametrize("name", ASKS)
def test_what_is_made_in_parts_is_what_is_made_at_once(name: str) -> None:
    """Who leads differs where chance decides: each part draws anew."""
    whole, made = harness(1_000_000), harness()
    replies = [parts(each, ASKS[name])[0] for each in (whole, made)]
    problems = [[getattr(one, "problem", None) or one[1] for one in reply.topics] for reply in replies]
    assert problems[0] == problems[1]
    assert {problem.code for problem in problems[0]} == {Code.NONE}
    assert partitions_of(whole).keys() == partitions_of(made).keys()
    if "hand" in name:
        assert partitions_of(whole) == partitions_of(made)
    assert whole.image.configs == made.image.configs


@pytest.mark.parametrize("name", ASKS)
def test_nobody_sees_half_of_a_topic(name: str) -> None:
    made = harness()
    seen = set()

    def look(number: int) -> None:
        topic = made.image.topic("small" if "more" in name else "large")
        seen.add(0 if topic is None else len(topic.partitions))

    _, written = parts(made, ASKS[name], look)
    assert len(written) > LARGE // AT_ONCE
    assert seen <= ({2, LARGE, LARGE + 2} if "more" in name else {0, LARGE})


@pytest.mark.parametrize("name", ASKS)
def test_what_was_made_beforehand_is_what_the_records_say(name: str) -> None:
    made = harness()
    _, written = parts(made, ASKS[name])
    ready = [records for records in written if isinstance(records, Prepared)]
    assert ready, "something was made beforehand"
    for records in ready:
        assert proposal(records, 70, 3, 99) == proposal(list(records), 70, 3, 99)
        read = [record for batch in decided(proposal(records, 70, 3, 99)) for record in batch.records]
        assert read == list(records)
        (run,) = records.runs
        assert [one.partition_id for one in records[run.begin :] if isinstance(one, PartitionRecord)] == list(
            run.partitions
        )
    working = made.controller.working
    assert working is not None
    folded = image_from(snapshot_records(made.image), 0)
    for image in (working, folded):
        assert image_hash(image) == image_hash(made.image)
        for table in PartitionIndex.LOOK_UPS:
            assert getattr(image.index, table) == getattr(made.image.index, table)


def test_no_part_grows_with_the_partitions() -> None:
    found = []
    for count in (1_000, 9_000):
        made = harness(100)
        work, request = [], CreateTopics(topics=(large(count=count),))
        while request is not None:
            answers: list[Any] = []
            requested = request
            work.append(calls(lambda: answers.append(made.controller.decide(requested, made.facts()))))  # noqa: B023
            if answers[0].records:
                work.append(calls(lambda: proposal(answers[0].records, 0, 1, 0)))  # noqa: B023
            made.commit(answers[0].records)
            request = answers[0].then
        found.append(max(work))
    assert found[1] < 1.5 * found[0]


def test_nothing_is_led_by_who_died_meanwhile() -> None:
    made = harness()

    def die(number: int) -> None:
        if number == 9:
            made.submit(BrokerRefused(broker_id=1, broker_epoch=made.broker(1).epoch))

    reply, _ = parts(made, ASKS["placed"], die)
    assert reply.topics[0].problem.code is Code.NONE
    partitions = made.image.topics[made.image.names["large"]].partitions
    assert len(partitions) == LARGE
    assert all(1 not in partition.isr for partition in partitions.values())


def test_a_name_that_is_taken_meanwhile_is_taken() -> None:
    made = harness()

    def take(number: int) -> None:
        if number == 9:
            made.submit(CreateTopics(topics=(large(count=1),)))

    reply, _ = parts(made, ASKS["placed"], take)
    assert reply.topics[0].problem.code is Code.TOPIC_ALREADY_EXISTS
    assert len(made.image.topics[made.image.names["large"]].partitions) == 1


def test_partitions_that_others_added_meanwhile_are_counted() -> None:
    for wanted, code in ((LARGE, Code.NONE), (LARGE + 5, Code.INVALID_PARTITIONS)):
        made = harness()

        def grow(number: int, made: ControllerHarness = made, wanted: int = wanted) -> None:
            if number == 9:
                topics = (MorePartitions(name="small", count=wanted - 5 if wanted == LARGE else LARGE + 4),)
                made.submit(CreatePartitions(topics=topics))

        reply, _ = parts(made, ASKS["more"], grow)
        assert reply.topics[0][1].code is code
        partitions = made.image.topics[made.image.names["small"]].partitions
        assert sorted(partitions) == list(range(len(partitions)))
        assert len(partitions) == (LARGE if code is Code.NONE else LARGE + 4)


def test_a_topic_that_goes_meanwhile_gets_no_partitions() -> None:
    made = harness()
    reply, _ = parts(made, ASKS["more"], lambda number: number == 9 and made.submit(DeleteTopics(topics=("small",))))
    assert reply.topics[0][1].code is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert not made.image.topics


def test_it_comes_to_an_end_however_much_happens() -> None:
    made = harness(brokers=4)
    lives = [0]

    def restart(number: int) -> None:
        lives[0] += 1
        made.register(3, lives[0], previous_is_gone=True)

    reply, written = parts(made, ASKS["placed"], restart)
    assert reply.topics[0].problem.code is Code.NONE
    assert len(written) <= ATTEMPTS * (2 * LARGE // AT_ONCE + 2)
    assert len(made.image.topics[made.image.names["large"]].partitions) == LARGE


def test_what_cannot_be_written_is_refused() -> None:
    made = harness()
    text = "x" * 70_000
    named = NewTopic(name="large", partitions=LARGE, replication_factor=2, configs=(("compression.type", text),))
    reply, _ = parts(made, CreateTopics(topics=(named,)))
    assert reply.topics[0].problem.code is Code.INVALID_CONFIG
    wrong = NewTopic(name="large", assignments=(*BY_HAND[:-1], (0, (7, 8))))
    reply, _ = parts(made, CreateTopics(topics=(wrong,)))
    assert reply.topics[0].problem.code is Code.INVALID_REPLICA_ASSIGNMENT
    assert not any(isinstance(record, PartitionRecord) for record in made.records)
