"""What clients are shown of the cluster: nothing that contradicts itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.api import k03_metadata, k60_describe_cluster
from moldau.broker.loop import finished
from moldau.broker.metadata.encoded_topics import EncodedTopics
from moldau.broker.services import NodeServices
from moldau.image import Delta, Image, Partition
from moldau.image.partition import to_record
from moldau.image.registration import Broker, Endpoint
from moldau.model import Code
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest
from moldau.wire.records.metadata import TopicRecord
from tests.packages.broker.context import ContextValue

CONTEXT = SimpleNamespace(listener="PLAINTEXT", api_version=12, connection=SimpleNamespace(since_ms=0))


def broker(id: int, *, fenced: bool = False, listener: str = "PLAINTEXT") -> Broker:
    return Broker(
        id=id, epoch=1, incarnation_id=bytes(16), endpoints=(Endpoint(listener, "127.0.0.1", 9000 + id),), fenced=fenced
    )


class Settings(dict[str, Any]):
    """A node's settings, as far as Metadata looks at them."""

    def __init__(self, node_id: int) -> None:
        super().__init__({"auto.create.topics.enable": False})
        self.node_id = node_id
        self.on_zookeeper = False


class Turns:
    """Counts how often the loop was given back."""

    def __init__(self) -> None:
        self.count = 0

    def call_soon(self, act: Callable[[], None]) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(act)


def node(me: int, *brokers: Broker) -> Any:
    image = Image()
    image.brokers = {one.id: one for one in brokers}
    fake = SimpleNamespace(
        config=Settings(me),
        metadata=SimpleNamespace(image=image),
        encoded_topics=EncodedTopics(),
        cluster_id="c",
        suspects_a_death=lambda: False,
        recently_gone=SimpleNamespace(fenced=SimpleNamespace(brokers=list), deleted=set()),
        world=SimpleNamespace(clock=SimpleNamespace(monotonic_ms=lambda: 0), tasks=Turns(), step=100),
    )
    fake.controller_shown = lambda live: NodeServices.controller_shown(fake, live)
    return fake


def controller(me: int, *brokers: Broker) -> int:
    answer = k03_metadata.handle(node(me, *brokers), MetadataRequest(topics=[]), CONTEXT)
    assert isinstance(answer, MetadataResponse)
    described = k60_describe_cluster.handle(node(me, *brokers), DescribeClusterRequest(endpoint_type=1), CONTEXT)
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
    context = SimpleNamespace(**{**vars(CONTEXT), "api_version": 10})
    answer = k03_metadata.handle(node(1, broker(1)), asked, context)
    assert isinstance(answer, MetadataResponse)
    assert MetadataResponse.decode(answer.encode(10), 10).topics[0].error_code == Code.UNKNOWN_TOPIC_ID


def full(me: int, *sizes: int) -> Any:
    """A node that knows a topic of each size."""
    fake = node(me, broker(0), broker(1, fenced=True), broker(2))
    for at, size in enumerate(sizes):
        id = (at + 1).to_bytes(16, "big")
        fake.metadata.image.apply(TopicRecord(name=f"topic-{at}", topic_id=id))
        for number in range(size):
            replicas = (number % 3, (number + 1) % 3)
            fake.metadata.image.apply(to_record(Partition(id, number, replicas, replicas[:1], leader=replicas[0])))
    return fake


def shown(fake: Any, request: MetadataRequest, version: int) -> bytes:
    """The bytes of an answer, however many turns it takes."""
    context = SimpleNamespace(**{**vars(CONTEXT), "api_version": version})
    answer = k03_metadata.handle(fake, request, context)

    async def waited() -> Any:
        return answer if isinstance(answer, MetadataResponse) else await answer

    return asyncio.run(waited()).encode(version)


@pytest.mark.parametrize("version", [0, 1, 8, 9, 12, 13])
def test_an_answer_in_turns_has_the_bytes_of_one_that_was_made_at_once(version: int) -> None:
    asked = MetadataRequest.MetadataRequestTopic
    named = [asked(name="topic-1"), asked(name="no-such-topic"), asked(name="topic-0")]
    for topics in ([] if version == 0 else None, named):
        request = MetadataRequest(topics=topics, include_topic_authorized_operations=version >= 8)
        fake = full(2, 130, 7, 0)
        fake.world.step = 10_000
        whole = shown(fake, request, version)
        assert not fake.world.tasks.count
        fake.world.step = 20
        fake.encoded_topics = EncodedTopics()
        assert shown(fake, request, version) == whole
        assert fake.world.tasks.count == 7
        assert len(MetadataResponse.decode(whole, version).topics) == 3


def test_no_turn_shows_more_partitions_than_a_step_should_hold() -> None:
    fake = full(2, 1_000, *[1] * 500)
    shown(fake, MetadataRequest(topics=None), 12)
    assert fake.world.tasks.count == 20


def test_a_topic_whose_name_can_never_be_is_refused_without_asking_the_controller() -> None:
    """It was asked for, and its refusal written into two logs as a warning, whenever a client named one."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in ("fine", "no blanks", "", "x" * 250)],
        allow_auto_topic_creation=True,
    )
    one = node(1)
    one.config["auto.create.topics.enable"] = True
    assert finished(k03_metadata._to_create(one, request, ContextValue(api_version=12))) == ["fine"]


def test_what_twenty_clients_ask_for_is_encoded_once_and_shared() -> None:
    fake = full(2, 1_000, 3)
    fake.metadata.image.brokers.pop(1)
    answers = []

    async def ask() -> None:
        context = SimpleNamespace(**{**vars(CONTEXT), "api_version": 12})
        handled = k03_metadata.handle(fake, MetadataRequest(topics=None), context)
        answers.append(handled if isinstance(handled, MetadataResponse) else await handled)

    async def all_ask() -> None:
        await asyncio.gather(*(ask() for _ in range(20)))
        await ask()

    with counted(k03_metadata, "_partition") as made:
        asyncio.run(all_ask())
    assert made.count == 1_003
    assert len({bytes(one.encode(12)) for one in answers}) == 1
    assert len(answers) == 21


@contextmanager
def counted(module: Any, name: str) -> Iterator[SimpleNamespace]:
    """How often a function of a module is called meanwhile."""
    whole, seen = getattr(module, name), SimpleNamespace(count=0)

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
        kept, fake.encoded_topics = fake.encoded_topics, EncodedTopics()
        fresh = shown(fake, request, 12)
        fake.encoded_topics = kept
        assert shown(fake, request, 12) == fresh


def test_an_old_connection_is_answered_without_a_wait_unless_a_death_is_suspected() -> None:
    fake = full(2, 3)
    now_ms = [10_000]
    fake.world.clock = SimpleNamespace(monotonic_ms=lambda: now_ms[0])
    waits: list[float] = []
    suspects = [False]

    def call_later(wait_ms: float, act: Callable[[], None]) -> Any:
        waits.append(wait_ms)
        suspects[0] = len(waits) < 3
        return asyncio.get_running_loop().call_soon(act)

    fake.world.tasks.call_later = call_later
    fake.suspects_a_death = lambda: suspects[0]
    shown(fake, MetadataRequest(topics=None), 12)
    assert not waits
    suspects[0] = True
    shown(fake, MetadataRequest(topics=None), 12)
    assert len(waits) == 3
