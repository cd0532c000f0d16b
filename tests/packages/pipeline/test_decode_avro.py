"""Avro: what a writer wrote becomes columns by the reader's schema, and no bytes fail more than their own value."""

from __future__ import annotations

import io
import json
import pickle
import sys
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline.decode import Decoded, DecodeError
from moldau.pipeline.decode.avro_values import AvroDecoder, AvroDecoding, plan_avro_file, plan_avro_registry
from moldau.pipeline.decode.prefixed import Writers, WriterSchema
from moldau.pipeline.registry.client import Reference, RegisteredSchema, Registry, RegistryError, UnknownSchema
from moldau.pipeline.registry.double import RegistryDouble

fastavro = pytest.importorskip("fastavro", reason="Avro is decoded by fastavro, which is not installed")

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "times", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "what", "type": "string"}, {"name": "was", "type": "State"}]}}},
    ],
}  # fmt: skip
NOON = datetime(2026, 11, 23, 12, 0, 0, 5000, tzinfo=UTC)
VALUE = {
    "id": 7, "name": None, "day": date(2026, 11, 23), "at": NOON, "seen": NOON, "price": Decimal("12.30"),
    "state": "PAID", "sum": b"ab", "tags": ["x", "y"], "times": {"a": NOON}, "lines": [{"what": "w", "was": "NEW"}],
}  # fmt: skip


def record(*fields: tuple[str, object] | tuple[str, object, object], name: str = "R") -> dict[str, object]:
    """A record's schema; a field with a default is (name, type, default)."""
    keys = ("name", "type", "default")
    return {"type": "record", "name": name, "fields": [dict(zip(keys, one, strict=False)) for one in fields]}


