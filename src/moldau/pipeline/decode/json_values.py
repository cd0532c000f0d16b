"""Values that are JSON objects, as columns: types are kept to, unknown fields are drift, a missing field is null.

Numbers for a timestamp are milliseconds since 1970; texts are ISO 8601, in UTC unless they say otherwise. Binary is
Base64. Nothing that stands in a value fails more than that value. Read next: plan.py.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import NamedTuple, NoReturn

import pyarrow as pa

from moldau.pipeline.decode import Decoded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 60
_FIELDS_SHOWN = 10
_FLOAT_MAX = 3.4028235677973366e38
"""From here on a number is infinite as a float of 32 bits."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMALS = Context(prec=100)
"""For more digits than the widest decimal has (76); Python's own context has 28."""


class _Wrong(Exception):
    """A value that does not fit its field."""


Convert = Callable[[object, str], object]
"""Turns a JSON value into what Arrow takes; the text is the field's path, for errors."""


@dataclass(frozen=True, slots=True)
class JsonDecoding:
    """JSON objects with these columns."""

    schema: pa.Schema

    def open(self) -> JsonDecoder:
        return JsonDecoder(self.schema)


class _Row(NamedTuple):
    """One value: its fields, or why it has none, and the names of fields that are no columns."""

    fields: Mapping[str, object] | None
    error: str | None
    drift: str | None


_TOMBSTONE = _Row({}, None, None)


class JsonDecoder:
    """Decodes batches of values with the same columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._type = pa.struct([field.with_nullable(True) for field in schema])  # a row that has an error is null
        self._required = tuple(field.name for field in schema if not field.nullable)
        self._names = frozenset(schema.names)
        self._converters = [(field.name, converter(field.type)) for field in schema]
        number = _Number if any(map(_has_decimals, schema.types)) else None
        self._parse = json.JSONDecoder(parse_float=number, parse_constant=_refuse).decode

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """The rows of the values, and what is wrong with those that have none."""
        rows = [self._row(value) for value in values.to_pylist()]
        try:
            taken = pa.array([row.fields for row in rows], self._type)
        except (ValueError, ArithmeticError, pa.ArrowException):  # of one value or of several
            rows = [self._that_fits(row) for row in rows]
            taken = pa.array([row.fields for row in rows], self._type)
        return Decoded(
            rows=taken,
            errors=pa.array([_as_text(row.error) for row in rows], pa.string()),
            schema_ids=pa.nulls(len(rows), pa.int32()),
            drift=pa.array([_as_text(row.drift) for row in rows], pa.string()),
        )

    def _row(self, value: bytes | None) -> _Row:
        if value is None:
            return _TOMBSTONE
        try:
            found = self._parse(str(value, "utf-8"))
        except UnicodeDecodeError as error:
            return _Row(None, f"not UTF-8: byte {error.start}", None)
        except RecursionError:
            return _Row(None, "not JSON that can be read: nested too deeply", None)
        except ValueError as error:
            return _Row(None, f"not JSON: {error}", None)
        if type(found) is not dict:
            return _Row(None, f"a JSON object is expected, not {_shown(found)}", None)
        try:
            fields = {
                name: None if (field := found.get(name)) is None else convert(field, name)
                for name, convert in self._converters
            }
            _demand(fields, self._required, "")
        except _Wrong as error:
            return _Row(None, str(error), None)
        more = found.keys() - self._names
        return _Row(fields, None, _drift(more) if more else None)

    def _that_fits(self, row: _Row) -> _Row:
        try:
            pa.array([row.fields], self._type)
        except UnicodeEncodeError:
            return _Row(None, "half of a surrogate pair is no text", None)
        except (ValueError, ArithmeticError, pa.ArrowException) as error:
            return _Row(None, f"it does not fit into its columns: {error}", None)
        return row


def _as_text(said: str | None) -> str | None:
    """Words about a value that can be written: names in it may have halves of surrogate pairs."""
    return said if said is None else said.encode("utf-8", "backslashreplace").decode()


def _has_decimals(kind: pa.DataType) -> bool:
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimals, inner))


class _Number(float):
    """A JSON number with a point, which keeps its text for decimals."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> _Number:
        found = super().__new__(cls, text)
        found.text = text
        return found


def converter(kind: pa.DataType) -> Convert:
    """How a JSON value that is not null becomes a value of the type."""
    return _nested(kind) or _SCALARS.get(kind) or _wide(kind)


def _nested(kind: pa.DataType) -> Convert | None:
    if pa.types.is_list(kind):
        return _list(converter(kind.value_type))
    if pa.types.is_map(kind):
        found = _map(_key(kind.key_type), converter(kind.item_type))
        return found if pa.types.is_string(kind.key_type) else _distinct(found)
    if pa.types.is_struct(kind):
        required = tuple(field.name for field in kind if not field.nullable)
        return _struct({field.name: converter(field.type) for field in kind}, required)
    return None


def _list(inner: Convert) -> Convert:
    def convert(value: object, path: str) -> object:
        if not isinstance(value, list):
            raise _Wrong(f"{path}: a list is expected, not {_shown(value)}")
        try:
            return [None if one is None else inner(one, "") for one in value]
        except _Wrong:  # once more, to say where: paths cost more than values
            return [None if one is None else inner(one, f"{path}[{at}]") for at, one in enumerate(value)]

    return convert


