"""JSON read as a dataclass, with the type of each value checked: what was edited or cut is named, and not believed."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_json(kind: type[T], text: bytes) -> T:
    """The dataclass that a JSON text holds. ValueError names the value that is of another type, or is not there."""
    found = read_value(kind, json.loads(text), "")
    assert isinstance(found, kind), "what was read is of the type that was asked for"
    return found


def read_value(kind: object, value: object, name: str) -> object:
    """A value of JSON as a type of Python: a dataclass, a mapping of texts, a sequence, a pair, or a plain value."""
    if is_dataclass(kind) and isinstance(kind, type):
        return _read_dataclass(kind, value, name)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        (part,) = (one for one in parts if one is not type(None))
        return read_value(part, value, name)
    if origin is tuple and Ellipsis not in parts:
        if not isinstance(value, list) or len(value) != len(parts):
            raise ValueError(f"{name or 'it'} is {_shown(value)}, not {len(parts)} values")
        return tuple(read_value(part, one, name) for part, one in zip(parts, value, strict=True))
    if origin in (Sequence, list, tuple):
        if not isinstance(value, list):
            raise ValueError(f"{name or 'it'} is {_shown(value)}, not a list")
        return [read_value(parts[0], one, name) for one in value]
    if origin in (Mapping, dict):
        if not isinstance(value, dict):
            raise ValueError(f"{name or 'it'} is {_shown(value)}, not an object")
        return {each: read_value(parts[1], one, f"{name}.{each}") for each, one in value.items()}
    assert isinstance(kind, type), f"{kind} is a plain type"
    if type(value) is not kind:  # exactly: in Python a truth is a whole number too
        raise ValueError(f"{name or 'it'} is {_shown(value)}, not of type {kind.__name__}")
    return value


def _read_dataclass(kind: type, value: object, name: str) -> object:
    if not isinstance(value, dict):
        raise ValueError(f"{name or 'it'} is {_shown(value)}, not an object")
    hints = get_type_hints(kind)
    unknown = sorted(value.keys() - {one.name for one in fields(kind)})
    if unknown:
        raise ValueError(f"{name}{'.' * bool(name)}{unknown[0]} is not known")
    prefix = f"{name}." if name else ""
    found = {each: read_value(hints[each], one, f"{prefix}{each}") for each, one in value.items()}
    try:
        return kind(**found)
    except TypeError as error:  # a field without a default is not there
        raise ValueError(f"{name or 'it'} is not whole: {error}") from None


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
