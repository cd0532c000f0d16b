"""Topics that clients name and that are not there, while no controller answers: for how long the client waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from moldau.broker.api import k03_metadata, k10_find_coordinator
from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.model import Code
from moldau.runtime.world import new_loop
from moldau.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k19_create_topics import CreateTopicsResponse
from moldau.wire.records.metadata import TopicRecord
from tests.packages import loops
from tests.packages.broker.test_metadata import broker, node

T = TypeVar("T")
SOON_MS = 2_000


class Client:
    """A connection, opened just now."""

    since_ms = 0


class Timers:
    """Time that goes by only when nothing else is left to do: then it is as late as the next timer."""

    def __init__(self) -> None:
        self.spawned: list[asyncio.Task[None]] = []
        self.now_ms = 0.0
        self._set: list[tuple[float, int, Callable[[], object]]] = []

    def monotonic_ms(self) -> float:
        return self.now_ms

    def call_soon(self, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(act)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        self.spawned.append(asyncio.get_running_loop().create_task(work, name=name))
        return self.spawned[-1]

    def call_later(self, delay_ms: float, call: Callable[[], object]) -> Any:
        entry = (self.now_ms + delay_ms, len(self._set), call)
        self._set.append(entry)
        return SimpleNamespace(cancel=lambda: self._set.remove(entry) if entry in self._set else None)

    async def passing(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome, with as many timers fired as it takes."""
        task = asyncio.ensure_future(work)
        while not task.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if not task.done():
                first = min(self._set, key=lambda entry: entry[:2])
                self._set.remove(first)
                self.now_ms = first[0]
                first[2]()
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


def asked_of(says: Callable[..., Coroutine[Any, Any, CreateTopicsResponse]], leader: int | None, timers: Timers) -> Any:
    """A broker that creates topics which clients name, and what the controller says to it."""
    made = node(1, broker(1), broker(2))
    made.config["auto.create.topics.enable"] = True
    made.config |= {
        "offsets.topic.num.partitions": 2, "offsets.topic.replication.factor": 1, "offsets.topic.segment.bytes": 1 << 20
    }  # fmt: skip
    made.world = SimpleNamespace(clock=timers, tasks=timers, step=100, buggify=None)
    made.plane = SimpleNamespace(leader=(leader, 1), voters=lambda: {2: ("there", 2)})
    made.peers = SimpleNamespace(ask=says, pass_on=says)
    made.creating = Counter()
    made.controller_channel = NodeToControllerChannel(made)
    return made


CONTEXT: Any = SimpleNamespace(listener="PLAINTEXT", api_version=12, client_id="c", connection=Client())


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
        timers = Timers()
        made = asked_of(says, leader, timers)
        answer = await timers.passing(k03_metadata.handle(made, naming("new"), CONTEXT))  # type: ignore[arg-type]
        told = MetadataResponse.decode(answer.encode(12), 12).topics
        assert [(one.name, one.error_code) for one in told] == [("new", Code.LEADER_NOT_AVAILABLE)]
        assert timers.now_ms <= SOON_MS
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
        timers = Timers()
        made = asked_of(says, leader, timers)
        for turn in (1, 2, 3):
            context: Any = SimpleNamespace(listener="PLAINTEXT", api_version=4, client_id="c", connection=Client())
            work = k10_find_coordinator.handle(made, FindCoordinatorRequest(coordinator_keys=["g"]), context)
            began_ms = timers.now_ms
            answer = await timers.passing(work)  # type: ignore[arg-type]
            assert [(one.key, one.error_code) for one in answer.coordinators] == [("g", Code.COORDINATOR_NOT_AVAILABLE)]
            assert timers.now_ms - began_ms <= SOON_MS, turn
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
        timers, asked, says_so = Timers(), [], asyncio.Event()

        async def created(host: str, port: int, message: Any, *_: object, **__: object) -> CreateTopicsResponse:
            asked.extend(one.name for one in message.topics)
            await says_so.wait()
            for name in asked:
                made.metadata.image.apply(TopicRecord(name=name, topic_id=b"i" * 16))
            result = CreateTopicsResponse.CreatableTopicResult
            return CreateTopicsResponse(topics=[result(name=one.name) for one in message.topics])

        made = asked_of(created, 2, timers)
        made.recently_gone.deleted.add("old")
        for _ in range(2):
            answer = await timers.passing(k03_metadata.handle(made, naming("old"), CONTEXT))  # type: ignore[arg-type]
            told = MetadataResponse.decode(answer.encode(12), 12).topics
            assert [(one.name, one.error_code, one.partitions) for one in told] == [
                ("old", Code.UNKNOWN_TOPIC_OR_PARTITION, [])
            ]
        assert len(timers.spawned) == 1
        says_so.set()
        await asyncio.gather(*timers.spawned)
        assert asked == ["old"], "it is created once, however often it is named meanwhile"
        answer = await timers.passing(k03_metadata._long(made, naming("old"), CONTEXT))
        assert [one.error_code for one in MetadataResponse.decode(answer.encode(12), 12).topics] == [Code.NONE]

    loop = new_loop()
    loop.run_until_complete(scenario())
    loops.close(loop)


def test_a_creation_that_nobody_waits_for_and_that_fails_ends_no_node(caplog: pytest.LogCaptureFixture) -> None:
    """What a task of a node raises ends it: a client's request would have, by what the controller did not expect."""

    async def scenario() -> None:
        timers = Timers()

        async def fails(*_: object, **__: object) -> CreateTopicsResponse:
            raise LookupError("not expected")

        made = asked_of(fails, 2, timers)
        made.recently_gone.deleted.add("old")
        await timers.passing(k03_metadata.handle(made, naming("old"), CONTEXT))  # type: ignore[arg-type]
        (task,) = timers.spawned
        await task
        assert not made.creating

    loop = new_loop()
    loop.run_until_complete(scenario())
    loops.close(loop)
    assert "topic old, named after its deletion, was not created" in caplog.text
