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
from moldau.pipeline.spec import Decode, ValueFormat

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
        ({"properties": {"a": {"$ref": "#/no/where"}}}, "a has no column: '#/no/where' points to nothing"),
        ({"properties": {"a": {"$ref": "#gone"}}}, "a has no column: '#gone' points to nothing"),
        ({"properties": {"a": {"type": "integer"}}, "required": "a"}, "'required' is a list, not 'a'"),
        ({"properties": {"a": {"oneOf": 1}}}, "'oneOf' is a list, not 1"),
        ({"properties": {"a": {"type": "array"}}}, "a has no column: its items may be anything"),
        ({"properties": {"a": {"type": "null"}}}, "a has no column: it is always null"),
        (
            {"properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"b": {"type": "string"}}}]},
            "the schema has no column: properties beside allOf",
        ),
    ],
)
def test_a_schema_without_columns_is_refused_with_the_property(schema: object, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        json_columns(json.dumps(schema), {})


@pytest.mark.parametrize("word", ["#/definitions/~1a%25b", "#foo", "#old", "#/list/1"])
def test_a_reference_is_a_pointer_with_escapes_or_the_name_of_an_anchor(word: str) -> None:
    whole = {"type": "integer"}
    others = {"definitions": {"/a%b": whole, "b": {"$anchor": "foo", **whole}, "c": {"$id": "#old", **whole}}}
    schema = {"properties": {"r": {"$ref": word}}, **others, "list": ["", whole]}
    assert json_columns(json.dumps(schema), {}) == pa.schema([("r", pa.int64())])


@pytest.mark.parametrize("kind", [ValueFormat.AVRO, ValueFormat.PROTOBUF, ValueFormat.JSON])
def test_names_that_no_column_can_have_are_refused_as_those_of_the_file_are(
    double: RegistryDouble, kind: ValueFormat
) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("grpc_tools")
    names = ["id", "ID", "_Offset"]
    fields = [{"name": one, "type": "int"} for one in names]
    text = {
        ValueFormat.AVRO: json.dumps({"type": "record", "name": "R", "fields": fields}),
        ValueFormat.PROTOBUF: 'syntax = "proto3"; message M { int32 id = 1; int32 ID = 2 [json_name = "x"]; '
        "int32 _Offset = 3; }",
        ValueFormat.JSON: json.dumps({"properties": {one: {"type": "integer"} for one in names}}),
    }[kind]
    double.register("t-value", text, kind.value.upper())
    with pytest.raises(
        DecodeError, match="'ID' and 'id' differ in case only.*'_Offset' is a name of the pipeline's own"
    ):
        plan_decode(Decode(format=kind, registry=double.url), ["t"])


@pytest.mark.parametrize("kind", [ValueFormat.AVRO, ValueFormat.PROTOBUF, ValueFormat.JSON])
def test_fields_within_a_column_that_differ_in_case_only_are_refused_by_their_paths(
    double: RegistryDouble, kind: ValueFormat
) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("grpc_tools")
    both = [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]
    item = {"type": "record", "name": "I", "fields": both}
    text = {
        ValueFormat.AVRO: json.dumps(
            {"type": "record", "name": "R", "fields": [
                {"name": "s", "type": item},
                {"name": "list", "type": {"type": "array", "items": "I"}},
                {"name": "by", "type": {"type": "map", "values": "I"}},
            ]}
        ),
        ValueFormat.PROTOBUF: 'syntax = "proto3"; message M { I s = 1; repeated I list = 2; map<string, I> by = 3; } '
        'message I { int32 a = 1; int32 A = 2 [json_name = "x"]; }',
        ValueFormat.JSON: json.dumps({
            "definitions": {"i": {"type": "object", "properties": {one: {"type": "integer"} for one in "aA"}}},
            "properties": {
                "s": {"$ref": "#/definitions/i"},
                "list": {"type": "array", "items": {"$ref": "#/definitions/i"}},
                "by": {"type": "object", "additionalProperties": {"$ref": "#/definitions/i"}},
            },
        }),
    }[kind]  # fmt: skip
    double.register("t-value", text, kind.value.upper())
    with pytest.raises(DecodeError) as caught:
        plan_decode(Decode(format=kind, registry=double.url), ["t"])
    for path in ("s", "list.element", "by.value"):
        assert f"'{path}.A' and '{path}.a' differ in case only" in str(caught.value)
