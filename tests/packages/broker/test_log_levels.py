"""Levels of loggers, changed by request while a node runs (KIP-412): by the node itself, whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.broker.api import k32_describe_configs, k44_incremental_alter_configs
from moldau.broker.controller.channel import NodeToControllerChannel
from moldau.broker.services import BrokerServices
from moldau.model import Code
from moldau.runtime.levels import levels
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest
from moldau.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.packages.broker.context import ContextValue
from tests.packages.broker.data_cluster import run
from tests.packages.broker.doubles import broker_services, node_config, zookeeper_config

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, LOGGER, GROUP = 2, 8, 32
NAME = "moldau.broker.replicas.manager"
Asked = IncrementalAlterConfigsRequest


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    names = (None, "moldau", NAME)
    before = [logging.getLogger(name).level for name in names]
    yield
    for name, level in zip(names, before, strict=True):
        logging.getLogger(name).setLevel(level)


class Forwarding(NodeToControllerChannel):
    """The way to a controller that answers whatever it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    async def send_with_retry(self, request: Any, patience_ms: int, who: Any = None, client: Any = None) -> Any:
        self.asked += [(one.resource_type, one.resource_name) for one in request.resources]
        kind = IncrementalAlterConfigsResponse
        return kind(
            responses=[
                kind.AlterConfigsResourceResponse(resource_type=one.resource_type, resource_name=one.resource_name)
                for one in request.resources
            ]
        )


def node(*, on_zookeeper: bool = False, channel: Forwarding | None = None) -> BrokerServices:
    config = zookeeper_config(3) if on_zookeeper else node_config(3)
    return broker_services(config=config, controller_channel=channel or Forwarding())


def alter(
    node: BrokerServices, *wishes: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> list[tuple[str, Code]]:
    request = Asked(
        validate_only=validate_only,
        resources=[
            Asked.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[Asked.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in each],
            )
            for kind, name, each in wishes
        ],
    )
    found: list[tuple[str, Code]] = []

    async def work() -> None:
        answer = await k44_incremental_alter_configs.handle(node, request, ContextValue(api_version=1))
        found.extend((one.resource_name, Code(one.error_code)) for one in answer.responses)
        assert all(one.error_message for one in answer.responses if one.error_code)

    run(work)
    return found


def test_a_level_is_set_at_once_and_a_removed_one_is_that_of_the_logger_above() -> None:
    channel = Forwarding()
    one = node(channel=channel)
    logging.getLogger("moldau").setLevel(logging.INFO)
    assert alter(one, (LOGGER, "3", [(NAME, SET, "TRACE"), ("root", SET, "ERROR")])) == [("3", Code.NONE)]
    assert logging.getLogger(NAME).isEnabledFor(5)
    assert (levels()[NAME], levels()["root"], levels()["moldau"]) == ("TRACE", "ERROR", "INFO")
    assert alter(one, (LOGGER, "3", [(NAME, DELETE, None)])) == [("3", Code.NONE)]
    assert levels()[NAME] == "INFO"
    assert not channel.asked


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("4", (NAME, SET, "DEBUG"), Code.INVALID_REQUEST),
        ("", (NAME, SET, "DEBUG"), Code.INVALID_REQUEST),
        ("three", (NAME, SET, "DEBUG"), Code.INVALID_REQUEST),
        ("3", (NAME, SET, "LOUD"), Code.INVALID_CONFIG),
        ("3", (NAME, SET, None), Code.INVALID_CONFIG),
        ("3", (NAME, APPEND, "DEBUG"), Code.INVALID_REQUEST),
        ("3", ("org.apache.kafka", SET, "DEBUG"), Code.INVALID_CONFIG),
        ("3", ("asyncio", SET, "DEBUG"), Code.INVALID_CONFIG),
        ("3", ("root", DELETE, None), Code.INVALID_REQUEST),
        ("3", ("moldau", SET, "DEBUG"), Code.INVALID_REQUEST),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_all_beside_it(name: str, change: Any, code: Code) -> None:
    before = levels()
    assert alter(node(), (LOGGER, name, [("moldau", SET, "DEBUG"), change])) == [(name, code)]
    assert levels() == before


def test_a_level_that_is_only_validated_stays() -> None:
    before = levels()
    assert alter(node(), (LOGGER, "3", [("moldau", SET, "DEBUG")]), validate_only=True) == [("3", Code.NONE)]
    assert levels() == before


def test_the_controller_is_asked_for_the_rest_and_answers_stay_in_order() -> None:
    channel = Forwarding()
    one = node(channel=channel)
    wishes = [
        (TOPIC, "a", [("x", SET, "1")]), (LOGGER, "3", [("nope", SET, "INFO")]), (TOPIC, "b", [("x", SET, "1")]),
        (TOPIC, "c", []), (TOPIC, "c", []), (GROUP, "g", [("x", SET, "1")]),
    ]  # fmt: skip
    codes = [Code.NONE, Code.INVALID_CONFIG, Code.NONE, Code.INVALID_REQUEST, Code.INVALID_REQUEST, Code.NONE]
    assert alter(one, *wishes) == list(zip("a3bccg", codes, strict=True))  # type: ignore[arg-type]
    assert channel.asked == [(TOPIC, "a"), (TOPIC, "b"), (GROUP, "g")]


def test_on_the_zookeeper_plane_a_groups_settings_are_refused_and_others_unharmed() -> None:
    one = node(on_zookeeper=True)
    assert alter(one, (GROUP, "g", []), (TOPIC, "a", [])) == [("g", Code.INVALID_REQUEST), ("a", Code.NONE)]


def test_levels_are_described_by_the_node_itself() -> None:
    logging.getLogger(NAME).setLevel(logging.ERROR)
    kind = DescribeConfigsRequest
    for name, code in (("3", Code.NONE), ("4", Code.INVALID_REQUEST)):
        wanted = kind.DescribeConfigsResource(resource_type=LOGGER, resource_name=name, configuration_keys=None)
        request = kind(resources=[wanted], include_synonyms=True, include_documentation=True)
        (result,) = k32_describe_configs.handle(node(), request, ContextValue(kind="broker")).results
        assert result.error_code == code
        found = {entry.name: (entry.value, entry.config_source, entry.read_only) for entry in result.configs}
        assert found.get(NAME) == (("ERROR", 6, False) if code == Code.NONE else None)
        assert not any(entry.is_sensitive for entry in result.configs)
