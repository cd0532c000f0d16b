"""Topics that clients name and that are not there, while no controller answers: for how long the client waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from moldau.broker.api import k03_metadata, k10_find_coordinator
from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.network.peers import PassedOn, Peers
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.model.value import replace
from moldau.ports import Handle
from moldau.runtime.world import new_loop
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsResponse
from moldau.wire.records.metadata import RemoveTopicRecord, TopicRecord
from tests.packages import loops
from tests.packages.broker.context import ContextValue, OpenConnection
from tests.packages.broker.doubles import NodeDouble, PlaneDouble, node_config
from tests.packages.broker.test_metadata import broker, node
from tests.packages.doubles import LoopTasks, ManualTasks, manual_world
from tests.packages.manual_clock import ManualClock

T = TypeVar("T")
SOON_MS = 2_000


class PassingTime(LoopTasks):
    """Time that goes by only when nothing else is left to do: then it is as late as the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self._timed = ManualTasks(self.clock)

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Handle:
        return self._timed.call_later(delay_ms, call)

    async def passing(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome, with as many timers fired as it takes."""
        task = asyncio.ensure_future(work)
        while not task.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if not task.done():
                first = self._timed.first
                assert first is not None, "nobody is to go on"
                self._timed.advance(int(first.due_ms) - self.clock.now_ms)
        return await task


async def silent(*_: object, **__: object) -> CreateTopicsResponse:
    """A controller that takes a request and never answers."""
    await asyncio.Event().wait()
    raise AssertionError


async def another(host: str, port: int, message: Any, *_: object, **__: object) -> CreateTopicsResponse:
    """One that rules no more."""
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[result(name=one.name, error_code=Code.NOT_CONTROLLER) for one in message.topics]
    )


class ControllerPeers(Peers):
    """Connections to a controller, which says one thing."""

    def __init__(self, says: Callable[..., Coroutine[Any, Any, CreateTopicsResponse]]) -> None:
        self._says = says

    async def pass_on(
        self, host: str, port: int, message: Any, timeout_ms: int | None = None, *, who: PassedOn | None = None
    ) -> Any:
        return await self._says(host, port, message, timeout_ms, who=who)


def asked_of(
    says: Callable[..., Coroutine[Any, Any, CreateTopicsResponse]], leader: int | None, time: PassingTime
) -> BrokerServices:
    """A broker that creates topics which clients name, and what the controller says to it."""
    world = manual_world(clock=time.clock, tasks=time)
    asking = NodeDouble(
        config=node_config(offsets_topic_num_partitions="2", offsets_topic_replication_factor="1"),
        world=world,
        plane=PlaneDouble(leader=(leader, 1), addresses={2: ("there", 2)}),
        peers=ControllerPeers(says),
    )
    made = node(1, broker(1), broker(2), world=world)
    return replace(made, config=asking.config, controller_channel=NodeToControllerChannel(asking))


CONTEXT = ContextValue(api_version=12, connection=OpenConnection())


def delete_at_once(metadata: MetadataCache, name: str) -> None:
    """Have a topic there, and then not any more."""
    topic = TopicRecord(name=name, topic_id=b"o" * 16)
    for offset, record in enumerate((topic, RemoveTopicRecord(topic_id=topic.topic_id)), 1):
        assert metadata.committed([record], offset, 1) is None


def naming(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names])


@pytest.mark.parametrize(
    ("leader", "says"),
    [(None, silent), (2, silent), (2, another)],
    ids=["none is known", "it does not answer", "it rules no more"],
)
def test_who_names_a_new_topic_is_told_soon_that_it_has_no_leader(
    leader: int | None, says: Callable[..., Coroutine[Any, Any, CreateTopicsResponse]]
) -> None:
    """The request kept room for its response for half a minute, and a few dozen of them held up all others."""

    async def scenario() -> None:
        time = PassingTime()
        made = asked_of(says, leader, time)
        answer = await time.passing(k03_metadata.handle(made, naming("new"), CONTEXT))  # type: ignore[arg-type]
        told = MetadataResponse.decode(answer.encode(12), 12).topics
        assert [(one.name, one.error_code) for one in told] == [("new", Code.LEADER_NOT_AVAILABLE)]
        assert time.clock.now_ms <= SOON_MS
        assert not made.creating
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    loop = new_loop()
    loop.run_until_complete(scenario())
    loops.close(loop)


@pytest.mark.parametrize(
    ("leader", "says"),
    [(None, silent), (2, silent), (2, another)],
    ids=["none is known", "it does not answer", "it rules no more"],
)
def test_who_looks_for_a_coordinator_is_told_soon_to_ask_again_while_the_groups_log_is_being_made(
    leader: int | None, says: Callable[..., Coroutine[Any, Any, CreateTopicsResponse]]
) -> None:
    """It waited for half a minute, which is longer than clients do: a call that Apache Kafka's answer would have had
    them repeat failed in their application, and what they asked on that connection stood still."""

    async def scenario() -> None:
        time = PassingTime()
        made = asked_of(says, leader, time)
        for turn in (1, 2, 3):
            context = ContextValue(api_version=4, connection=OpenConnection())
            work = k10_find_coordinator.handle(made, FindCoordinatorRequest(coordinator_keys=["g"]), context)
            began_ms = time.clock.now_ms
            answer = await time.passing(work)  # type: ignore[arg-type]
            assert [(one.key, one.error_code) for one in answer.coordinators] == [("g", Code.COORDINATOR_NOT_AVAILABLE)]
            assert time.clock.now_ms - began_ms <= SOON_MS, turn
        assert not made.creating
        assert made.controller_channel._unanswered <= 1, "whoever asks again waits for what was asked before"
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    loop = new_loop()
    loop.run_until_complete(scenario())
    loops.close(loop)


def test_who_names_a_topic_just_after_its_deletion_is_told_that_it_is_gone_and_it_is_created_then() -> None:
    """A client that had deleted a topic looked whether it was gone, and was shown the one that its look had created."""

    async def scenario() -> None:
        time, asked, says_so = PassingTime(), [], asyncio.Event()

        async def created(host: str, port: int, message: Any, *_: object, **__: object) -> CreateTopicsResponse:
            asked.extend(one.name for one in message.topics)
            await says_so.wait()
            for name in asked:
                made.metadata.image.apply(TopicRecord(name=name, topic_id=b"i" * 16))
            result = CreateTopicsResponse.CreatableTopicResult
            return CreateTopicsResponse(topics=[result(name=one.name) for one in message.topics])

        made = asked_of(created, 2, time)
        delete_at_once(made.metadata, "old")
        for _ in range(2):
            answer = await time.passing(k03_metadata.handle(made, naming("old"), CONTEXT))  # type: ignore[arg-type]
            told = MetadataResponse.decode(answer.encode(12), 12).topics
            assert [(one.name, one.error_code, one.partitions) for one in told] == [
                ("old", Code.UNKNOWN_TOPIC_OR_PARTITION, [])
            ]
        assert len(time.spawned) == 1
        says_so.set()
        await asyncio.gather(*(one.task for one in time.spawned))
        assert asked == ["old"], "it is created once, however often it is named meanwhile"
        answer = await time.passing(k03_metadata._long(made, naming("old"), CONTEXT))
        assert [one.error_code for one in MetadataResponse.decode(answer.encode(12), 12).topics] == [Code.NONE]

    loop = new_loop()
    loop.run_until_complete(scenario())
    loops.close(loop)


def test_a_creation_that_nobody_waits_for_and_that_fails_ends_no_node(caplog: pytest.LogCaptureFixture) -> None:
    """What a task of a node raises ends it: a client's request would have, by what the controller did not expect."""

    async def scenario() -> None:
        time = PassingTime()

        async def fails(*_: object, **__: object) -> CreateTopicsResponse:
            raise LookupError("not expected")

        made = asked_of(fails, 2, time)
        delete_at_once(made.metadata, "old")
        await time.passing(k03_metadata.handle(made, naming("old"), CONTEXT))  # type: ignore[arg-type]
        (spawned,) = time.spawned
        await spawned.task
        assert not made.creating

    loop = new_loop()
    loop.run_until_complete(scenario())
    loops.close(loop)
    assert "topic old, named after its deletion, was not created" in caplog.text
