"""Sending to the controller until it answers: while there is none, when another one comes, and until time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest

from moldau.broker.api import ON_BROKER, forwarding
from moldau.broker.controller.channel import RETRY_MAX_MS, LocalContext, NodeToControllerChannel
from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.network.peers import PassedOn, Peers
from moldau.image.configs import ResourceType
from moldau.model import Code
from moldau.runtime.world import real_world
from moldau.wire.apis import APIS
from moldau.wire.frames import response_frame
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k20_delete_topics import DeleteTopicsRequest
from moldau.wire.messages.k33_alter_configs import AlterConfigsRequest
from moldau.wire.messages.k37_create_partitions import CreatePartitionsRequest
from moldau.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.wire.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.doubles import PlaneDouble, broker_services, node_config
from tests.packages.doubles import ManualTasks, Timer, manual_world

FOREVER_MS = 3_600_000


class ScriptedPeers(Peers):
    """Connections to controllers that answer as they are told to."""

    def __init__(self, answer: Callable[..., Awaitable[Any]]) -> None:
        self._answer = answer

    async def ask(self, host: str, port: int, message: Any, timeout_ms: int | None = None) -> Any:
        return await self._answer(host, port, message, timeout_ms)

    async def pass_on(
        self, host: str, port: int, message: Any, timeout_ms: int | None = None, *, who: PassedOn | None = None
    ) -> Any:
        return await self._answer(host, port, message, timeout_ms, who)


class ScriptedNode:
    """A node that asks; ``answers`` are what the controllers say in turn."""

    def __init__(self, *answers: Any) -> None:
        real = real_world(asyncio.get_running_loop(), lambda task, error: None)
        self.tasks = ManualTasks()
        self.world = manual_world(clock=real.clock, tasks=self.tasks, step=real.step)
        self.plane = PlaneDouble(leader=(2, 1), addresses={2: ("here", 2), 3: ("here", 3)})
        self.cluster_id, self.metadata = "a cluster", MetadataCache()
        self.config = node_config()
        self.answers = list(answers)
        self.peers = ScriptedPeers(self._answer)
        self.controller_channel = NodeToControllerChannel(self)

    def handler_failed(self, header: object, error: BaseException) -> None:
        raise AssertionError("the controller is elsewhere") from error

    @property
    def retry(self) -> Timer | None:
        """The timer of whoever waits to ask again; what waits for an answer has all the time there is."""
        timers = self.tasks.timers
        return timers[0] if len(timers) == 1 and timers[0].delay_ms <= RETRY_MAX_MS else None

    def retries(self) -> float:
        """Let whoever waits ask again; how long the wait was to be."""
        timer = self.retry
        assert timer is not None
        timer()
        return timer.delay_ms

    async def _answer(self, host: str, port: int, message: Any, timeout_ms: int | None, who: Any = None) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def elects(self, leader: int) -> None:
        self.plane.leader = (leader, self.plane.leader[1] + 1)
        self.controller_channel.controller_changed()


def said(code: Code) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code)


def test_who_waits_for_a_controller_asks_when_there_is_another_one() -> None:
    async def scenario() -> None:
        node = ScriptedNode(ConnectionRefusedError("dead"), said(Code.NOT_CONTROLLER), said(Code.NONE))
        asked = asyncio.ensure_future(node.controller_channel.send_with_retry(UpdateFeaturesRequest(), FOREVER_MS))
        await until(lambda: node.retry, "it waits")
        node.elects(3)
        await until(lambda: len(node.answers) == 1 and node.retry, "it has asked, and waits again")
        assert node.retries() == 20, "not for long: the new one is about to become active"
        assert (await asked).error_code is Code.NONE
        assert not node.tasks.timers
        node.elects(2)

    run(scenario)


def test_waiting_without_news_takes_longer_each_time_and_ends() -> None:
    async def scenario() -> None:
        node = ScriptedNode(*[said(Code.NOT_CONTROLLER)] * 4)
        asked = asyncio.ensure_future(node.controller_channel.send_with_retry(UpdateFeaturesRequest(), FOREVER_MS))
        waits = []
        for _ in range(3):
            await until(lambda: node.retry, "it waits")
            left = len(node.answers)
            waits.append(node.retries())
            await until(lambda left=left: len(node.answers) < left, "it asks")
        assert waits == [20, 40, 80]
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    run(scenario)


def requests() -> list[Any]:
    """One of each that brokers pass on, with something in it to be refused where the answer has no code of its own."""
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)
    setting = AlterConfigsRequest.AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="t")
    change = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="t")
    filled = [
        CreateTopicsRequest(topics=[topic]),
        DeleteTopicsRequest(topic_names=["t"]),
        CreatePartitionsRequest(topics=[more]),
        AlterConfigsRequest(resources=[setting]),
        IncrementalAlterConfigsRequest(resources=[change]),
        AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData()]),
    ]
    have = {request.api_key for request in filled}
    modules = {key: import_module(f"moldau.broker.api.{APIS[key].module}") for key in ON_BROKER}
    return filled + [APIS[key].request() for key, m in modules.items() if hasattr(m, "forward") and key not in have]


@pytest.mark.parametrize("request_", requests(), ids=lambda one: type(one).__name__)
def test_a_request_that_no_controller_answers_is_told_so_in_its_own_answer(
    request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "PATIENCE_MS", 1)

    async def scenario() -> None:
        node = ScriptedNode(ConnectionRefusedError("nobody listens"))
        request_.timeout_ms = 1
        context = LocalContext(request_)
        services = broker_services(
            config=node.config, world=node.world, plane=node.plane, controller_channel=node.controller_channel
        )
        answer = await forwarding.forward(services, request_, context)
        assert isinstance(answer, APIS[request_.api_key].response)
        codes = [code for code, _ in problems(answer)]
        assert codes == [Code.REQUEST_TIMED_OUT]
        assert all(text is None or "nobody listens" in text for _, text in problems(answer))
        response_frame(answer, context.api_version, 0)

    run(scenario)


def problems(answer: Any) -> list[tuple[int, str | None]]:
    """Codes and words of an answer: at its top, or else of its items."""
    if hasattr(answer, "error_code"):
        return [(answer.error_code, getattr(answer, "error_message", None))]
    items = [item for field in answer.fields if isinstance(one := getattr(answer, field.name), list) for item in one]
    return [(item.error_code, getattr(item, "error_message", None)) for item in items]
