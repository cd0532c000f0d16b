"""Protobuf: what foreign code encodes becomes columns, and no bytes fail more than their own value."""

from __future__ import annotations

import errno
import importlib.util
import json
import pickle
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline.decode import Decoded, DecodeError, NotReadHere
from moldau.pipeline.decode.protobuf_schema import compile_proto
from moldau.pipeline.decode.protobuf_values import (
    ProtobufDecoding,
    message_indexes,
    plan_protobuf_file,
    plan_protobuf_registry,
)
from moldau.pipeline.registry.client import Reference
from moldau.pipeline.registry.double import RegistryDouble
from moldau.wire.varints import varint

pytest.importorskip("google.protobuf", reason="Protobuf needs the package protobuf, which is not installed")
pytest.importorskip("grpc_tools", reason=".proto text is compiled by grpcio-tools, which is not installed")

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "parts/line.proto";

message Order {
  enum State { NEW = 0; PAID = 1; }
  message Empty {}
  int64 id = 1;
  optional string name = 2;
  State state = 3;
  repeated string tags = 4;
  repeated sint32 deltas = 5;
  map<string, Line> lines = 6;
  map<int32, bytes> blobs = 7;
  oneof pay { string card = 8; uint64 cash = 9; }
  google.protobuf.Timestamp at = 10;
  google.protobuf.Int32Value maybe = 11;
  google.protobuf.Struct extra = 12;
  google.protobuf.Any any = 13;
  Line line = 14;
  fixed32 four = 15;
  double price = 16;
  bool fine = 17;
  Empty empty = 18;
  repeated google.protobuf.Timestamp times = 19;
  map<string, State> states = 20;
}
message Other { string text = 1; message Inner { int32 n = 1; } }
"""
LINE = 'syntax = "proto3"; package shop; message Line { string what = 1; float weight = 2; }'


def message(files: dict[str, str], name: str) -> type:
    """The class of a message, from descriptors that the decoder has no part in."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_proto(files, "main.proto")).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def decoded(decoding: ProtobufDecoding, *values: bytes | None) -> Decoded:
    return pickle.loads(pickle.dumps(decoding)).open().decode(pa.array(values, pa.binary()))


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with RegistryDouble() as started:
        yield started


@pytest.fixture(scope="module")
def order() -> type:
    return message({"main.proto": ORDER, "parts/line.proto": LINE}, "shop.Order")


def test_every_type_is_read_across_references_from_a_registry(double: RegistryDouble, order: type) -> None:
    double.register("line", LINE, "PROTOBUF")
    number = double.register("orders-value", ORDER, "PROTOBUF", [Reference("parts/line.proto", "line", 1)])
    found = order(id=7, name="n", state=1, tags=["a", "b"], deltas=[-1, 2], blobs={3: b"x"}, cash=2**63, four=2**32 - 1,
                  price=1.5, fine=True, states={"s": 1, "t": 9})  # fmt: skip
    found.lines["l"].what = "w"
    found.at.FromDatetime(datetime(2026, 11, 23, 12, 0, 0, 5))
    found.times.add().seconds = 1
    found.maybe.value = 0
    found.extra.update({"k": [1, None, "t"]})
    found.any.type_url = "u"
    found.line.weight = 0.5
    prefix = b"\0" + number.to_bytes(4, "big")
    decoding = plan_protobuf_registry(double.url, "orders-value")
    result = decoded(decoding, prefix + b"\0" + found.SerializeToString(), prefix + b"\2\0", None)
    assert result.errors.to_pylist() == [None, None, None]
    assert result.schema_ids.to_pylist() == [number, number, None]
    row, empty, tombstone = result.rows.to_pylist()
    row["states"].sort()
    assert json.loads(row.pop("extra")) == {"k": [1, None, "t"]}
    assert row == {
        "id": 7, "name": "n", "state": "PAID", "tags": ["a", "b"], "deltas": [-1, 2],
        "lines": [("l", {"what": "w", "weight": 0.0})], "blobs": [(3, b"x")], "card": None, "cash": Decimal(2**63),
        "at": datetime(2026, 11, 23, 12, 0, 0, 5, tzinfo=UTC), "maybe": 0, "any": {"type_url": "u", "value": b""},
        "line": {"what": "", "weight": 0.5}, "four": 2**32 - 1, "price": 1.5, "fine": True,
        "times": [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], "states": [("s", "PAID"), ("t", "9")],
    }  # fmt: skip
    assert (empty["id"], empty["name"], empty["state"], empty["tags"], empty["line"]) == (0, None, "NEW", [], None)
    assert set(tombstone.values()) == {None}
    assert decoding.schema.field("cash").type == pa.decimal128(20, 0)


