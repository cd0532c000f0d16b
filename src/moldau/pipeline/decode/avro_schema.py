"""Avro schemas as trees of values: which Arrow types they become, and which of them cannot be decoded safely.

Decoding takes fastavro; what is here decides before it is called. Read next: avro_values.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from moldau.pipeline.decode import DecodeError
from moldau.pipeline.decode.avro_defaults import UNREAD

_SCALARS = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(), "enum": pa.string(), "fixed": pa.binary(),
}  # fmt: skip
_TIMES = {("int", "date"): pa.date32(), ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
          ("long", "timestamp-micros"): pa.timestamp("us", "UTC")}  # fmt: skip
_NUMBERS = ("int", "long", "float", "double")
_AS_THEY_ARE = ("default", "symbols", "fields")
_DEEPEST = 50
_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """A type of a schema: a union of null and one other type is that type, any other has ``members`` (without null).

    ``name`` is that of a record, an enum or a fixed. ``logical`` is the logical type where it counts here: dates,
    timestamps and decimals. ``inner`` is a list's or a map's; ``fields`` are a record's.
    """

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    inner: AvroType | None = None
    fields: tuple[AvroField, ...] = ()
    members: tuple[AvroType, ...] = ()
    name: str = ""

    @property
    def takes_no_bytes(self) -> bool:
        """Whether a value of the type is written as nothing: a short list can then claim any number of them."""
        return self.kind == "null" or (self.kind == "record" and all(one.type.takes_no_bytes for one in self.fields))

    def arrow(self) -> pa.DataType:
        """The type of the column; milliseconds are still milliseconds."""
        return _TIMES.get((self.kind, self.logical or "")) or self._arrow(AvroType.arrow)

    def raw_arrow(self) -> pa.DataType:
        """The type in which fastavro's values become Arrow's: dates and timestamps are numbers."""
        return self._arrow(AvroType.raw_arrow)

    def _arrow(self, of: Callable[[AvroType], pa.DataType]) -> pa.DataType:
        if self.logical == "decimal":
            return pa.decimal128(self.precision, self.scale)
        if self.kind == "record":
            return pa.struct([(one.name, of(one.type)) for one in self.fields])
        if self.members:
            return pa.struct([(f"member{at}", of(one)) for at, one in enumerate(self.members)])
        if self.inner is not None:
            return pa.list_(of(self.inner)) if self.kind == "array" else pa.map_(pa.string(), of(self.inner))
        if self.kind == "null":
            raise DecodeError("avro: a field that is always null cannot be a column")
        return _SCALARS[self.kind]


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()


def read_schema(texts: list[str]) -> AvroType:
    """The tree of the last schema, which may use the names of those before; DecodeError when it cannot be decoded."""
    names: dict[str, object] = {}
    found = None
    for text in texts:
        try:
            found = _Reader(names).type(json.loads(text), "", ())
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DecodeError(f"avro: not an Avro schema: {type(error).__name__}: {error}") from None
    if found is None:
        raise DecodeError("avro: there is no schema")
    return found


class _Reader:
    """Reads a schema. A name is read again wherever it is used, so that a name within itself is seen."""

    def __init__(self, names: dict[str, object]) -> None:
        self._names = names
        self._count = 0

    def type(self, schema: object, space: str, within: tuple[str, ...]) -> AvroType:
        self._count += 1
        if len(within) > _DEEPEST:
            raise DecodeError("avro: types are nested too deeply")
        if self._count > _MOST:  # names that use names twice each grow by powers of two
            raise DecodeError(f"avro: the schema has more than {_MOST} types")
        if isinstance(schema, list):
            return self._union(schema, space, within)
        if not isinstance(schema, dict):
            return self._named(schema, space, within)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.type(kind, space, within)
        match kind:
            case "record" | "error":
                name = _full(schema, space)
                if name in within:
                    raise DecodeError(f"avro: {name} is within itself: such a schema has no columns")
                self._names[name] = schema
                inside = name.rpartition(".")[0]
                fields = tuple(self._field(one, inside, (*within, name)) for one in schema["fields"])
                return AvroType(kind="record", fields=fields, name=name)
            case "array" | "map":
                inner = self.type(schema["items" if kind == "array" else "values"], space, (*within, ""))
                if kind == "array" and inner.takes_no_bytes:
                    raise DecodeError("avro: a list of values that take no bytes is refused: it can claim any length")
                return AvroType(kind=kind, inner=inner)
            case "enum" | "fixed":
                self._names[_full(schema, space)] = schema
                if kind == "fixed" and not int(schema["size"]) > 0:
                    raise DecodeError("avro: a fixed of no bytes is refused")
                return replace(_scalar(kind, schema), name=_full(schema, space))
        return _scalar(kind, schema) if kind in _SCALARS or kind == "null" else self._named(kind, space, within)

    def _field(self, field: Mapping[str, object], space: str, within: tuple[str, ...]) -> AvroField:
        aliases = field.get("aliases") or []
        if not isinstance(aliases, list):
            raise TypeError(f"aliases are a list, not {aliases!r}")
        return AvroField(str(field["name"]), self.type(field["type"], space, within), tuple(aliases))

    def _union(self, branches: list[object], space: str, within: tuple[str, ...]) -> AvroType:
        others = [one for one in branches if one not in ("null", {"type": "null"})]
        if not others:
            return AvroType(kind="null")
        if len(others) == 1:
            return self.type(others[0], space, within)
        members = tuple(self.type(one, space, (*within, "")) for one in others)
        numbers = [one for one in members if one.kind in _NUMBERS]
        if len(numbers) > 1 and any(one.logical for one in numbers):
            raise DecodeError("avro: a union of times or dates and other numbers is not decoded: they look the same")
        return AvroType(kind="union", members=members)

    def _named(self, name: object, space: str, within: tuple[str, ...]) -> AvroType:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no type")
        if name in _SCALARS or name == "null":
            return AvroType(kind=name)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in within or name in within:
            raise DecodeError(f"avro: {full} is within itself: such a schema has no columns")
        known = full if full in self._names else name
        if known not in self._names:
            raise DecodeError(f"avro: type {name!r} is not known")
        return self.type(self._names[known], known.rpartition(".")[0], within)


def _full(schema: Mapping[str, object], space: str) -> str:
    """A type's name with its namespace."""
    name, own = str(schema["name"]), str(schema.get("namespace", space) or "")
    return name if "." in name or not own else f"{own}.{name}"


