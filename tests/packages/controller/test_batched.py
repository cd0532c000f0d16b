"""Requests that name many things are decided in parts: with the same outcome, in steps that do not grow, and with
others' requests in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.controller.replies import Refused
from moldau.controller.requests import (
    AlterConfigs,
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerRefused,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ElectUncleanLeaders,
    IncrementalAlterConfigs,
    ListPartitionReassignments,
    MorePartitions,
    Move,
    NewTopic,
    Operation,
    RebalanceLeaders,
)
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from tests.packages.controller.test_parts import Sizes, back_in_sync, calls, full

AT_ONCE, WHOLE = 4, 1_000_000
NAMES = tuple(f"topic-{number:03}" for number in range(30))


def new(name: str, **fields: Any) -> NewTopic:
    return NewTopic(name=name, assignments=((0, (0, 1)), (1, (1, 2))), **fields)


def harness(at_once: int, names: tuple[str, ...] = NAMES) -> Sizes:
    made = Sizes(3, partitions_at_once=at_once, elr=False)
    made.submit(CreateTopics(topics=tuple(map(new, names))))
    made.sizes.clear()
    return made


def changes(*values: tuple[str, str]) -> Callable[[ControllerHarness], Any]:
    def of(harness: ControllerHarness) -> tuple[ConfigChange, ...]:
        single = tuple((key, int(Operation.SET), value) for key, value in values)
        return tuple(ConfigChange(resource_type=2, resource_name=name, changes=single) for name in (*NAMES, "none"))

    return of


def moves(harness: ControllerHarness) -> AlterPartitionReassignments:
    return AlterPartitionReassignments(moves=tuple(Move(topic=n, partition=0, replicas=(0, 2)) for n in (*NAMES, "z")))


def directories(harness: ControllerHarness) -> AssignReplicasToDirs:
    keys = tuple(harness.partition(name).key for name in NAMES)
    epoch = harness.broker(0).epoch
    return AssignReplicasToDirs(broker_id=0, broker_epoch=epoch, directories={b"\x64" * 16: (*keys, keys[0])})


ASKS: dict[str, Callable[[ControllerHarness], Any]] = {
    "create topics": lambda harness: CreateTopics(topics=(*(new(f"more-{name}") for name in NAMES), new(NAMES[0]))),
    "only validate": lambda harness: CreateTopics(topics=tuple(new(f"more-{n}") for n in NAMES), validate_only=True),
    "delete topics": lambda harness: DeleteTopics(topics=(*NAMES, "none")),
    "create partitions": lambda harness: CreatePartitions(
        topics=tuple(MorePartitions(name=name, count=4, assignments=((0, 1), (1, 2))) for name in (*NAMES, "none"))
    ),
    "set": lambda harness: IncrementalAlterConfigs(resources=changes(("min.insync.replicas", "2"))(harness)),
    "replace": lambda harness: AlterConfigs(resources=changes(("retention.ms", "9"), ("segment.ms", "8"))(harness)),
    "reassign": moves,
    "assign": directories,
}


def state(harness: ControllerHarness) -> Any:
    partitions = {
        (topic.name, number): partition._replace(topic_id=b"")
        for topic in harness.image.topics.values()
        for number, partition in topic.partitions.items()
    }
    return partitions, harness.image.configs


def told(reply: Any) -> Any:
    """The reply without the ids of topics, which are drawn."""
    for field in ("topics", "partitions", "resources"):
        if (found := getattr(reply, field, None)) is not None:
            return [(one.name, one.problem) if hasattr(one, "problem") else one for one in found]
    raise AssertionError(reply)


@pytest.mark.parametrize("name", ASKS)
def test_what_is_decided_in_parts_is_what_is_decided_at_once(name: str) -> None:
    whole, parted = harness(WHOLE), harness(AT_ONCE)
    replies = [each.submit(ASKS[name](each)) for each in (whole, parted)]
    if name != "assign":  # whose items are named by drawn ids
        assert told(replies[0]) == told(replies[1])
    assert state(whole) == state(parted)
    assert max(parted.sizes) <= 2 * AT_ONCE
    assert len(parted.sizes) > 5
    assert len(whole.sizes) == 1


def part(harness: ControllerHarness, request: Any) -> Any:
    answer = harness.controller.decide(request, harness.facts())
    harness.commit(answer.records)
    return answer


def test_what_others_did_between_two_parts_counts() -> None:
    made = harness(AT_ONCE, ())
    wanted = CreateTopics(topics=tuple(new(f"a_{number}") for number in range(10)))
    answer = part(made, wanted)
    assert (answer.token, answer.reply) == (None, None)
    assert made.submit(CreateTopics(topics=(new("a_8"), new("a.9")))).topics[0].problem.code is Code.NONE
    outcome = {one.name: one.problem.code for one in made.submit(answer.then).topics}
    assert outcome.pop("a_8") is Code.TOPIC_ALREADY_EXISTS
    assert outcome.pop("a_9") is Code.INVALID_TOPIC_EXCEPTION
    assert set(outcome.values()) == {Code.NONE}
    assert len(made.image.topics) == 10


def test_what_vanished_between_two_parts_is_not_decided_on() -> None:
    made = harness(AT_ONCE)
    answer = part(made, ElectLeaders(election_type=0, partitions=tuple((name, 0) for name in NAMES)))
    made.submit(DeleteTopics(topics=NAMES[10:]))
    codes = [problem.code for _, _, problem in made.submit(answer.then).partitions]
    assert codes == [Code.ELECTION_NOT_NEEDED] * 10 + [Code.UNKNOWN_TOPIC_OR_PARTITION] * 20


@pytest.mark.parametrize(
    "request_in_parts",
    [RebalanceLeaders(), ElectLeaders(election_type=0), ElectLeaders(election_type=1), ElectUncleanLeaders()],
)
@pytest.mark.parametrize("parts", range(1, 6))
def test_all_topics_may_vanish_between_any_two_parts_of_an_election(request_in_parts: Any, parts: int) -> None:
    """An exception here ends the node: the passes in the background have nobody else to tell."""
    made = full(80, 1, watch=False)
    back_in_sync(made)
    made.submit(BrokerRefused(broker_id=0, broker_epoch=made.broker(0).epoch))
    then = request_in_parts
    while then is not None and parts:
        then, parts = part(made, then).then, parts - 1
    made.submit(DeleteTopics(topics=("a", "b")))
    if then is not None:
        assert made.submit(then).code is Code.NONE
    assert not made.image.index.preferred


@pytest.mark.parametrize("again", [True, False])
def test_an_ask_ends_with_the_controller_that_began_it(again: bool) -> None:
    made = harness(AT_ONCE)
    answer = part(made, DeleteTopics(topics=NAMES))
    left = len(made.image.topics)
    made.controller.renounce()
    if again:
        made.controller.claim(9, made.image, made.facts())
    after = made.controller.decide(answer.then, made.facts())
    assert after.reply.code is Code.NOT_CONTROLLER
    assert (after.then, list(after.records)) == (None, [])
    assert len(made.image.topics) == left > 0


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_who_asked_for_a_part_that_may_not_be_written_is_told_so_and_does_not_ask_again(parts: int) -> None:
    made = harness(AT_ONCE)
    ends: list[int] = []
    request: object = DeleteTopics(topics=NAMES)
    token: int | None = None
    while token is None and len(ends) < parts:  # none of it is committed
        answer = made.controller.decide(request, made.facts())
        made.next_offset += len(answer.records)
        ends.append(made.next_offset - 1)
        request, token = answer.then, answer.token
    assert (token is None) is (parts < 8)
    denial = Refused(Code.CLUSTER_AUTHORIZATION_FAILED, "an ACL")
    told = made.controller.deny(ends[0], denial)
    assert made.controller.renounce() == []
    assert told == ([] if token is None else [(token, denial)])
    if token is None:
        assert made.controller.decide(request, made.facts()).reply == denial
    assert made.controller.decide(DeleteTopics(topics=NAMES), made.facts()).reply.code is Code.NOT_CONTROLLER


def test_moves_under_way_are_listed_in_parts() -> None:
    made = harness(AT_ONCE)
    made.submit(moves(made))
    reply = made.submit(ListPartitionReassignments())
    assert [name for name, _ in reply.partitions] == list(NAMES)
    few = made.submit(ListPartitionReassignments(partitions={(NAMES[3], 0), (NAMES[4], 1), ("none", 0)}))
    assert [(name, partition.id) for name, partition in few.partitions] == [(NAMES[3], 0)]


def steps(request: Any, made: ControllerHarness) -> list[int]:
    """The work of each part of a request."""
    found = []
    while request is not None:
        answers = []
        requested = request
        found.append(calls(lambda: answers.append(made.controller.decide(requested, made.facts()))))  # noqa: B023
        made.commit(answers[0].records)
        request = answers[0].then
    return found


@pytest.mark.parametrize("action", ["create", "delete", "set"])
def test_ten_times_the_topics_are_ten_times_the_parts_and_not_larger_ones(action: str) -> None:
    found = []
    for count in (200, 2_000):
        names = tuple(f"t{number:05}" for number in range(count))
        made = Sizes(3, partitions_at_once=50, elr=False, watch=False)
        wanted: Any = CreateTopics(topics=tuple(map(new, names)))
        if action != "create":
            made.submit(wanted)
            wanted = DeleteTopics(topics=names)
        if action == "set":
            change = (("retention.ms", int(Operation.SET), "9"),)
            wanted = IncrementalAlterConfigs(
                resources=tuple(ConfigChange(resource_type=2, resource_name=name, changes=change) for name in names)
            )
        found.append(steps(wanted, made))
    small, large = found
    assert len(large) > 9 * len(small)
    assert max(large[1:]) < 1.2 * max(small)


def test_more_assignments_than_may_be_written_are_refused_before_they_are_looked_at() -> None:
    made = harness(AT_ONCE, ())
    many = tuple((number, (7,)) for number in range(10_001))  # a broker that is none
    (result,) = made.submit(CreateTopics(topics=(NewTopic(name="a", assignments=many),))).topics
    assert result.problem.code is Code.POLICY_VIOLATION