def test_the_indexes_say_which_message_and_one_of_another_kind_is_an_error(double: RegistryDouble) -> None:
    double.register("line", LINE, "PROTOBUF")
    number = double.register("t-value", ORDER, "PROTOBUF", [Reference("parts/line.proto", "line", 1)])
    prefix = b"\0" + number.to_bytes(4, "big")
    inner = plan_protobuf_registry(double.url, "t-value", message="Other.Inner")
    result = decoded(
        inner, prefix + b"\4\2\0\x08\x05", prefix + b"\2\2", prefix + b"\2\x0e", prefix + b"\5", prefix + b"\0"
    )
    assert result.rows.to_pylist()[0] == {"n": 5}
    errors = result.errors.to_pylist()
    assert errors[1] == f"schema id {number}: a shop.Other, and the columns are of shop.Other.Inner"
    assert errors[2] == f"schema id {number} has no message at [7]"
    assert errors[3] == "what follows the schema id are no message indexes"
    assert "a shop.Order" in str(errors[4])
    with pytest.raises(DecodeError, match=r"no message 'Nothing'. Known are: shop.Order, shop.Order.Empty"):
        plan_protobuf_registry(double.url, "t-value", message="Nothing")


def test_of_indexes_that_no_message_has_none_are_kept(double: RegistryDouble) -> None:
    number = double.register("t-value", 'syntax = "proto3"; message M { int64 a = 1; }', "PROTOBUF")
    decoder = plan_protobuf_registry(double.url, "t-value").open()
    prefix = b"\0" + number.to_bytes(4, "big") + b"\2"
    values = [prefix + varint(at) for at in range(1, 500)] + [prefix + b"\0\x08\x07"]
    found = decoder.decode(pa.array(values, pa.binary()))
    assert found.errors.null_count == 1
    assert found.errors[0].as_py() == f"schema id {number} has no message at [1]"
    assert len(decoder._messages) == 1


def test_fields_are_matched_by_number_and_never_taken_for_another_kind(double: RegistryDouble) -> None:
    one = 'syntax = "proto3"; message M {{ {} }}'
    texts = ["int64 a = 1; string b = 2;", "int32 renamed = 1; string c = 3;", "sint64 a = 1;", "repeated int64 a = 1;",
             "optional int64 a = 1; M b = 2;"]  # fmt: skip
    ids = [double.register("t-value", one.format(text), "PROTOBUF") for text in texts]
    decoding = plan_protobuf_registry(double.url, "t-value", 1)
    result = decoded(decoding, *(b"\0" + number.to_bytes(4, "big") + b"\0\x08\x03" for number in ids))
    assert result.rows.to_pylist()[:2] == [{"a": 3, "b": ""}, {"a": 3, "b": ""}]
    assert result.drift.to_pylist() == [None, "fields that are no columns: c", None, None, None]
    assert [str(one).partition(": ")[2] for one in result.errors.to_pylist()[2:]] == [
        "a: written as sint64, and the column is int64",
        "a: written as a list, and the column is none",
        "b: written as message, and the column is string",
    ]


def test_a_file_of_proto2_has_required_fields_and_defaults(tmp_path: Path) -> None:
    (tmp_path / "other.proto").write_text('syntax = "proto2"; message Part { optional bytes raw = 1; }')
    file = tmp_path / "order.proto"
    file.write_text(
        'syntax = "proto2"; import "other.proto"; '
        'message Order { required int32 id = 1; optional string name = 2 [default = "d"]; repeated Part parts = 3; }'
    )
    found = decoded(
        plan_protobuf_file(file), b"\x08\x01", b"\x12\x01x", b"\x08\x01\x50\x01", b"\xff", b"\x08\x01\x12\x01\xff"
    )
    assert found.rows.to_pylist()[0] == {"id": 1, "name": None, "parts": []}
    assert found.errors.to_pylist()[:4] == [None, "required fields are missing: id", None, "not a message Order"]
    assert found.drift.to_pylist()[2] == "fields that are no columns: number 10"
    (tmp_path / "set.desc").write_bytes(plan_protobuf_file(file).descriptors)
    assert plan_protobuf_file(tmp_path / "set.desc").schema == plan_protobuf_file(file).schema


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message", "schema.proto:1:8"),
        ('syntax = "proto3"; import "gone.proto"; message M { int32 a = 1; }', "gone.proto: File not found"),
        ('syntax = "proto3"; message M { M m = 1; }', "M is within itself"),
        ('syntax = "proto3"; message M { }', "has no fields that are columns"),
        ('syntax = "proto3"; enum E { A = 0; }', "the schema has no message"),
    ],
)
def test_a_schema_that_has_no_columns_is_refused_before_anything_runs(
    double: RegistryDouble, text: str, problem: str
) -> None:
    double.register("t-value", text, "PROTOBUF")
    with pytest.raises(DecodeError, match=problem):
        plan_protobuf_registry(double.url, "t-value")


