"""JSON with a registry's schema: which columns a schema gives, and that every value is held against them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from moldau.pipeline.decode import Decoded, DecodeError
from moldau.pipeline.decode.json_registry import JsonRegistryDecoding, plan_json_registry
from moldau.pipeline.decode.json_schema import json_columns
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.registry.client import Reference
from moldau.pipeline.registry.double import RegistryDouble
from moldau.pipeline.spec import Decode

SCHEMA = {
    "type": "object",
    "required": ["id", "line"],
    "properties": {
        "id": {"type": "integer"},
        "small": {"type": "integer", "connect.type": "int16"},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "state": {"enum": ["NEW", "PAID"]},
        "fine": {"type": "boolean"},
        "tags": {"type": "array", "items": {"$ref": "#/definitions/tag"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "line": {"$ref": "line.json"},
    },
    "definitions": {"tag": {"type": "string"}},
}
LINE = {"type": "object", "required": ["what"], "properties": {"what": {"$ref": "#/$defs/w"}},
        "$defs": {"w": {"type": "string"}}}  # fmt: skip


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with RegistryDouble() as started:
        yield started


def decoded(decoding: JsonRegistryDecoding, *values: bytes | None) -> Decoded:
    return pickle.loads(pickle.dumps(decoding)).open().decode(pa.array(values, pa.binary()))


def test_a_schema_gives_the_columns_and_values_are_held_against_it(double: RegistryDouble) -> None:
    double.register("line", json.dumps(LINE), "JSON")
    number = double.register("t-value", json.dumps(SCHEMA), "JSON", [Reference("line.json", "line", 1)])
    avro = double.register("other", '{"type": "record", "name": "R", "fields": []}')
    found = plan_json_registry(double.url, "t-value")
    assert [str(kind) for kind in found.schema.types] == [
        "int64", "int16", "string", "double", "timestamp[us, tz=UTC]", "date32[day]", "binary", "string", "bool",
        "list<item: string>", "map<string, int64>", "struct<what: string>",
    ]  # fmt: skip
    assert all(field.nullable for field in found.schema)
    prefix = b"\0" + number.to_bytes(4, "big")

    def value(of: object) -> bytes:
        return prefix + json.dumps(of).encode()

    result = decoded(
        found, value({"id": 1, "name": None, "line": {"what": "w"}, "tags": ["a"], "counts": {"k": 2}, "more": 1}),
        value({"line": {"what": "w"}}), value({"id": 1, "line": {}}), value({"id": "1", "line": {"what": "w"}}), None,
        b"{}", b"\0" + avro.to_bytes(4, "big") + b"{}", b"\0\0\0\0\x63{}", prefix + b"garbage",
    )  # fmt: skip
    rows, errors = result.rows.to_pylist(), result.errors.to_pylist()
    assert (rows[0]["id"], rows[0]["line"], rows[0]["tags"], rows[0]["counts"]) == (1, {"what": "w"}, ["a"], [("k", 2)])
    assert result.drift.to_pylist()[0] == "fields that are no columns: more"
    assert errors[:6] == [
        None, "id: it is required, and missing or null", "line.what: it is required, and missing or null",
        'id: a whole number is expected, not "1"', None, "2 bytes are too short for a schema id",
    ]  # fmt: skip
    assert errors[6] == f"schema id {avro} is AVRO, not JSON"
    assert "99 is not in the registry" in errors[7]
    assert "not JSON" in errors[8]
    assert [one is None for one in rows] == [one is not None for one in errors]
    assert set(rows[4].values()) == {None}
    assert result.schema_ids.to_pylist() == [number] * 4 + [None, None, avro, 99, number]


def test_fields_of_the_file_are_columns_where_the_schema_allows_anything(double: RegistryDouble) -> None:
    double.register("t-value", '{"type": "object", "properties": {"id": true}}', "JSON")
    with pytest.raises(DecodeError, match=r"id has no column: anything is allowed. 'fields' in the file may name"):
        plan_decode(Decode(registry=double.url), ["t"])
    found = plan_decode(Decode(registry=double.url, fields={"id": "long"}), ["t"])
    assert found.schema == pa.schema([("id", pa.int64())])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "string"}, "no object with properties"),
        ([], "nested too deeply|not a JSON Schema"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "a has no column: its type is one of"),
        ({"properties": {"a": {"type": "object"}}}, "a has no column: an object without properties"),
        ({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}, "a has no column: oneOf of 2"),
        ({"properties": {"a": {"$ref": "#"}}}, "# is within itself"),
        ({"properties": {"a": {"$ref": "gone.json"}}}, "'gone.json' is not among its references"),
        ({"properties": {"a": {"$ref": "#/no/where"}}}, "not a JSON Schema: KeyError"),
        ({"properties": {"a": {"type": "array"}}}, "a has no column: its items may be anything"),
        ({"properties": {"a": {"type": "null"}}}, "a has no column: it is always null"),
    ],
)
def test_a_schema_without_columns_is_refused_with_the_property(schema: object, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        json_columns(json.dumps(schema), {})
