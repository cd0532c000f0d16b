"""DescribeClientQuotas, 0-1: quotas of users, clients and addresses from this broker's image, by a filter (KIP-546).

A component asks for one name, for the default, or for any name of a type; ``strict`` leaves out entities of more types.
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.broker.loop import InWorld, Pace
from moldau.image import Image
from moldau.image.quotas import Entity, quotas
from moldau.model import Code
from moldau.model.config_key import shown
from moldau.model.protocol import Protocol
from moldau.model.quota_config import CLIENT_ID, IP, USER
from moldau.wire.messages.k48_describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

Request = DescribeClientQuotasRequest
Response = DescribeClientQuotasResponse
EXACT, DEFAULT, ANY = 0, 1, 2


class WithImage(InWorld, Protocol):
    """Whose quotas are described."""

    @property
    def image(self) -> Image: ...


class _Filter:
    """Which entities are wanted."""

    def __init__(self) -> None:
        self.names: dict[str, str | None] = {}
        self.types: set[str] = set()

    def takes(self, of: Entity, strict: bool) -> bool:
        """Whether an entity is wanted."""
        has = dict(of)
        if strict and len(has) != len(self.names) + len(self.types):
            return False
        return self.types <= has.keys() and all(type in has and has[type] == name for type, name in self.names.items())


def handle(node: WithImage, request: Request, context: object) -> Generator[None, None, Response]:
    """Look through all quotas; there is a pause after some of them."""
    wanted = _filter(request)
    if isinstance(wanted, Response):
        return wanted
    found: dict[Entity, dict[str, float]] = {}
    pace = Pace(10 * node.world.step)
    left = list(node.image.opaque)  # others may alter quotas during a pause
    for begin in range(0, len(left), node.world.step):
        if pace.spent(node.world.step):
            yield
        for one in quotas(node.image, left[begin : begin + node.world.step]):
            if wanted.takes(one[0], request.strict):
                found.setdefault(one[0], {})[one[1]] = one[2]
    return Response(entries=[_entry(of, values) for of, values in found.items()])


def _entry(of: Entity, values: dict[str, float]) -> Response.EntryData:
    return Response.EntryData(
        entity=[Response.EntityData(entity_type=type, entity_name=name) for type, name in reversed(of)],
        values=[Response.ValueData(key=key, value=value) for key, value in sorted(values.items())],
    )


def _filter(request: Request) -> _Filter | Response:
    """What is wanted, or the answer that says what is wrong with it."""
    wanted = _Filter()
    for part in request.components:
        type, match = part.entity_type, part.match_type
        if not type:
            return _refused("Invalid empty entity type.")
        if type in wanted.names or type in wanted.types:
            return _refused(f"Entity type {shown(type)} cannot appear more than once in the filter.")
        if type not in (USER, CLIENT_ID, IP):
            return Response(
                error_code=Code.UNSUPPORTED_VERSION,
                error_message=f"Unsupported entity type {shown(type)}",
                entries=None,
            )
        if match not in (EXACT, DEFAULT, ANY):
            return _refused(f"Unknown match type {match}")
        if (part.match is None) is (match == EXACT):
            why = "but set match string to null" if match == EXACT else "but also specified a match string"
            name = {EXACT: "EXACT", DEFAULT: "DEFAULT", ANY: "SPECIFIED"}[match]
            return _refused(f"Request specified MATCH_TYPE_{name}, {why}.")
        if match == ANY:
            wanted.types.add(type)
        else:
            wanted.names[type] = part.match
    types = wanted.types | wanted.names.keys()
    if IP in types and len(types) > 1:
        return _refused(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )
    return wanted


def _refused(why: str) -> Response:
    return Response(error_code=Code.INVALID_REQUEST, error_message=why, entries=None)
