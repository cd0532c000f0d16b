"""AlterClientQuotas, 0-1: quotas of users, clients and addresses, set and taken away (KIP-546); validate-only honoured.

Passed on to the controller, which decides entity by entity; answered when this broker keeps clients to them.
"""

from __future__ import annotations

from moldau.broker.api.forwarding import forward, whole
from moldau.broker.loop import each
from moldau.broker.metadata.applied import wait_until_each_applied
from moldau.broker.network.context import Context
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import BrokerServices, ControllerServices
from moldau.controller import requests
from moldau.controller.facts import Problem
from moldau.controller.quotas import KEYS_MAX
from moldau.image import Image
from moldau.image.quotas import entity, quota
from moldau.model import Code
from moldau.wire.messages.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

Request = AlterClientQuotasRequest
Response = AlterClientQuotasResponse
Entry = AlterClientQuotasRequest.EntryData


async def handle(
    node: BrokerServices,
    request: Request,
    context: Context,
) -> Response:
    """Pass on; answer when this broker's image shows it."""
    answer: Response = await forward(node, request, context)
    if not request.validate_only:
        await wait_until_each_applied(node, zip(request.entries, answer.entries, strict=False), _shows)
    return answer


def _shows(image: Image, one: tuple[Entry, Response.EntryData]) -> bool:
    """Whether the image has what was done; what was refused need not be there."""
    asked, result = one
    return result.error_code != Code.NONE or all(
        quota(image, entity(_parts(asked)), op.key) == (None if op.remove else op.value) for op in asked.ops
    )


async def control(
    node: ControllerServices,
    request: Request,
    context: RequestContext,
) -> Response:
    """Have the controller decide entity by entity; the response comes once that is committed."""
    changes = tuple(await each(node, request.entries, _change))
    reply = await node.controller.submit(
        requests.AlterClientQuotas(changes=changes, validate_only=request.validate_only)
    )
    refused = whole(reply)
    results = [refused] * len(changes) if refused is not None else reply.results
    return Response(entries=await each(node, zip(request.entries, results, strict=True), _result))


def _parts(entry: Entry) -> tuple[tuple[str, str | None], ...]:
    return tuple((part.entity_type, part.entity_name) for part in entry.entity)


def _change(entry: Entry) -> requests.QuotaChange:
    ops = entry.ops[: KEYS_MAX + 1]  # more are refused
    return requests.QuotaChange(
        entity=_parts(entry), quotas=tuple((op.key, None if op.remove else op.value) for op in ops)
    )


def _result(of: tuple[Entry, Problem | tuple[Code, str | None]]) -> Response.EntryData:
    entry, (code, message) = of
    parts = [Response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
    return Response.EntryData(error_code=code, error_message=message, entity=parts)
