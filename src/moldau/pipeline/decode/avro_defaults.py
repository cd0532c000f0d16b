"""Defaults of Avro fields as the values that fastavro reads: it gives them out as they stand in the schema's JSON.

They are converted once, when the schema that gives the columns is planned. Read next: avro_values.py.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from decimal import Decimal

from moldau.pipeline.decode import DecodeError

UNREAD = "moldau.default"
"""The key that a field's default has until it is converted: fastavro refuses some that Avro allows."""

_BOUNDS = {"int": 31, "long": 63}
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BYTES = 256

Schema = Mapping[str, object]


class _Misfit(Exception):
    """A default that is none of its type; the message says why."""


class _WrongSize(_Misfit):
    """A default that Avro's own readers take when they read the schema, and that is no value."""


def fill_defaults(named: Mapping[str, object]) -> None:
    """Gives the fields of all records among fastavro's parsed types their defaults, as values; DecodeError names one
    that does not fit its type.
    """
    reader = _Defaults(named)
    for name, schema in named.items():
        for field in _fields(schema):
            if UNREAD in field:
                try:
                    field["default"] = reader.value(field["type"], field[UNREAD])
                except _WrongSize:  # an error of each record that needs it: schemas in use have such ones
                    continue
                except _Misfit as misfit:
                    raise DecodeError(f"avro: the default of {name}.{field['name']}: {misfit}") from None
    drop_unread(named)


def drop_unread(named: Mapping[str, object]) -> None:
    """Takes away what was not converted: a writer's defaults are not used, and errors tell the schema as it is."""
    for schema in named.values():
        for field in _fields(schema):
            field.pop(UNREAD, None)


def _fields(schema: object) -> list[dict[str, object]]:
    found = schema.get("fields", []) if isinstance(schema, dict) else []
    assert isinstance(found, list)
    return found


class _Defaults:
    def __init__(self, named: Mapping[str, object]) -> None:
        self._named = named

    def value(self, schema: object, given: object) -> object:
        """What fastavro would have read, had a writer written the default; _Misfit when it is none of the type."""
        if isinstance(schema, list):
            return self._union(schema, given)
        if isinstance(schema, str):
            return self.value(self._named[schema], given) if schema in self._named else _primitive(schema, given)
        assert isinstance(schema, dict)
        kind = schema["type"]
        match kind:
            case "record" | "error":
                return self._record(schema, given)
            case "array":
                if not isinstance(given, list):
                    raise _misfit(given, "array")
                return [self.value(schema["items"], one) for one in given]
            case "map":
                if not isinstance(given, dict):
                    raise _misfit(given, "map")
                return {_primitive("string", key): self.value(schema["values"], one) for key, one in given.items()}
            case "enum" | "fixed" | "bytes":
                return _leaf(schema, given)
            case str():
                return self._named_or_primitive(kind, given)
        return self.value(kind, given)

    def _named_or_primitive(self, kind: str, given: object) -> object:
        return self.value(self._named[kind], given) if kind in self._named else _primitive(kind, given)

    def _record(self, schema: Schema, given: object) -> object:
        if not isinstance(given, dict):
            raise _misfit(given, "record")
        found = {}
        for field in _fields(schema):
            name = str(field["name"])
            if name not in given and UNREAD not in field:
                raise _Misfit(f"it lacks the field {name!r} of {schema['name']}, which has no default")
            try:
                found[name] = self.value(field["type"], given[name] if name in given else field[UNREAD])
            except _Misfit as misfit:
                raise type(misfit)(f"its field {name!r}: {misfit}") from None
        return found

    def _union(self, branches: list[object], given: object) -> object:
        """The value of the first branch that it fits: since Avro 1.12 that need not be the first of all."""
        several = sum(self._full(one).get("type") != "null" for one in branches) > 1
        misfits = []
        for branch in branches:
            try:
                found = self.value(branch, given)
            except _Misfit as misfit:
                misfits.append(str(misfit))
                continue
            full = self._full(branch)
            named = several and full["type"] in ("record", "error", "enum", "fixed")
            return (full["name"], found) if named else found
        raise _Misfit(f"it fits no branch of its union: {'; '.join(misfits)}")

    def _full(self, schema: object) -> Schema:
        if isinstance(schema, dict):
            return schema if isinstance(schema["type"], str) else self._full(schema["type"])
        found = self._named.get(str(schema), {"type": schema})
        assert isinstance(found, dict)
        return found


def _leaf(schema: Schema, given: object) -> object:
    """A symbol, bytes, or a decimal."""
    if schema["type"] == "enum":
        symbols = schema["symbols"]
        if not isinstance(symbols, list) or given not in symbols:
            raise _Misfit(f"{_short(given)} is no symbol of the enum {schema['name']}")
        return given
    return _number(schema, _fixed(schema, given) if schema["type"] == "fixed" else _bytes(given, "bytes"))


def _primitive(kind: str, given: object) -> object:
    match kind:
        case "null" if given is None:
            return None
        case "boolean" if isinstance(given, bool):
            return given
        case "int" | "long" if isinstance(given, int) and not isinstance(given, bool):
            if not -(1 << _BOUNDS[kind]) <= given < 1 << _BOUNDS[kind]:
                raise _Misfit(f"{_short(given)} is no number that {kind} holds")
            return given
        case "float" | "double":
            return _float(kind, given)
        case "bytes":
            return _bytes(given, kind)
        case "string" if isinstance(given, str):
            try:
                given.encode()
            except UnicodeEncodeError:
                raise _Misfit("it is a text that UTF-8 cannot hold") from None
            return given
    raise _misfit(given, kind)


def _float(kind: str, given: object) -> float:
    """A number, or one of the three that JSON has no numbers for, by its name."""
    if isinstance(given, str) and given in _WORDS:
        return _WORDS[given]
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise _misfit(given, kind)
    try:
        return float(struct.unpack("<f", struct.pack("<f", given))[0]) if kind == "float" else float(given)
    except OverflowError:
        raise _Misfit(f"{_short(given)} is no number that {kind} holds") from None


def _bytes(given: object, kind: str) -> bytes:
    """The bytes whose values are the text's code points, as the specification has them."""
    if not isinstance(given, str):
        raise _misfit(given, kind)
    if any(ord(one) >= _BYTES for one in given):
        raise _Misfit(f"{_short(given)} has characters above U+00FF, which are no bytes")
    return given.encode("latin-1")


def _fixed(schema: Schema, given: object) -> bytes:
    found = _bytes(given, "fixed")
    if len(found) != schema["size"]:
        raise _WrongSize(f"it has {len(found)} bytes, and {schema['name']} has {schema['size']}")
    return found


def _number(schema: Schema, raw: bytes) -> object:
    """The bytes, or the decimal that they are."""
    if schema.get("logicalType") != "decimal":
        return raw
    unscaled = int.from_bytes(raw, "big", signed=True)
    precision, scale = int(str(schema["precision"])), int(str(schema.get("scale", 0)))
    if abs(unscaled) >= 10**precision:
        raise _WrongSize(f"it has more digits than the {precision} of decimal({precision},{scale})")
    digits = tuple(int(one) for one in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def _misfit(given: object, kind: str) -> _Misfit:
    return _Misfit(f"{_short(given)} is no default of type {kind}")


def _short(given: object) -> str:
    said = ascii(given)
    return said if len(said) <= 60 else f"{said[:57]}..."
