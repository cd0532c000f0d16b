"""Avro unions of several types: a struct with a field for each, ``member0``, ``member1`` ..., of which one is set.

fastavro gives values of Python, which say which member they are, but for numbers: those go to the first member that
holds them without loss, a float into ``double`` where there is one. Read next: avro_schema.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from moldau.pipeline.decode.avro_schema import AvroType

Convert = Callable[[object], object]

_INT_BOUND = 1 << 31


def members(tree: AvroType) -> Convert | None:
    """How a record of fastavro (with the names of named types) becomes Arrow's; None when there is no such union."""
    return _convert(tree) if _has_union(tree) else None


def _has_union(tree: AvroType) -> bool:
    inner = [*tree.members, *(one.type for one in tree.fields), *([] if tree.inner is None else [tree.inner])]
    return bool(tree.members) or any(map(_has_union, inner))


def _convert(tree: AvroType) -> Convert:
    if tree.members:
        return _union(tree.members)
    if tree.kind == "record":
        parts = [(one.name, _convert(one.type)) for one in tree.fields]

        def record(value: object) -> object:
            fields = _plain(value)
            assert isinstance(fields, dict), "a record is a mapping"
            return {name: None if (one := fields[name]) is None else convert(one) for name, convert in parts}

        return record
    if tree.inner is None:
        return _plain
    inner = _convert(tree.inner)
    if tree.kind == "array":
        return lambda value: [None if one is None else inner(one) for one in value]  # type: ignore[attr-defined]  # a list
    return lambda value: {key: None if one is None else inner(one) for key, one in value.items()}  # type: ignore[attr-defined]  # a map


def _plain(value: object) -> object:
    """The value of a named type without the name that fastavro gives with it inside of a union."""
    return value[1] if type(value) is tuple else value


def _union(found: Sequence[AvroType]) -> Convert:
    converts = [_convert(one) for one in found]

    def union(value: object) -> object:
        at = _member(value, found)
        return {f"member{at}": converts[at](value)}

    return union


def _member(value: object, found: Sequence[AvroType]) -> int:
    """Which member a value is of; ValueError when it is of none."""
    if type(value) is tuple:
        wanted = {at for at, one in enumerate(found) if one.name == value[0]}
    else:
        wanted = {at for at, one in enumerate(found) if not one.name and _is(value, one)} or _resolved(value, found)
    if not wanted:
        raise ValueError(f"a {type(value).__name__} is no member of the union")
    exact = [at for at in sorted(wanted) if found[at].kind != "float"]
    return exact[0] if exact else min(wanted)


def _resolved(value: object, found: Sequence[AvroType]) -> set[int]:
    """The named type that a value without a name is of, as a writer has it who had no union: none where it may be of
    several."""
    if isinstance(value, dict):
        wanted = [at for at, one in enumerate(found) if one.kind == "record" and value.keys() == _names(one)]
    elif isinstance(value, (bytes, Decimal)):
        logical = "decimal" if isinstance(value, Decimal) else None
        wanted = [at for at, one in enumerate(found) if (one.kind, one.logical) == ("fixed", logical)]
    else:
        wanted = [at for at, one in enumerate(found) if one.kind == "enum" and isinstance(value, str)]
    return set(wanted) if len(wanted) == 1 else set()


def _names(record: AvroType) -> set[str]:
    return {field.name for field in record.fields}


def _is(value: object, one: AvroType) -> bool:
    if one.logical == "decimal":
        return isinstance(value, Decimal)
    match one.kind:
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool) and -_INT_BOUND <= value < _INT_BOUND
        case "long":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float" | "double":
            return isinstance(value, float)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, bytes)
        case "array":
            return isinstance(value, list)
    return one.kind == "map" and isinstance(value, dict)