def test_a_reference_whose_name_leaves_the_folder_is_refused(double: RegistryDouble) -> None:
    double.register("line", LINE, "PROTOBUF")
    double.register("t-value", ORDER, "PROTOBUF", [Reference("../../line.proto", "line", 1)])
    with pytest.raises(DecodeError, match="no name of an import"):
        plan_protobuf_registry(double.url, "t-value")


@pytest.mark.parametrize("how", ["no time", "killed", "not installed", "no room"])
def test_a_machine_on_which_no_schema_can_be_compiled_fails_the_task_and_calls_no_record_wrong(
    double: RegistryDouble, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    number = double.register("t-value", 'syntax = "proto3"; message M { int64 a = 1; }', "PROTOBUF")
    decoder = plan_protobuf_registry(double.url, "t-value").open()
    value = pa.array([b"\0" + number.to_bytes(4, "big") + b"\0\x08\x07"], pa.binary())

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if how == "no time":
            raise subprocess.TimeoutExpired(command, 60)
        return subprocess.CompletedProcess(command, -9, "", "")

    def write_text(path: Path, text: str, encoding: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        if how == "not installed":
            patched.setattr(importlib.util, "find_spec", lambda name: None)
        elif how == "no room":
            patched.setattr(Path, "write_text", write_text)
        else:
            patched.setattr(subprocess, "run", run)
        with pytest.raises(NotReadHere):
            decoder.decode(value)
    assert decoder.decode(value).rows.to_pylist() == [{"a": 7}]


def test_what_the_compiler_says_is_the_same_each_time_and_names_no_folder() -> None:
    said = set()
    for _ in range(2):
        with pytest.raises(DecodeError) as caught:
            compile_proto({"schema.proto": "message"}, "schema.proto")
        said.add(str(caught.value))
    assert len(said) == 1
    assert said.pop().startswith("protobuf: schema.proto:1:8")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "schema.proto/b"])
def test_a_reference_whose_name_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(DecodeError, match="cannot be written as a file"):
        compile_proto({"schema.proto": "", name: LINE}, "schema.proto")


@pytest.mark.parametrize("name", ["dt=2026-11-29", "a:b", "a,b", "@a b"])
def test_a_file_and_what_it_imports_may_stand_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / name
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "line.proto").write_text(LINE)
    (folder / "order.proto").write_text(
        'syntax = "proto3"; import "parts/line.proto"; import "google/protobuf/any.proto"; '
        "message M { shop.Line line = 1; google.protobuf.Any any = 2; }"
    )
    wanted = plan_protobuf_file(folder / "order.proto").schema
    assert wanted.names == ["line", "any"]
    monkeypatch.chdir(tmp_path)
    assert plan_protobuf_file(Path(name) / "order.proto").schema == wanted
    monkeypatch.chdir(folder)
    assert plan_protobuf_file(Path("order.proto")).schema == wanted


def test_bytes_that_are_no_descriptor_set_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"garbage", b"\x0a\x02\x0a\x00"):
        (tmp_path / "a.desc").write_bytes(content)
        with pytest.raises(DecodeError, match="protobuf: "):
            plan_protobuf_file(tmp_path / "a.desc")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> ProtobufDecoding:
    folder = tmp_path_factory.mktemp("proto")
    (folder / "parts").mkdir()
    (folder / "parts" / "line.proto").write_text(LINE)
    (folder / "order.proto").write_text(ORDER)
    return plan_protobuf_file(folder / "order.proto")


@given(values=st.lists(st.binary(max_size=40), max_size=5), at=st.integers(0, 5))
def test_no_bytes_fail_more_than_their_own_value(orders: ProtobufDecoding, values: list[bytes], at: int) -> None:
    given_ = [*values[:at], b"\x08\x07", *values[at:]]
    found = orders.open().decode(pa.array(given_, pa.binary()))
    assert len(found.rows) == len(given_)
    good = min(at, len(values))
    assert found.rows[good].as_py()["id"] == 7
    assert [row is None for row in found.rows.to_pylist()] == [one is not None for one in found.errors.to_pylist()]


@given(st.binary(max_size=20))
def test_indexes_are_read_or_refused(value: bytes) -> None:
    found, at = message_indexes(value, 0)
    assert at <= len(value)
    assert found is None or all(one >= 0 for one in found)


def test_a_time_that_no_column_holds_is_an_error_of_its_value(orders: ProtobufDecoding, order: type) -> None:
    good, bad = order(), order()
    good.at.seconds, bad.at.seconds = 253_402_300_799, 253_402_300_800
    found = decoded(orders, good.SerializeToString(), bad.SerializeToString())
    assert found.rows.to_pylist()[0]["at"].year == 9999
    assert "253402300800 s and 0 ns are not a Timestamp" in found.errors.to_pylist()[1]
