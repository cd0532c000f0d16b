"""Who is asked to change what, without a cluster."""

from __future__ import annotations

from typing import Any

from moldau.client import admin
from moldau.client.admin import AlterOp, Resource, ResourceType
from moldau.client.client import CONTROLLER, Client, ClientOptions, ForNode
from moldau.client.sockets import drive
from moldau.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

LOGGER, TOPIC = Resource(ResourceType.BROKER_LOGGER, "3"), Resource(ResourceType.TOPIC, "t")


class OfControllers(Client):
    """A client that was given controllers, every one of which changes what it is asked for."""

    def __init__(self) -> None:
        self.options = ClientOptions(controllers=True)
        self.asked: list[tuple[object, list[str]]] = []

    async def demand_controller(self) -> None:
        """One is there."""

    async def ask(self, request: IncrementalAlterConfigsRequest, target: Any, **_: object) -> Any:
        self.asked.append((target, [one.resource_name for one in request.resources]))
        told = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
        return IncrementalAlterConfigsResponse(
            responses=[
                told(resource_type=one.resource_type, resource_name=one.resource_name) for one in request.resources
            ]
        )


def test_a_level_of_a_controller_s_logger_is_changed_where_no_controller_is_active() -> None:
    """The active one was asked to change nothing first, and waited for."""
    client = OfControllers()
    changes = {LOGGER: [("moldau.broker.kraft", AlterOp.SET, "DEBUG")]}
    assert drive(admin.alter_configs(client, changes)).keys() == {LOGGER}
    assert client.asked == [(ForNode(3), ["3"])]


def test_what_is_no_logger_is_changed_by_the_active_controller() -> None:
    client = OfControllers()
    changes = {one: [("key", AlterOp.SET, "value")] for one in (LOGGER, TOPIC)}
    assert drive(admin.alter_configs(client, changes)).keys() == {LOGGER, TOPIC}
    assert client.asked == [(CONTROLLER, ["t"]), (ForNode(3), ["3"])]
