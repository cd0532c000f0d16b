"""AlterConfigs, 0-2: the old request, which replaces all settings of a resource; validate-only honoured."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import forward, whole
from moldau.controller import asks
from moldau.wire.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse

handle = forward
Result = AlterConfigsResponse.AlterConfigsResourceResponse


async def control(node: Any, request: AlterConfigsRequest, context: Any) -> AlterConfigsResponse:
    """Decide, resource by resource."""
    resources = tuple(
        asks.ConfigChange(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            changes=tuple((c.name, asks.Operation.SET, c.value) for c in resource.configs),
        )
        for resource in request.resources
    )
    reply = await node.office.ask(asks.AlterConfigs(resources=resources, validate_only=request.validate_only))
    refused = whole(reply)
    results = [(r.resource_type, r.resource_name, refused) for r in resources] if refused else reply.resources
    return AlterConfigsResponse(
        responses=[
            Result(resource_type=type, resource_name=name, error_code=code, error_message=message)
            for type, name, (code, message) in results
        ]
    )
