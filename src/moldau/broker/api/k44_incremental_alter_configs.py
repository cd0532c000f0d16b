"""IncrementalAlterConfigs, 0-1: set, delete, append, subtract settings of topics and brokers (KIP-339); validate-only
honoured."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.forwarding import forward, whole
from moldau.controller import asks
from moldau.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

handle = forward
Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def control(node: Any, request: IncrementalAlterConfigsRequest, context: Any) -> IncrementalAlterConfigsResponse:
    """Decide, resource by resource."""
    resources = tuple(
        asks.ConfigChange(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            changes=tuple((c.name, c.config_operation, c.value) for c in resource.configs),
        )
        for resource in request.resources
    )
    reply = await node.office.ask(
        asks.IncrementalAlterConfigs(resources=resources, validate_only=request.validate_only)
    )
    refused = whole(reply)
    results = [(r.resource_type, r.resource_name, refused) for r in resources] if refused else reply.resources
    return IncrementalAlterConfigsResponse(
        responses=[
            Result(resource_type=type, resource_name=name, error_code=code, error_message=message)
            for type, name, (code, message) in results
        ]
    )
