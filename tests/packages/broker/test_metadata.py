"""What clients are shown of the cluster: nothing that contradicts itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.api import k03_metadata, k60_describe_cluster
from moldau.broker.loop import run_to_end
from moldau.broker.metadata.encoded_topics import EncodedTopics
from moldau.broker.services import BrokerServices
from moldau.image import Delta, Image, Partition
from moldau.image.partition import to_record
from moldau.image.registration import Broker, Endpoint
from moldau.model import Code
from moldau.model.value import replace
from moldau.ports import Handle, World
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest
from moldau.wire.records.metadata import TopicRecord
from tests.packages.broker.context import ContextValue, OpenConnection
from tests.packages.broker.doubles import broker_services, node_config
from tests.packages.doubles import LoopTasks, manual_world
from tests.packages.manual_clock import ManualClock


def context(version: int = 12) -> ContextValue:
    """A request over a connection that was just opened."""
    return ContextValue(api_version=version, connection=OpenConnection())


def broker(id: int, *, fenced: bool = False, listener: str = "PLAINTEXT") -> Broker:
    return Broker(
        id=id, epoch=1, incarnation_id=bytes(16), endpoints=(Endpoint(listener, "127.0.0.1", 9000 + id),), fenced=fenced
    )


def node(
    me: int, *brokers: Broker, world: World | None = None, suspects_a_death: Callable[[], bool] = lambda: False
) -> BrokerServices:
    """A broker that knows these, and creates no topics."""
    image = Image()
    image.brokers = {one.id: one for one in brokers}
    return broker_services(
        image,
        config=node_config(me, auto_create_topics_enable="false"),
        world=world or manual_world(tasks=LoopTasks()),
        suspects_a_death=suspects_a_death,
    )


def controller(me: int, *brokers: Broker) -> int:
    answer = k03_metadata.handle(node(me, *brokers), MetadataRequest(topics=[]), context())
    assert isinstance(answer, MetadataResponse)
    described = k60_describe_cluster.handle(node(me, *brokers), DescribeClusterRequest(endpoint_type=1), context())
    assert described.controller_id == answer.controller_id
    return answer.controller_id


def test_the_controller_shown_is_the_node_itself_once_it_is_shown() -> None:
    assert controller(2, broker(1), broker(2), broker(3)) == 2
    assert controller(0, broker(0), broker(1)) == 0


def test_the_controller_shown_is_always_a_broker_that_is_shown() -> None:
    assert controller(2) == -1
    assert controller(2, broker(3)) == 3
    assert controller(2, broker(2, fenced=True), broker(3), broker(1)) == 1
    assert controller(2, broker(2, listener="INTERNAL"), broker(3)) == 3
    assert controller(2, broker(2, fenced=True)) == -1


def test_an_unknown_topic_id_is_answered_in_versions_whose_names_cannot_be_null() -> None:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None, topic_id=b"x" * 16)])
    answer = k03_metadata.handle(node(1, broker(1)), asked, context(10))
    assert isinstance(answer, MetadataResponse)
    assert MetadataResponse.decode(answer.encode(10), 10).topics[0].error_code == Code.UNKNOWN_TOPIC_ID


def full(
    me: int, *sizes: int, world: World | None = None, suspects_a_death: Callable[[], bool] = lambda: False
) -> BrokerServices:
    """A node that knows a topic of each size."""
    brokers = (broker(0), broker(1, fenced=True), broker(2))
    fake = node(me, *brokers, world=world, suspects_a_death=suspects_a_death)
    for at, size in enumerate(sizes):
        id = (at + 1).to_bytes(16, "big")
        fake.metadata.image.apply(TopicRecord(name=f"topic-{at}", topic_id=id))
        for number in range(size):
            replicas = (number % 3, (number + 1) % 3)
            fake.metadata.image.apply(to_record(Partition(id, number, replicas, replicas[:1], leader=replicas[0])))
    return fake


def shown(fake: BrokerServices, request: MetadataRequest, version: int) -> bytes:
    """The bytes of an answer, however many turns it takes."""
    answer = k03_metadata.handle(fake, request, context(version))

    async def waited() -> Any:
        return answer if isinstance(answer, MetadataResponse) else await answer

    return asyncio.run(waited()).encode(version)


@pytest.mark.parametrize("version", [0, 1, 8, 9, 12, 13])
def test_an_answer_in_turns_has_the_bytes_of_one_that_was_made_at_once(version: int) -> None:
    asked = MetadataRequest.MetadataRequestTopic
    named = [asked(name="topic-1"), asked(name="no-such-topic"), asked(name="topic-0")]
    for topics in ([] if version == 0 else None, named):
        request = MetadataRequest(topics=topics, include_topic_authorized_operations=version >= 8)
        at_once, in_turns = LoopTasks(), LoopTasks()
        whole = shown(full(2, 130, 7, 0, world=manual_world(tasks=at_once, step=10_000)), request, version)
        assert not at_once.turns
        fake = full(2, 130, 7, 0, world=manual_world(tasks=in_turns, step=20))
        assert shown(fake, request, version) == whole
        assert in_turns.turns == 7
        assert len(MetadataResponse.decode(whole, version).topics) == 3


def test_no_turn_shows_more_partitions_than_a_step_should_hold() -> None:
    tasks = LoopTasks()
    shown(full(2, 1_000, *[1] * 500, world=manual_world(tasks=tasks)), MetadataRequest(topics=None), 12)
    assert tasks.turns == 20


def test_a_topic_whose_name_can_never_be_is_refused_without_asking_the_controller() -> None:
    """It was asked for, and its refusal written into two logs as a warning, whenever a client named one."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in ("fine", "no blanks", "", "x" * 250)],
        allow_auto_topic_creation=True,
    )
    one = broker_services(config=node_config())
    assert run_to_end(k03_metadata._to_create(one, request, ContextValue(api_version=12))) == ["fine"]


