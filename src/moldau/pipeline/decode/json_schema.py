"""JSON Schemas as columns: which Arrow type each property has, and which must be there.

What a schema says of ranges, patterns and combinations is not checked: the checks of a pipeline are for that. A
property that may be anything has no column. Read next: json_registry.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

import pyarrow as pa

from moldau.pipeline.decode import DecodeError

_DEEPEST = 50
_WHOLE = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
_NULL = {"type": "null"}


def json_columns(text: str, used: Mapping[str, str]) -> pa.Schema:
    """The columns of a schema, which may name the schemas of ``used``; a field that is required is not nullable.

    DecodeError, with the property, where there is no column for what the schema allows.
    """
    try:
        documents = {name: json.loads(one) for name, one in used.items()}
        found, _ = _Reader(documents).type(json.loads(text), "", "", ())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DecodeError(f"json schema: not a JSON Schema: {type(error).__name__}: {error}") from None
    if not pa.types.is_struct(found):
        raise DecodeError("json schema: a schema that is no object with properties has no columns")
    return pa.schema(list(found))


class _Reader:
    """Reads schemas; ``documents`` are those that others are named in."""

    def __init__(self, documents: Mapping[str, object]) -> None:
        self._documents = dict(documents)

    def type(self, schema: object, path: str, document: str, within: tuple[str, ...]) -> tuple[pa.DataType, bool]:
        """The type of a schema, and whether it allows null; ``document`` is where it stands."""
        if document not in self._documents:
            self._documents[document] = schema
        if not isinstance(schema, dict) or len(within) > _DEEPEST:
            raise self._none(path, "anything is allowed" if isinstance(schema, bool) else "nested too deeply")
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), path, document, within)
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema:
                if schema.get("properties"):  # those of one of both would be no columns, and missed by nobody
                    raise self._none(path, f"properties beside {word}")
                return self._choice(_listed(schema, word), word, path, document, within)
        kinds = schema.get("type", self._implied(schema))
        kinds = kinds if isinstance(kinds, list) else [kinds]
        others = [one for one in kinds if one != "null"]
        if len(others) != 1:
            raise self._none(path, f"its type is one of {others}" if others else "it is always null")
        return self._single(str(others[0]), schema, path, document, within), "null" in kinds

    def _implied(self, schema: Mapping[str, object]) -> object:
        """The type of a schema that names none: of an enumeration of texts, of an object with properties."""
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list) and values and all(one is None or isinstance(one, str) for one in values):
            return ["string", "null"] if None in values else "string"
        return "object" if "properties" in schema else None

    def _single(
        self, kind: str, schema: Mapping[str, object], path: str, document: str, within: tuple[str, ...]
    ) -> pa.DataType:
        connect = str(schema.get("connect.type", ""))
        match kind:
            case "boolean":
                return pa.bool_()
            case "integer":
                return _WHOLE.get(connect or str(schema.get("format", "")), pa.int64())
            case "number":
                return pa.float32() if connect == "float32" else pa.float64()
            case "string":
                return self._text(schema, connect)
            case "array":
                inner = schema.get("items")
                if not isinstance(inner, dict):
                    raise self._none(path, "its items may be anything")
                found, _ = self.type(inner, f"{path}[]", document, (*within, ""))
                return pa.list_(found)
            case "object":
                return self._object(schema, path, document, within)
        raise self._none(path, f"its type is {kind}")

    def _text(self, schema: Mapping[str, object], connect: str) -> pa.DataType:
        if connect == "bytes" or schema.get("contentEncoding") == "base64":
            return pa.binary()
        found = {"date-time": pa.timestamp("us", "UTC"), "date": pa.date32()}
        return found.get(str(schema.get("format")), pa.string())

    def _object(self, schema: Mapping[str, object], path: str, document: str, within: tuple[str, ...]) -> pa.DataType:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            required = _listed(schema, "required")
            fields = []
            for name, one in properties.items():
                kind, nullable = self.type(one, f"{path}.{name}".lstrip("."), document, (*within, ""))
                fields.append(pa.field(name, kind, nullable=nullable or name not in required))
            return pa.struct(fields)
        more = schema.get("additionalProperties")
        if not isinstance(more, dict):
            raise self._none(path, "an object without properties")
        found, _ = self.type(more, f"{path}{{}}", document, (*within, ""))
        return pa.map_(pa.string(), found)

    def _choice(
        self, schemas: list[object], word: str, path: str, document: str, within: tuple[str, ...]
    ) -> tuple[pa.DataType, bool]:
        others = [one for one in schemas if not (isinstance(one, dict) and one.get("type") == "null")]
        if len(others) != 1 or (word == "allOf" and len(schemas) != 1):
            raise self._none(path, f"{word} of {len(others)} schemas")
        kind, nullable = self.type(others[0], path, document, (*within, ""))
        return kind, nullable or len(others) < len(schemas)

    def _reference(self, name: str, path: str, document: str, within: tuple[str, ...]) -> tuple[pa.DataType, bool]:
        where, _, pointer = name.partition("#")
        where = where or document
        full = f"{where}#{pointer}"
        if full in within:
            raise self._none(path, f"{name} is within itself")
        if where not in self._documents:
            raise self._none(path, f"{where!r} is not among its references")
        try:
            found = _found(self._documents[where], unquote(pointer))
        except (LookupError, ValueError, TypeError):
            raise self._none(path, f"{name!r} points to nothing") from None
        return self.type(found, path, where, (*within, full))

    def _none(self, path: str, why: str) -> DecodeError:
        place = path or "the schema"
        return DecodeError(f"json schema: {place} has no column: {why}. 'fields' in the file may name the columns")


def _listed(schema: Mapping[str, object], word: str) -> list[object]:
    """The list that a keyword has, an empty one without it."""
    found = schema.get(word, [])
    if not isinstance(found, list):
        raise TypeError(f"{word!r} is a list, not {found!r}")
    return found


def _found(document: object, pointer: str) -> object:
    """What a JSON pointer or the name of an anchor leads to; LookupError, ValueError or TypeError where nothing is."""
    if pointer and not pointer.startswith("/"):
        for schema in _anchored(document, pointer):
            return schema
        raise LookupError(pointer)
    found = document
    for part in pointer.split("/")[1:]:
        if isinstance(found, list):
            found = found[int(part)]
        elif isinstance(found, dict):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        else:
            raise LookupError(part)
    return found


def _anchored(schema: object, name: str) -> Iterator[object]:
    """The schemas that have the anchor: by ``$anchor``, or as before draft 2019-09 by an ``$id`` that begins with #."""
    if isinstance(schema, dict):
        if schema.get("$anchor") == name or f"#{name}" in (schema.get("$id"), schema.get("id")):
            yield schema
        for one in schema.values():
            yield from _anchored(one, name)
    elif isinstance(schema, list):
        for one in schema:
            yield from _anchored(one, name)