def _map(key: Convert, inner: Convert) -> Convert:
    def convert(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise _Wrong(f"{path}: an object is expected, not {_shown(value)}")
        return [(key(name, path), None if one is None else inner(one, f"{path}.{name}")) for name, one in value.items()]

    return convert


def _distinct(convert_map: Convert) -> Convert:
    """The same map, none of whose keys may come twice: two names may be one number, and no map of Spark's, nor of a
    table's, has a key twice."""

    def convert(value: object, path: str) -> object:
        found = convert_map(value, path)
        assert isinstance(found, list), "pairs"
        if len({repr(key) for key, _ in found}) < len(found):  # keys may be mappings themselves
            raise _Wrong(f"{path}: two of its names are one key, {_shown(value)}")
        return found

    return convert


def _demand(found: Mapping[str, object], required: tuple[str, ...], path: str) -> None:
    for name in required:
        if found[name] is None:
            raise _Wrong(f"{path}{name}: it is required, and missing or null")


def _struct(fields: Mapping[str, Convert], required: tuple[str, ...] = ()) -> Convert:
    def convert(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise _Wrong(f"{path}: an object is expected, not {_shown(value)}")
        found = {
            name: None if (field := value.get(name)) is None else inner(field, f"{path}.{name}")
            for name, inner in fields.items()
        }
        _demand(found, required, f"{path}.")
        return found

    return convert


def _key(kind: pa.DataType) -> Convert:
    """A map's key: JSON has texts there, which may stand for numbers."""
    if pa.types.is_string(kind):
        return _text
    inner, parse = converter(kind), json.JSONDecoder(parse_float=_Number, parse_constant=_refuse).decode

    def convert(value: object, path: str) -> object:
        try:
            found = parse(str(value))
        except (ValueError, RecursionError):
            found = value
        taken = inner(found, path)
        if isinstance(taken, float):  # as the map has it: of 32 bits, and without a negative zero
            return pa.scalar(taken, kind).as_py() + 0.0
        return taken

    return convert


def _integer(bits: int) -> Convert:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: object, path: str) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _Wrong(f"{path}: a whole number is expected, not {_shown(value)}")
        if not low <= value <= high:
            raise _Wrong(f"{path}: {_shown(value)} does not fit into {bits} bits")
        return value

    return convert


def _float(below: float) -> Convert:
    def convert(value: object, path: str) -> object:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _Wrong(f"{path}: a number is expected, not {_shown(value)}")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not abs(found) < below:
            raise _Wrong(f"{path}: {_shown(value)} is too large for a number with a point")
        return found

    return convert


def _boolean(value: object, path: str) -> object:
    if not isinstance(value, bool):
        raise _Wrong(f"{path}: true or false is expected, not {_shown(value)}")
    return value


def _text(value: object, path: str) -> object:
    if type(value) is not str:
        raise _Wrong(f"{path}: a text is expected, not {_shown(value)}")
    return value


def _binary(value: object, path: str) -> object:
    try:
        return base64.b64decode(str(_text(value, path)), validate=True)
    except (binascii.Error, ValueError):
        raise _Wrong(f"{path}: Base64 is expected, not {_shown(value)}") from None


def _date(value: object, path: str) -> object:
    try:
        return date.fromisoformat(str(_text(value, path)))
    except ValueError:
        raise _Wrong(f"{path}: a date like 2026-11-23 is expected, not {_shown(value)}") from None


def _timestamp(value: object, path: str) -> object:
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _EPOCH + timedelta(milliseconds=value)
        found = datetime.fromisoformat(str(_text(value, path)))
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        what = "a time like 2026-11-23T02:00:00Z, or milliseconds,"
        raise _Wrong(f"{path}: {what} is expected, not {_shown(value)}") from None


_SCALARS: Mapping[pa.DataType, Convert] = {
    pa.int8(): _integer(8), pa.int16(): _integer(16), pa.int32(): _integer(32), pa.int64(): _integer(64),
    pa.float32(): _float(_FLOAT_MAX), pa.float64(): _float(math.inf), pa.bool_(): _boolean, pa.string(): _text,
    pa.binary(): _binary, pa.date32(): _date, pa.timestamp("us", "UTC"): _timestamp,
}  # fmt: skip


def _wide(kind: pa.DataType) -> Convert:
    """A decimal: a number or a text, which must fit without being rounded."""
    assert pa.types.is_decimal(kind), kind
    unit, whole = Decimal(1).scaleb(-kind.scale), kind.precision - kind.scale

    def convert(value: object, path: str) -> object:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise _Wrong(f"{path}: a number is expected, not {_shown(value)}")
        text = value.text if isinstance(value, _Number) else str(value)
        found = _exactly(text, unit, whole) if _NUMBER.fullmatch(text) else None
        if found is None:
            raise _Wrong(f"{path}: {_shown(value)} does not fit into {kind}")
        return found

    return convert


def _exactly(text: str, unit: Decimal, whole: int) -> Decimal | None:
    """A number as so many of ``unit``, with ``whole`` digits before the point at most; None when it is not that."""
    try:
        found = Decimal(text)
        if not found:
            return Decimal(0)
        if not found.is_finite() or found.adjusted() >= whole or found.adjusted() < unit.adjusted():
            return None  # before anything is computed, for an exponent may have nine digits
        rounded = found.quantize(unit, context=_DECIMALS)
    except ArithmeticError:
        return None
    return rounded if rounded == found else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _drift(names: set[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _FIELDS_SHOWN} more" if len(shown) > _FIELDS_SHOWN else ""
    return f"fields that are no columns: {', '.join(shown[:_FIELDS_SHOWN])}{more}"


def _shown(value: object) -> str:
    try:
        text = value.text if isinstance(value, _Number) else json.dumps(value, default=str)
    except (RecursionError, ValueError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
