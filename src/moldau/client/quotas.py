"""Quotas of clients, users and addresses: described and altered (KIP-546).

An entity is a mapping of type (``user``, ``client-id``, ``ip``) to a name, None for the default. Read next: admin.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client.client import ANYONE, CONTROLLER, Client
from moldau.client.view import Outcome
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.wire.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from moldau.wire.messages.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

EXACT, DEFAULT, ANY = 0, 1, 2
"""How a component of a filter matches: this name, the default, any name."""


class Component(NamedTuple):
    """Entities are asked for by type and name; ``match`` is one of EXACT, DEFAULT, ANY."""

    type: str
    match: int
    name: str | None = None


class Quotas(NamedTuple):
    """The quotas of an entity."""

    entity: dict[str, str | None]
    values: dict[str, float]


async def describe_quotas(
    client: Client, components: Sequence[Component], *, strict: bool = True
) -> tuple[Outcome, list[Quotas]]:
    """The quotas of entities that have these components, and if ``strict`` no others; of all when there are none."""
    kind = DescribeClientQuotasRequest
    wanted = [kind.ComponentData(entity_type=c.type, match_type=c.match, match=c.name) for c in components]
    response = await client.ask(kind(components=wanted, strict=strict), ANYONE)
    found = [
        Quotas({e.entity_type: e.entity_name for e in one.entity}, {v.key: v.value for v in one.values})
        for one in response.entries or []
    ]
    return Outcome(Code(response.error_code), response.error_message), found


async def alter_quotas(
    client: Client, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
) -> Outcome:
    """Set quotas of one entity, or take them away (None)."""
    kind = AlterClientQuotasRequest
    entry = kind.EntryData(
        entity=[kind.EntityData(entity_type=type, entity_name=name) for type, name in entity.items()],
        ops=[
            kind.OpData(key=key, value=value if value is not None else 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )
    request = kind(entries=[entry], validate_only=False)
    response = await client.ask(request, CONTROLLER, codes=_codes)
    (answer,) = response.entries
    return Outcome(Code(answer.error_code), answer.error_message)


def _codes(response: AlterClientQuotasResponse) -> list[int]:
    return [entry.error_code for entry in response.entries]
