"""IncrementalAlterConfigs, 0-1: set, delete, append, subtract settings of topics, brokers, groups, client metrics
(KIP-339) and levels of loggers (KIP-412); validate-only honoured."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.config.changes import own_answers
from moldau.broker.loop import each
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.controller import requests
from moldau.controller.facts import Problem
from moldau.model import Code
from moldau.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Request = IncrementalAlterConfigsRequest
Response = IncrementalAlterConfigsResponse
Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(node: BrokerServices, request: Request, context: Context) -> Response:
    """What concerns this node alone is done here; the rest is the controller's answer."""
    own = own_answers(node.config, request.resources, validate_only=request.validate_only)
    rest = [one for place, one in enumerate(request.resources) if place not in own]
    if not own:
        answer: Response = await forward(node, request, context)
        return answer
    answered: list[Result] = []
    if rest:
        answer = await forward(node, Request(resources=rest, validate_only=request.validate_only), context)
        answered = list(answer.responses)
    return _merged(request, own, answered)


async def control(node: ControllerServices, request: Request, context: RequestContext) -> Response:
    """Have the controller decide resource by resource; the response comes once that is committed."""
    own = own_answers(node.config, request.resources, validate_only=request.validate_only)
    rest = (resource for place, resource in enumerate(request.resources) if place not in own)
    resources = tuple(await each(node, rest, _change))
    if not resources:
        return _merged(request, own, [])
    reply = await node.controller.submit(
        requests.IncrementalAlterConfigs(resources=resources, validate_only=request.validate_only)
    )
    refused = whole(reply)
    results = ((r.resource_type, r.resource_name, refused) for r in resources) if refused else reply.resources
    return _merged(request, own, await each(node, results, _result))


def _change(resource: Request.AlterConfigsResource) -> requests.ConfigChange:
    return requests.ConfigChange(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        changes=tuple((c.name, c.config_operation, c.value) for c in resource.configs),
    )


def _result(of: tuple[int, str, tuple[Code, str | None]]) -> Result:
    type, name, (code, message) = of
    return Result(resource_type=type, resource_name=name, error_code=code, error_message=message)


def _merged(request: Request, own: dict[int, Problem], rest: Sequence[Result]) -> Response:
    """All answers, in the order of the request."""
    others = iter(rest)
    return Response(
        responses=[
            Result(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=own[place].code,
                error_message=own[place].message,
            )
            if place in own
            else next(others)
            for place, resource in enumerate(request.resources)
        ]
    )
