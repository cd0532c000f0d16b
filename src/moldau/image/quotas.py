"""Quotas in an image: what each entity has, one by one or all of them (KIP-546).

An image keeps quota records as they came; this file says what they mean together. Read next: ``image.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moldau.model.protocol import Protocol
from moldau.wire.records.metadata import ClientQuotaRecord
from moldau.wire.schema import Struct

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of their types; None is the default name."""
_KIND = "quota"


class Kept(Protocol):
    """The part of an image that is read here."""

    opaque: dict[tuple[object, ...], Struct]


def entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """The pairs as an entity."""
    return tuple(sorted(parts, key=lambda part: part[0]))


def identity(record: ClientQuotaRecord) -> tuple[object, ...]:
    """What all records that are about one quota of one entity have in common, and no others."""
    return (_KIND, entity((part.entity_type, part.entity_name) for part in record.entity), record.key)


def quota(image: Kept, of: Entity, key: str) -> float | None:
    """One quota of one entity."""
    record = image.opaque.get((_KIND, of, key))
    return record.value if isinstance(record, ClientQuotaRecord) else None


def quotas(image: Kept, of: Iterable[tuple[object, ...]] | None = None) -> Iterator[tuple[Entity, str, float]]:
    """All of them, or those among the kept records of these identities: entity, key, value."""
    for key in image.opaque if of is None else of:
        record = image.opaque.get(key)
        if isinstance(record, ClientQuotaRecord):
            parts = key[1]
            assert isinstance(parts, tuple), "the identity of a quota names its entity"
            yield parts, record.key, record.value


def quota_record(of: Entity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a quota, or takes it away (None)."""
    parts = [ClientQuotaRecord.EntityData(entity_type=type, entity_name=name) for type, name in reversed(of)]
    return ClientQuotaRecord(entity=parts, key=key, value=0.0 if value is None else value, remove=value is None)


def touches(identities: Iterable[tuple[object, ...]]) -> bool:
    """Whether any of a delta's kept records is a quota."""
    return any(one[0] == _KIND for one in identities)