def _scalar(kind: str, schema: Mapping[str, object]) -> AvroType:
    """A type without inner ones; logical types that do not count here are what they are made of."""
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = int(str(schema["precision"])), int(str(schema.get("scale", 0)))
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise DecodeError(f"avro: decimal({precision},{scale}) has no column: 1 to 38 digits")
        return AvroType(kind=kind, logical="decimal", precision=precision, scale=scale)
    return AvroType(kind=kind, logical=str(logical) if (kind, logical) in _TIMES else None)


def for_fastavro(schema: object) -> object:
    """The schema without logical types other than decimals: fastavro then gives numbers, which Arrow turns faster.

    Defaults of fields are under another name, for ``fill_defaults``.
    """
    if isinstance(schema, list):
        return [for_fastavro(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType" or value == "decimal"}
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_field_for_fastavro(one) for one in kept["fields"]]
    return {key: value if key in _AS_THEY_ARE else for_fastavro(value) for key, value in kept.items()}


def _field_for_fastavro(field: object) -> object:
    if not isinstance(field, dict):
        return field
    kept = {key: value for key, value in field.items() if key not in ("default", UNREAD)}
    kept["type"] = for_fastavro(field["type"])
    return {**kept, UNREAD: field["default"]} if "default" in field else kept


def more_fields(writer: AvroType, reader: AvroType, path: str = "") -> Iterator[str]:
    """Paths of fields that the writer's schema has and the reader's has not."""
    if writer.members or reader.members:
        for ours, theirs in _pairs(writer, reader):
            yield from more_fields(ours, theirs, path)
        return
    if writer.inner is not None and reader.inner is not None:
        yield from more_fields(writer.inner, reader.inner, path)
    known = {name: one for one in reader.fields for name in (one.name, *one.aliases)}
    if reader.kind == "record":
        for field in writer.fields:
            if field.name not in known:
                yield path + field.name
            else:
                yield from more_fields(field.type, known[field.name].type, f"{path}{field.name}.")


def other_unit(writer: AvroType, reader: AvroType, path: str = "") -> str | None:
    """The first field whose logical types differ, in words: its numbers would be taken for something else."""
    if writer.members or reader.members:
        problems = (other_unit(ours, theirs, path) for ours, theirs in _pairs(writer, reader))
        return next((one for one in problems if one is not None), None)
    if writer.inner is not None and reader.inner is not None:
        return other_unit(writer.inner, reader.inner, path)
    if reader.kind == "record":
        known = {name: one for one in reader.fields for name in (one.name, *one.aliases)}
        pairs = ((one, known[one.name]) for one in writer.fields if one.name in known)
        return next((found for a, b in pairs if (found := other_unit(a.type, b.type, f"{path}.{b.name}"))), None)
    same = (writer.logical, writer.scale) == (reader.logical, reader.scale)
    if same or "null" in (writer.kind, reader.kind):
        return None
    return f"{path.lstrip('.')}: written as {_words(writer)}, and the column is {_words(reader)}"


def _pairs(writer: AvroType, reader: AvroType) -> list[tuple[AvroType, AvroType]]:
    """The members of unions that a value may be resolved from and to."""
    ours, theirs = writer.members or (writer,), reader.members or (reader,)
    if [(one.kind, one.name) for one in ours] == [(one.kind, one.name) for one in theirs]:
        return list(zip(ours, theirs, strict=True))
    return [
        (one, other)
        for one in ours
        for other in theirs
        if (one.kind, one.name) == (other.kind, other.name) or {one.kind, other.kind} <= set(_NUMBERS)
    ]


def _words(one: AvroType) -> str:
    return f"decimal with scale {one.scale}" if one.logical == "decimal" else one.logical or one.kind
