"""Hypothesis strategies for every message and version, made from the schemas themselves."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from moldau.model import Code
from moldau.wire.batch import build
from moldau.wire.schema import Field, Struct

BATCH = build(
    [(1_700_000_000_000, b"key", b"value", [("header", b"x")]), (1_700_000_000_001, None, b"", [])], base_offset=7
)

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def _whole(type: str) -> st.SearchStrategy[int]:
    bits = _BITS[type]
    return st.integers(-(2**bits), 2**bits - 1)


def value(field: Field, type: Any, version: int) -> st.SearchStrategy[Any]:
    """A value of a field's type in a version."""
    if isinstance(type, list):
        return st.lists(value(field, type[0], version), max_size=3)
    if not isinstance(type, str):
        return struct(type, version)
    if field.name in ("error_code", "partition_error_code") or (field.name == "error" and type == "int16"):
        return st.sampled_from(list(Code)).map(int)
    if type in _BITS and (field.name.endswith("_ms") or "timestamp" in field.name or field.name.startswith("last_")):
        return st.integers(0, 2**31 - 1)  # foreign readers turn these into times
    if type in _BITS:
        return _whole(type)
    return {
        "uint16": st.integers(0, 2**16 - 1),
        "uint32": st.integers(0, 2**32 - 1),
        "float64": st.floats(allow_nan=False),
        "bool": st.booleans(),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": _TEXT,
        "bytes": st.binary(max_size=20),
        "records": st.just(BATCH),
    }[type]


_STRUCTS: dict[tuple[type[Struct], int], st.SearchStrategy[Any]] = {}
"""Hypothesis looks into a strategy that is new at each of its examples: a third of the time of these tests."""


def struct(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """A message or nested struct with every field of the version drawn."""
    if (cls, version) not in _STRUCTS:
        _STRUCTS[cls, version] = _struct(cls, version)
    return _STRUCTS[cls, version]


def _struct(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    parts = {}
    for field in cls.fields:
        if field.present(version):
            drawn = value(field, field.type, version)
            parts[field.name] = st.none() | drawn if field.is_nullable(version) else drawn
    return st.tuples(*parts.values()).map(lambda values: cls(**dict(zip(parts, values, strict=True))))