def written(schema: object, value: object, number: int | None = None) -> bytes:
    """The value's bytes as a foreign writer makes them, with the prefix of a schema id or without."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return (b"" if number is None else b"\0" + number.to_bytes(4, "big")) + stream.getvalue()


def decoded(decoding: AvroDecoding, *values: bytes | None) -> Decoded:
    """The values, decoded as on an executor."""
    return pickle.loads(pickle.dumps(decoding)).open().decode(pa.array(values, pa.binary()))


def planned(*schemas: object) -> AvroDecoding:
    return AvroDecoding(tuple(json.dumps(one) for one in schemas))


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with RegistryDouble() as started:
        yield started


def test_every_type_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    raw = written(ORDER, VALUE)
    code = bytes.fromhex(fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(ORDER), "CRC-64-AVRO"))
    found = decoded(plan_avro_file(file), raw, b"\xc3\x01" + code + raw, None, b"\xc3\x01" + bytes(8) + raw)
    wanted = {**VALUE, "times": [("a", NOON)]}
    assert found.rows.to_pylist()[:2] == [wanted, wanted]
    assert set(found.rows[2].as_py().values()) == {None}, "a tombstone is a row of nulls"
    assert found.errors.to_pylist() == [None] * 3 + ["the single-object encoding names another schema than the file's"]
    assert found.rows.type == pa.struct(list(plan_avro_file(file).schema))


def test_the_prefix_and_bytes_of_an_order_are_those_of_the_wire_format(double: RegistryDouble) -> None:
    """0, the id in four bytes, then long 7 and string "ab" as zig-zag variable-length numbers: by the specification."""
    number = double.register("t-value", json.dumps(record(("id", "long"), ("name", "string"))))
    found = decoded(plan_avro_registry(double.url, "t-value"), b"\0" + number.to_bytes(4, "big") + b"\x0e\x04ab")
    assert found.rows.to_pylist() == [{"id": 7, "name": "ab"}]
    assert found.schema_ids.to_pylist() == [number]


def test_schemas_evolve_both_ways_and_more_fields_are_drift(double: RegistryDouble) -> None:
    old, new = record(("id", "int")), record(("id", "long"), ("at", "string", "none"))
    first, second = (double.register("t-value", json.dumps(one)) for one in (old, new))
    values = written(old, {"id": 1}, first), written(new, {"id": 2, "at": "x"}, second)
    latest = decoded(plan_avro_registry(double.url, "t-value"), *values)
    assert latest.rows.to_pylist() == [{"id": 1, "at": "none"}, {"id": 2, "at": "x"}]
    assert latest.drift.null_count == 2
    number = double.register("t-value", json.dumps(record(("id", "int"), ("extra", "string"))))
    values = values[0], written(record(("id", "int"), ("extra", "string")), {"id": 3, "extra": "y"}, number)
    earliest = decoded(plan_avro_registry(double.url, "t-value", 1), *values)
    assert earliest.rows.to_pylist() == [{"id": 1}, {"id": 3}]
    assert earliest.drift.to_pylist() == [None, "fields that are no columns: extra"]


def test_references_are_resolved(double: RegistryDouble) -> None:
    line = record(("what", "string"), name="shop.Line")
    order = record(("lines", {"type": "array", "items": "shop.Line"}), name="shop.Order")
    double.register("line", json.dumps(line))
    number = double.register("t-value", json.dumps(order), references=[Reference("shop.Line", "line", 1)])
    raw = b"\0" + number.to_bytes(4, "big") + b"\x02\x02w\x00"
    assert decoded(plan_avro_registry(double.url, "t-value"), raw).rows.to_pylist() == [{"lines": [{"what": "w"}]}]


def test_another_unit_of_time_is_an_error_and_not_another_time(double: RegistryDouble) -> None:
    millis, micros = (record(("at", {"type": "long", "logicalType": f"timestamp-{unit}"})) for unit in
                      ("millis", "micros"))  # fmt: skip
    number = double.register("t-value", json.dumps(millis))
    double.register("t-value", json.dumps(micros))
    found = decoded(plan_avro_registry(double.url, "t-value"), written(millis, {"at": NOON}, number))
    assert "at: written as timestamp-millis, and the column is timestamp-micros" in str(found.errors[0])


def test_what_cannot_be_read_is_an_error_of_its_own_value(double: RegistryDouble) -> None:
    schema = record(("id", "long"), ("name", "string"))
    number = double.register("t-value", json.dumps(schema))
    double.register("p", "message M {}", "PROTOBUF")
    good = written(schema, {"id": 1, "name": "a"}, number)
    bad = [b"", b"\0\0", b"\1" + good[1:], good[:-1], good + b"x", b"\0\0\0\0\x4d", b"\0\0\0\0\2"]
    found = decoded(plan_avro_registry(double.url, "t-value"), good, *bad, good)
    assert [row is None for row in found.rows.to_pylist()] == [False, *[True] * len(bad), False]
    for error, words in zip(
        found.errors.to_pylist()[1:-1],
        ("0 bytes are too short", "2 bytes are too short", "the first byte is 1, not 0", "not Avro", "1 bytes are left",
         f"schema id 77 is not in the registry at {double.url}", "schema id 2 is PROTOBUF, not AVRO"),
        strict=True,
    ):  # fmt: skip
        assert words in (error or "")


def test_an_id_that_no_registry_gives_is_named_as_it_stands_and_not_asked_for() -> None:
    def refuse(schema: RegisteredSchema) -> WriterSchema[object]:
        raise AssertionError("there is no such schema")

    writers = Writers(Registry("http://127.0.0.1:1", attempts=1), "AVRO", refuse)
    for number in (2**31, 2**32 - 1):
        id, writer = writers.of(b"\0" + number.to_bytes(4, "big") + b"x")
        assert (id, writer.error) == (None, f"schema id {number} is larger than any registry's (2147483647)")
    with pytest.raises(RegistryError):
        writers.of(b"\0" + (2**31 - 1).to_bytes(4, "big") + b"x")


def test_an_unknown_id_is_asked_again_after_a_while_and_not_for_every_value(double: RegistryDouble) -> None:
    schema = record(("id", "long"))
    double.register("t-value", json.dumps(schema))
    now = 0.0
    decoder = AvroDecoder(planned(schema), Registry(double.url), clock=lambda: now)
    values = pa.array([written(schema, {"id": 5}, 2)] * 3, pa.binary())
    assert decoder.decode(values).errors.null_count == 0
    assert double.asked == ["/schemas/ids/2"]
    double.register("t-value", json.dumps(record(("id", "int"))))
    assert decoder.decode(values).errors.null_count == 0
    now = 11.0
    assert decoder.decode(values).rows.to_pylist() == [{"id": 5}] * 3
    assert double.asked == ["/schemas/ids/2"] * 2


def test_of_ids_that_no_registry_has_no_more_than_some_are_kept() -> None:
    asked: list[int] = []

    class Empty(Registry):
        def by_id(self, schema_id: int) -> RegisteredSchema:
            asked.append(schema_id)
            raise UnknownSchema(f"schema id {schema_id} is not there")

    writers: Writers[object] = Writers(Empty("http://127.0.0.1:1"), "AVRO", WriterSchema, clock=lambda: 0.0)
    tracemalloc.start()
    try:
        sizes = []
        for first in (0, 10_000):
            for number in range(first, first + 10_000):
                assert writers.of(b"\0" + number.to_bytes(4, "big"))[1].error == f"schema id {number} is not there"
            asked.clear()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] < sizes[0] * 1.1
    for _ in range(2):
        writers.of(b"\0" + (19_999).to_bytes(4, "big"))
    assert asked == [], "it is asked for again after a while only"


def test_a_registry_that_goes_away_fails_the_task_and_not_the_values(double: RegistryDouble) -> None:
    schema = record(("id", "long"))
    number = double.register("t-value", json.dumps(schema))
    decoder = AvroDecoder(planned(schema), Registry(double.url, pause=lambda seconds: None))
    known = pa.array([written(schema, {"id": 5}, number)], pa.binary())
    assert decoder.decode(known).rows.to_pylist() == [{"id": 5}]
    double.stop()
    assert decoder.decode(known).rows.to_pylist() == [{"id": 5}], "what was asked is kept"
    with pytest.raises(RegistryError, match="cannot be reached"):
        decoder.decode(pa.array([written(schema, {"id": 5}, 99)], pa.binary()))


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("long", "no record"),
        ({"type": "recrd"}, "'recrd' is not known"),
        ({"type": "record"}, "not an Avro schema"),
        (record(("a", ["int", {"type": "long", "logicalType": "timestamp-millis"}])), "they look the same"),
        (record(("a", ["null", "R"])), "R is within itself"),
        (record(("a", {"type": "array", "items": "null"})), "can claim any length"),
        (record(("a", {"type": "array", "items": record(name="E")})), "can claim any length"),
        (record(("a", "null")), "always null"),
        (record(("a", 5)), "not an Avro schema: TypeError: 5 is no type"),
        (record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 50})), "1 to 38 digits"),
    ],
)
def test_a_schema_that_has_no_columns_is_refused_before_anything_runs(
    tmp_path: Path, schema: object, problem: str
) -> None:
    file = tmp_path / "a.avsc"
    file.write_text(json.dumps(schema))
    with pytest.raises(DecodeError, match=problem):
        plan_avro_file(file)


def test_what_the_driver_cannot_have_is_refused(tmp_path: Path, double: RegistryDouble) -> None:
    with pytest.raises(DecodeError, match="cannot be read"):
        plan_avro_file(tmp_path / "none.avsc")
    with pytest.raises(DecodeError, match="'t-value' is not in the registry"):
        plan_avro_registry(double.url, "t-value")
    double.register("p", "message M {}", "PROTOBUF")
    with pytest.raises(DecodeError, match="is PROTOBUF, not AVRO"):
        plan_avro_registry(double.url, "p")


ROUND = record(
    ("a", "long"), ("b", ["null", "string"]), ("c", {"type": "array", "items": "double"}),
    ("d", {"type": "map", "values": "boolean"}), ("e", "bytes"), ("f", record(("g", ["int", "null"]), name="F")),
)  # fmt: skip
VALUES = st.fixed_dictionaries(
    {
        "a": st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.text(max_size=9),
        "c": st.lists(st.floats(allow_nan=False), max_size=4),
        "d": st.dictionaries(st.text(max_size=3), st.booleans(), max_size=3),
        "e": st.binary(max_size=9),
        "f": st.fixed_dictionaries({"g": st.none() | st.integers(-(2**31), 2**31 - 1)}),
    }
)
OPENED = planned(ROUND).open()


@given(st.lists(VALUES, max_size=4))
def test_what_was_written_is_read(values: list[dict[str, object]]) -> None:
    found = OPENED.decode(pa.array([written(ROUND, one) for one in values], pa.binary()))
    assert [{**row, "d": dict(row["d"])} for row in found.rows.to_pylist()] == values


@given(st.lists(st.binary(max_size=40) | st.none(), max_size=5))
def test_no_bytes_make_the_decoder_fail(values: list[bytes | None]) -> None:
    found = OPENED.decode(pa.array(values, pa.binary()))
    assert {len(one) for one in found} == {len(values)}
    for row, error in zip(found.rows.is_valid().to_pylist(), found.errors.to_pylist(), strict=True):
        assert row is (error is None)


def test_a_decimal_that_has_more_digits_than_its_column_is_an_error_of_its_own_value() -> None:
    schema = record(("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}))
    good, bad = (written(record(("price", "bytes")), {"price": one}) for one in (b"\x04\xd2", b"\x7f" * 8))
    found = decoded(planned(schema), good, bad, good)
    assert found.rows.to_pylist() == [{"price": Decimal("12.34")}, None, {"price": Decimal("12.34")}]
    assert "does not fit the columns" in str(found.errors[1])


def test_without_fastavro_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.avsc").write_text(json.dumps(ORDER))
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(DecodeError, match="pip install"):
        plan_avro_file(tmp_path / "a.avsc")


def test_a_union_of_several_types_is_a_struct_of_which_one_member_is_set() -> None:
    state = {"type": "enum", "name": "State", "symbols": ["NEW"]}
    line = record(("n", "int"), name="Line")
    price = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    union = ["null", "int", "string", line, state, "double", price, {"type": "array", "items": "Line"},
             {"type": "map", "values": ["null", "State"]}]  # fmt: skip
    schema = record(("u", union), ("one", ["null", record(("x", "State"), name="One")]))
    values = [None, 5, "s", {"n": 1}, ("State", "NEW"), 0.1, Decimal("1.20"), [{"n": 2}], {"k": "NEW", "l": None}]
    raw = [written(schema, {"u": value, "one": {"x": "NEW"}}) for value in values]
    found = decoded(planned(schema), *raw, None, b"\x63")
    assert found.errors.to_pylist()[:-1] == [None] * 10
    rows = found.rows.to_pylist()
    assert {json.dumps(row["one"]) for row in rows[:9]} == {'{"x": "NEW"}'}
    assert rows[0]["u"] is None
    members = [next((at, one) for at, one in enumerate(row["u"].values()) if one is not None) for row in rows[1:9]]
    assert members == [
        (0, 5), (1, "s"), (2, {"n": 1}), (3, "NEW"), (4, 0.1), (5, Decimal("1.20")), (6, [{"n": 2}]),
        (7, [("k", "NEW"), ("l", None)]),
    ]  # fmt: skip


def test_a_union_is_read_from_a_writer_who_had_one_type_and_never_in_another_unit(double: RegistryDouble) -> None:
    later = record(("a", ["string", "long"]), ("b", ["int", "long"]))
    texts = [record(("a", "int"), ("b", "int")), record(("a", "string"), ("b", "long")),
             record(("a", {"type": "long", "logicalType": "timestamp-millis"}), ("b", "int"))]  # fmt: skip
    ids = [double.register("t-value", json.dumps(one)) for one in [*texts, later]]
    values = [{"a": 7, "b": 1}, {"a": "s", "b": 1 << 40}, {"a": 0, "b": 0}]
    raw = [written(text, value, number) for text, value, number in zip(texts, values, ids, strict=False)]
    found = decoded(plan_avro_registry(double.url, "t-value"), *raw)
    assert found.rows.to_pylist() == [
        {"a": {"member0": None, "member1": 7}, "b": {"member0": 1, "member1": None}},
        {"a": {"member0": "s", "member1": None}, "b": {"member0": None, "member1": 1 << 40}},
        None,
    ]
    assert found.errors.to_pylist()[2] == (
        f"schema id {ids[2]}: a: written as timestamp-millis, and the column is long"
    )


def test_a_number_that_no_member_of_a_union_holds_is_an_error_of_its_own_value() -> None:
    union = record(("u", ["int", "string"]))
    too_large = b"\0" + written("long", 1 << 40)
    found = decoded(planned(union), too_large, written(union, {"u": 7}))
    assert found.errors.to_pylist() == ["not Avro of this schema: ValueError: a int is no member of the union", None]
    assert found.rows.to_pylist() == [None, {"u": {"member0": 7, "member1": None}}]


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (record(("x", "int"), name="Line"), {"x": 1}),
        ({"type": "enum", "name": "State", "symbols": ["NEW"]}, "NEW"),
        ({"type": "fixed", "name": "Two", "size": 2}, b"ab"),
        ({"type": "fixed", "name": "Price", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2},
         Decimal("1.20")),
    ],
)  # fmt: skip
def test_a_named_type_that_became_one_of_several_is_read_of_who_wrote_it_alone(
    double: RegistryDouble, one: object, value: object
) -> None:
    before, after = record(("u", one)), record(("u", ["null", "long", one, record(("y", "int"), name="Other")]))
    number = double.register("t-value", json.dumps(before))
    double.register("t-value", json.dumps(after))
    found = decoded(plan_avro_registry(double.url, "t-value"), written(before, {"u": value}, number))
    assert found.errors.to_pylist() == [None]
    assert found.rows.to_pylist() == [{"u": {"member0": None, "member1": value, "member2": None}}]