def test_what_twenty_clients_ask_for_is_encoded_once_and_shared() -> None:
    fake = full(2, 1_000, 3)
    fake.metadata.image.brokers.pop(1)
    answers = []

    async def ask() -> None:
        handled = k03_metadata.handle(fake, MetadataRequest(topics=None), context())
        answers.append(handled if isinstance(handled, MetadataResponse) else await handled)

    async def all_ask() -> None:
        await asyncio.gather(*(ask() for _ in range(20)))
        await ask()

    with counted(k03_metadata, "_partition") as made:
        asyncio.run(all_ask())
    assert made.count == 1_003
    assert len({bytes(one.encode(12)) for one in answers}) == 1
    assert len(answers) == 21


@dataclass
class Calls:
    """How often something was called."""

    count: int = 0


@contextmanager
def counted(module: Any, name: str) -> Iterator[Calls]:
    """How often a function of a module is called meanwhile."""
    whole, seen = getattr(module, name), Calls()

    def counting(*args: Any) -> Any:
        seen.count += 1
        return whole(*args)

    setattr(module, name, counting)
    try:
        yield seen
    finally:
        setattr(module, name, whole)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-1, 2)), max_size=12), st.booleans())
def test_what_is_kept_of_topics_is_never_older_than_the_image(changes: list[tuple[int, int, int]], every: bool) -> None:
    fake = full(2, 3, 4, 2)
    asked = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(topics=None if every else [asked(name="topic-2"), asked(name="topic-0")])
    image = fake.metadata.image
    for topic, number, leader in changes:
        delta = Delta()
        if leader < 0:
            fenced = not image.brokers[0].fenced
            delta.brokers[0] = image.brokers[0]
            image.brokers[0] = image.brokers[0]._replace(fenced=fenced)
        else:
            id = (topic + 1).to_bytes(16, "big")
            record = to_record(Partition(id, number, (0, 1, 2), (leader,), leader=leader))
            image.apply(record, delta=delta)
        fake.encoded_topics.changed(image, delta)
        fresh = shown(replace(fake, encoded_topics=EncodedTopics()), request, 12)
        assert shown(fake, request, 12) == fresh


def test_an_old_connection_is_answered_without_a_wait_unless_a_death_is_suspected() -> None:
    waits: list[float] = []
    suspects = [False]

    class Waiting(LoopTasks):
        def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle:
            waits.append(delay_ms)
            suspects[0] = len(waits) < 3
            return asyncio.get_running_loop().call_soon(call)

    world = manual_world(clock=ManualClock(10_000), tasks=Waiting())
    fake = full(2, 3, world=world, suspects_a_death=lambda: suspects[0])
    shown(fake, MetadataRequest(topics=None), 12)
    assert not waits
    suspects[0] = True
    shown(fake, MetadataRequest(topics=None), 12)
    assert len(waits) == 3
