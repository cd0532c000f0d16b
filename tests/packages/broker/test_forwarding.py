"""Requests that are passed on to the controller: one client's patience, or one request that breaks the controller's
handler, costs that client alone."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.api import CONTROLLER
from moldau.broker.api.forwarding import forward
from moldau.broker.api.refusing import refused_as_a_whole
from moldau.broker.controller import channel
from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.network.peers import PASSED_ON, Peers
from moldau.broker.rate_limited_log import LINES, PERIOD_MS, RateLimitedLog
from moldau.client.connection import ConnectionOptions
from moldau.controller.replies import Refused
from moldau.model import Code
from moldau.runtime.world import real_world
from moldau.wire.frames import read_response_body, request_frame
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tests.packages.broker.context import ContextValue, OpenConnection
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.doubles import PlaneDouble, broker_services, node_config
from tests.packages.broker.whole_node import feed, whole_node
from tests.packages.client.fake_broker import FakeBroker
from tests.packages.manual_clock import ManualClock


def client() -> ContextValue:
    """The context of requests that come over one connection."""
    return ContextValue(api_version=7, peer_host="client", connection=OpenConnection())


CLIENTS, ROUNDS = 6, 20


def create(name: str, timeout_ms: int = 30_000) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


class ForwardingNode:
    """A broker's way to a scripted controller, which answers nothing about the topic "slow" before it is told to."""

    def __init__(self) -> None:
        self.world = real_world(asyncio.get_running_loop(), lambda task, error: None)
        self.controller = FakeBroker(self._script)
        self.cluster_id, self.metadata = "a cluster", MetadataCache()
        self.config = node_config()
        self.peers = Peers(self.world, ConnectionOptions(request_timeout_ms=60_000))
        self.controller_channel = NodeToControllerChannel(self)
        self.services = broker_services(
            config=self.config, world=self.world, plane=self.plane, controller_channel=self.controller_channel
        )
        self.failed: list[BaseException] = []
        self.go_on = asyncio.Event()

    @property
    def plane(self) -> PlaneDouble:
        return PlaneDouble(leader=(2, 1), addresses={2: ("127.0.0.1", self.controller.port)})

    def handler_failed(self, header: Any, error: BaseException) -> None:
        self.failed.append(error)

    def _script(self, message: Any, header: Any) -> Any:
        if isinstance(message, BrokerHeartbeatRequest):
            return BrokerHeartbeatResponse(is_caught_up=True)
        answer = CreateTopicsResponse(
            topics=[CreateTopicsResponse.CreatableTopicResult(name=one.name) for one in message.topics]
        )
        return self._later(answer) if message.topics[0].name == "slow" else answer

    async def _later(self, answer: Any) -> Any:
        await self.go_on.wait()
        return answer


def test_clients_without_patience_break_no_connection_to_the_controller_and_flood_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        node = ForwardingNode()
        await node.controller.start()

        async def impatient() -> None:
            context = client()
            for _ in range(ROUNDS):
                answer = await forward(node.services, create("slow", 1), context)
                assert [one.error_code for one in answer.topics] == [Code.REQUEST_TIMED_OUT]

        with caplog.at_level(logging.WARNING, "moldau.broker.api"):
            nuisances = asyncio.gather(*(impatient() for _ in range(CLIENTS)))
            while not nuisances.done():
                assert (await node.controller_channel.send(BrokerHeartbeatRequest(), 30_000)).is_caught_up
                await asyncio.sleep(0)
            await nuisances
        assert node.controller_channel._unanswered == CLIENTS, (
            "one request of each is at the controller, however often it asks"
        )
        ours = [one for one in caplog.records if one.name.startswith("moldau.")]  # asyncio tells of other tests' tasks
        assert len(ours) <= LINES
        assert node.controller.connections <= 1 + len(PASSED_ON)
        quiet = asyncio.ensure_future(forward(node.services, create("quiet"), client()))
        node.go_on.set()
        assert [one.error_code for one in (await quiet).topics] == [Code.NONE]
        await until(lambda: node.controller_channel._unanswered == 0, "every answer, though nobody waits for it")
        assert node.controller.connections <= 1 + len(PASSED_ON)
        assert not node.failed
        node.peers.close()
        await node.controller.stop()

    run(scenario)


def test_what_one_client_waits_for_long_does_not_hold_up_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        node = ForwardingNode()
        await node.controller.start()
        slow = asyncio.ensure_future(forward(node.services, create("slow"), client()))
        await until(lambda: node.controller.heard, "it is asked")
        for number in range(10):
            answer = await forward(node.services, create(f"quick-{number}"), client())
            assert [one.error_code for one in answer.topics] == [Code.NONE]
        assert not slow.done()
        node.go_on.set()
        assert [one.error_code for one in (await slow).topics] == [Code.NONE]
        node.peers.close()
        await node.controller.stop()

    run(scenario)


def test_a_controller_that_answers_nothing_is_not_asked_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "UNANSWERED_MAX", 5)

    async def scenario() -> None:
        node = ForwardingNode()
        await node.controller.start()
        for _ in range(12):
            answer = await forward(node.services, create("slow", 1), client())
            assert [one.error_code for one in answer.topics] == [Code.REQUEST_TIMED_OUT]
        assert node.controller_channel._unanswered == 5
        node.go_on.set()
        await until(lambda: not node.controller_channel._unanswered, "the answers")
        assert (await forward(node.services, create("quick"), client())).topics[0].error_code == Code.NONE
        node.peers.close()
        await node.controller.stop()

    run(scenario)


def test_a_request_that_breaks_the_controllers_handler_costs_itself_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with whole_node(tmp_path) as whole:
            controller = whole.node.controller
            ask = controller.submit

            async def breaks(one: Any) -> Any:
                if "bad" in repr(one):
                    raise OverflowError("no room")
                return await ask(one)

            controller.submit = breaks  # type: ignore[method-assign, assignment]  # a method with a name of its own
            connection, wire = whole.connection(CONTROLLER)
            codes = []
            for name in ("bad", "good"):
                feed(connection, b"".join(bytes(part) for part in request_frame(create(name), 7, 1, "test")))
                await until(lambda: wire.out or wire.closed, "an answer")
                assert not wire.closed
                answer: Any = read_response_body(memoryview(bytes(wire.out))[4:], 19, 7)
                codes += [one.error_code for one in answer.topics]
                wire.out.clear()
            assert codes == [Code.UNKNOWN_SERVER_ERROR, Code.NONE]
            assert not whole.failures
            assert not whole.ended

    run(scenario)


def test_a_line_that_anybody_can_cause_is_written_a_few_times_and_then_counted() -> None:
    clock = ManualClock()
    seldom = RateLimitedLog(clock)
    assert [seldom.more() for _ in range(LINES + 3)] == [""] * LINES + [None] * 3
    clock.now_ms = PERIOD_MS
    assert seldom.more() == " (3 more such lines were left out)"
    assert seldom.more() == ""


def test_a_deletion_that_is_refused_as_a_whole_is_told_once_of_each_topic() -> None:
    """A topic that was asked for wrongly was answered twice, once as if it were to be asked for again."""
    named = DeleteTopicsRequest.DeleteTopicState
    wrong, right = named(name="t", topic_id=bytes([1]) * 16), named(name="u")
    request, refused = DeleteTopicsRequest(topics=[wrong, right]), Refused(Code.NOT_CONTROLLER)
    node = broker_services(plane=PlaneDouble())
    answer = asyncio.run(refused_as_a_whole(node, request, ContextValue(api_version=6), refused))
    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("t", Code.NOT_CONTROLLER),
        ("u", Code.NOT_CONTROLLER),
    ]
