"""Values of test files are what the decoders read: behind a registry's id or without, and what is none is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from moldau.pipeline.decode.encoding import NotEncoded, encoder
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.decode.protobuf_schema import Schema, compile_proto
from moldau.pipeline.decode.protobuf_values import indexes_of, message_indexes
from moldau.pipeline.registry.double import RegistryDouble
from moldau.pipeline.spec import Decode, ValueFormat

AVRO = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "raw", "type": "bytes"},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "what", "type": "string"}]}}},
        {"name": "more", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip
ORDER = {
    "id": 7, "at": "2026-11-28T09:00:00Z", "day": "2026-11-28", "price": 2.5, "raw": "aGk=",
    "lines": [{"what": "tea"}], "more": {"a": 1},
}  # fmt: skip
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { message Inner { int32 n = 1; } map<string, int32> counts = 1; }
message Order {
  int64 id = 1; google.protobuf.Timestamp at = 2; bytes raw = 3;
  message Line { string what = 1; }
  repeated Line lines = 4;
}
"""


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with RegistryDouble() as started:
        yield started


def row(decode: Decode, value: Mapping[str, object]) -> dict[str, object]:
    """What the value is read as."""
    found = plan_decode(decode, ["orders"]).open().decode(pa.array([encoder(decode, ["orders"])(value)], pa.binary()))
    assert found.errors.to_pylist() == [None]
    read = found.rows.to_pylist()[0]
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize("where", ["registry", "file"])
def test_avro_is_read_as_it_was_said(where: str, double: RegistryDouble, tmp_path: Path) -> None:
    double.register("orders-value", json.dumps(AVRO))
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    file = str(tmp_path / "order.avsc")
    named, found = (
        Decode(format=ValueFormat.AVRO, registry=double.url),
        Decode(format=ValueFormat.AVRO, schema_file=file),
    )
    decode = named if where == "registry" else found
    read = row(decode, ORDER)
    assert (read["id"], str(read["at"]), str(read["day"]), str(read["price"])) == (
        7, "2026-11-28 09:00:00+00:00", "2026-11-28", "2.50",
    )  # fmt: skip
    assert (read["raw"], read["lines"], dict(read["more"])) == (b"hi", [{"what": "tea"}], {"a": 1})  # type: ignore[call-overload]
    encode = encoder(decode, ["orders"])
    for wrong in (
        {**ORDER, "id": "seven"},
        {**ORDER, "id": 1.5},
        {**ORDER, "ids": 1},
        {"id": 7},
        {**ORDER, "at": "noon"},
        {**ORDER, "raw": "?"},
    ):
        with pytest.raises(NotEncoded, match="not Avro of the columns' schema") as refused:
            encode(wrong)
        assert "\n" not in str(refused.value), "a verdict is a line"
    with pytest.raises(NotEncoded, match="ids"):
        encode({**ORDER, "ids": 1})
    without = {name: one for name, one in ORDER.items() if name != "at"}
    assert row(decode, without)["at"] is None, "a field with a default may be left out"


def test_a_time_without_a_zone_is_of_utc_on_any_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in JSON; it was of the machine's zone, and a case's verdict with it."""
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    decode = Decode(format=ValueFormat.AVRO, schema_file=str(tmp_path / "order.avsc"))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert str(row(decode, {**ORDER, "at": "2026-11-28T09:00:00"})["at"]) == "2026-11-28 09:00:00+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("message", [None, "Order", "Other.Inner"])
def test_protobuf_is_read_as_it_was_said_whichever_message_it_is(
    message: str | None, double: RegistryDouble, tmp_path: Path
) -> None:
    pytest.importorskip("grpc_tools", reason=".proto text is compiled by grpcio-tools, which is not installed")
    double.register("orders-value", PROTO, "PROTOBUF")
    (tmp_path / "order.proto").write_text(PROTO)
    value: dict[str, object] = {"n": 3} if message == "Other.Inner" else {"counts": {"a": 1}}
    if message == "Order":
        value = {"id": 7, "at": "2026-11-28T09:00:00Z", "raw": "aGk=", "lines": [{"what": "tea"}]}
    file = str(tmp_path / "order.proto")
    for decode in (
        Decode(format=ValueFormat.PROTOBUF, message=message, registry=double.url),
        Decode(format=ValueFormat.PROTOBUF, message=message, schema_file=file),
    ):
        read = row(decode, value)
        if message == "Order":
            assert (read["id"], str(read["at"]), read["raw"]) == (7, "2026-11-28 09:00:00+00:00", b"hi")
        else:
            (name,) = value
            assert read[name] in (3, [("a", 1)])
        with pytest.raises(NotEncoded, match="not a message shop"):
            encoder(decode, ["orders"])({"no": 1})


def test_json_of_a_registry_has_its_id(double: RegistryDouble) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    double.register("other", '{"type": "object", "properties": {"x": {"type": "string"}}}', "JSON")
    double.register("orders-value", json.dumps(schema), "JSON")
    decode = Decode(format=ValueFormat.JSON, registry=double.url)
    assert encoder(decode, ["orders"])({"id": 7}) == b'\0\0\0\0\2{"id": 7}'
    assert row(decode, {"id": 7}) == {"id": 7}


def test_indexes_are_written_as_they_are_read() -> None:
    pytest.importorskip("grpc_tools", reason=".proto text is compiled by grpcio-tools, which is not installed")
    many = "".join(f"message M{number} {{ int32 n = 1; message In {{ int32 n = 1; }} }}\n" for number in range(70))
    schema = Schema(compile_proto({"main.proto": f'syntax = "proto3"; package shop;\n{many}'}, "main.proto"))
    for name in schema.names():
        raw = indexes_of(schema, name)
        indexes, at = message_indexes(raw, 0)
        assert at == len(raw)
        assert indexes is not None
        found = schema.at(indexes)
        assert found is not None
        assert found.full_name == name
