"""Records as JSON, as Kafka's generated converters and Jackson write them: every field of the version, tagged ones only
when they are not their default, ids and bytes as text, no blanks."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

from moldau.model import uuid_text
from moldau.wire.schema import Field, Struct

_WORD = re.compile(r"_([a-z0-9])")
_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)")


Plain = dict[str, Any]  # Any: a value of JSON, which nests
"""A record's fields by Kafka's names."""


def plain(record: Struct, version: int) -> Plain:
    """A record's fields by Kafka's names, as values of JSON."""
    found: Plain = {}
    for field in record.fields:
        if not field.present(version):
            continue
        value = getattr(record, field.name)
        if field.is_tagged(version) and value == _default(field):
            continue
        kind = field.element if isinstance(field.type, list) else field.type
        if isinstance(field.type, list):
            found[camel(field.name)] = None if value is None else [_value(one, kind, version) for one in value]
        else:
            found[camel(field.name)] = _value(value, kind, version)
    return found


def text(value: object) -> str:
    """Values of JSON as Jackson writes them: the digits of its escapes are capitals."""
    return _ESCAPE.sub(lambda found: found[0] if found[1] is None else f"\\u{found[1].upper()}", _plain_text(value))


def _plain_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _value(value: Any, kind: object, version: int) -> object:  # Any: whatever the field of a record holds
    if value is None:
        return None
    if isinstance(value, Struct):
        return plain(value, version)
    if kind == "uuid":
        return uuid_text(bytes(value))
    if kind in ("bytes", "records"):
        return b64encode(bytes(value)).decode()
    return value


def _default(field: Field) -> object:
    if isinstance(field.default, type):
        return field.default()
    return [] if field.default == () else field.default


def camel(name: str) -> str:
    """A field by Kafka's name: words that are joined, each but the first with a capital."""
    return _WORD.sub(lambda found: found[1].upper(), name)
