"""AlterConfigs, 0-2: the old request, which replaces all settings of a resource; validate-only honoured."""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.config.changes import not_on_this_plane
from moldau.broker.loop import each
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import ControllerServices
from moldau.controller import requests
from moldau.model import Code
from moldau.wire.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse

handle = forward
Result = AlterConfigsResponse.AlterConfigsResourceResponse


async def control(
    node: ControllerServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    """Have the controller decide resource by resource; the response comes once that is committed."""
    lacking = [not_on_this_plane(node.config, resource.resource_type) for resource in request.resources]
    here = (resource for resource, problem in zip(request.resources, lacking, strict=True) if problem is None)
    resources = tuple(await each(node, here, _change))
    reply = await node.controller.submit(
        requests.AlterConfigs(resources=resources, validate_only=request.validate_only)
    )
    refused = whole(reply)
    results = [(r.resource_type, r.resource_name, refused) for r in resources] if refused else list(reply.resources)
    results += [
        (resource.resource_type, resource.resource_name, problem)
        for resource, problem in zip(request.resources, lacking, strict=True)
        if problem is not None
    ]
    return AlterConfigsResponse(responses=await each(node, results, _result))


def _change(resource: AlterConfigsRequest.AlterConfigsResource) -> requests.ConfigChange:
    return requests.ConfigChange(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        changes=tuple((c.name, requests.Operation.SET, c.value) for c in resource.configs),
    )


def _result(of: tuple[int, str, tuple[Code, str | None]]) -> Result:
    type, name, (code, message) = of
    return Result(resource_type=type, resource_name=name, error_code=code, error_message=message)
