"""Avro: a field that the writer does not have is what it would be, had the writer written its default."""

from __future__ import annotations

import decimal
import itertools
import json
import math
import string
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline.decode import DecodeError
from moldau.pipeline.decode.avro_values import AvroDecoding, plan_avro_registry
from moldau.pipeline.registry.double import RegistryDouble
from tests.packages.pipeline.test_decode_avro import record, written

pytest.importorskip("fastavro", reason="Avro is decoded by fastavro, which is not installed")

OLD = record(("id", "int"))


def filled(kind: object, default: object) -> object:
    """The column of a field with the type and the default, of a record whose writer did not have it."""
    with RegistryDouble() as double:
        number = double.register("t-value", json.dumps(OLD))
        double.register("t-value", json.dumps(record(("id", "int"), ("x", kind, default))))
        decoder = plan_avro_registry(double.url, "t-value").open()
        found = decoder.decode(pa.array([written(OLD, {"id": 1}, number)], pa.binary()))
    assert found.errors.to_pylist() == [None]
    return found.rows[0].as_py()["x"]


def fixed(size: int, **more: object) -> dict[str, object]:
    return {"type": "fixed", "name": "F", "size": size, **more}


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
INNER = record(("z", "int", 3), ("b", "bytes", "\u00fe"), ("p", PRICE, "\u0001\u0000"), name="N")
FILLED = {"z": 3, "b": b"\xfe", "p": Decimal("2.56")}


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (fixed(2), "\u00ff\u0001", b"\xff\x01"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, [("k", b"\xff")]),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (["null", "bytes"], "\u00ff", b"\xff"),
        (["int", fixed(1)], "\u00ff", {"member0": None, "member1": b"\xff"}),
        (PRICE, "\u00ff\u0000", Decimal("-2.56")),
        ([PRICE, "null"], "\u0001\u0000", Decimal("2.56")),
        (fixed(2, logicalType="decimal", precision=4, scale=1), "\u0000\u0010", Decimal("1.6")),
        (INNER, {}, FILLED),
        (INNER, {"z": 4}, {**FILLED, "z": 4}),
        ({"type": "array", "items": INNER}, [{}], [FILLED]),
        ([INNER, "string"], {}, {"member0": FILLED, "member1": None}),
        ([INNER, "null"], {}, FILLED),
        (record(("n", INNER, {}), name="O"), {}, {"n": FILLED}),
        ({"type": "double"}, 1, 1.0),
        ({"type": "float"}, "-Infinity", -math.inf),
    ],
)
def test_a_default_is_what_a_writer_would_have_written(kind: object, default: object, value: object) -> None:
    assert filled(kind, default) == value


def test_a_default_that_is_no_number_is_one_where_json_has_none() -> None:
    found = filled("double", "NaN")
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("kind", "default", "problem"),
    [
        ("bytes", "\u0100", "above U\\+00FF"),
        ("int", 2**31, "2147483648 is no number that int holds"),
        ("int", True, "True is no default of type int"),
        ("long", 1.5, "1.5 is no default of type long"),
        ("float", 1e300, "no number that float holds"),
        ("double", "one", "'one' is no default of type double"),
        ("string", None, "None is no default of type string"),
        ("string", "\ud800", "UTF-8"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "no symbol of the enum E"),
        ({"type": "array", "items": "int"}, ["a"], "'a' is no default of type int"),
        ({"type": "map", "values": "int"}, [], "is no default of type map"),
        (["null", "int"], "a", "fits no branch"),
        (record(("z", "int"), name="N"), {}, "it lacks the field 'z' of N"),
        (record(("z", "int"), name="N"), {"z": "a"}, "its field 'z': 'a' is no default"),
    ],
)
def test_a_default_that_does_not_fit_its_type_is_refused_by_name(kind: object, default: object, problem: str) -> None:
    decoding = AvroDecoding((json.dumps(record(("id", "int"), ("x", kind, default))),))
    with pytest.raises(DecodeError, match=f"the default of R.x: .*{problem}"):
        decoding.open()


@pytest.mark.parametrize(
    ("kind", "default"), [(fixed(2), "\u00ff"), (PRICE, "\u007f\u00ff\u00ff"), (PRICE, "\u007f" + "\u00ff" * 2000)]
)
def test_a_default_of_a_wrong_size_costs_the_records_that_need_it_alone(kind: object, default: str) -> None:
    """Readers of Avro take such a schema, and pipelines run with one: it was refused whole."""
    with RegistryDouble() as double:
        without = double.register("t-value", json.dumps(record(("id", "int"))))
        whole = record(("id", "int"), ("x", kind, default))
        number = double.register("t-value", json.dumps(whole))
        decoder = plan_avro_registry(double.url, "t-value").open()
        sound = decimal.Decimal("1.00") if kind is PRICE else b"ab"
        values = [written(whole, {"id": 1, "x": sound}, number), written(record(("id", "int")), {"id": 2}, without)]
        found = decoder.decode(pa.array(values, pa.binary()))
    assert found.rows[0].as_py()["id"] == 1
    first, second = found.errors.to_pylist()
    assert (first, second is None) == (None, False)


def test_defaults_of_a_writer_are_not_looked_at_and_no_error_tells_how_they_are_kept() -> None:
    with RegistryDouble() as double:
        writer = record(("id", "int"), ("x", "bytes", "\u0100"))
        number = double.register("t-value", json.dumps(writer))
        other = double.register("t-value", json.dumps(record(("id", "string", "y"))))
        double.register("t-value", json.dumps(OLD))
        decoder = plan_avro_registry(double.url, "t-value").open()
        values = [written(record(("id", "int"), ("x", "bytes")), {"id": 1, "x": b""}, number), b"\0\0\0\0\2\0"]
        found = decoder.decode(pa.array(values, pa.binary()))
    assert other == 2
    assert found.rows[0].as_py() == {"id": 1}
    assert "moldau" not in str(found.errors[1])


class Default(NamedTuple):
    """A type, a default of it as in JSON, and the same as a writer takes it."""

    kind: object
    given: object
    value: object


SIMPLE = (
    st.booleans().map(lambda one: Default("boolean", one, one))
    | st.integers(-(2**31), 2**31 - 1).map(lambda one: Default("int", one, one))
    | st.integers(-(2**63), 2**63 - 1).map(lambda one: Default({"type": "long"}, one, one))
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda one: Default("double", one, one))
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda one: Default("float", one, one))
    | st.text(max_size=4).map(lambda one: Default("string", one, one))
    | st.binary(max_size=4).map(lambda one: Default("bytes", one.decode("latin-1"), one))
    | st.integers(-99_999, 99_999).map(
        lambda one: Default(PRICE, one.to_bytes(3, "big", signed=True).decode("latin-1"), Decimal(one).scaleb(-2))
    )
    | st.integers(0, 2**40).map(lambda one: Default({"type": "long", "logicalType": "timestamp-micros"}, one, one))
)


@st.composite
def defaults(draw: st.DrawFn, names: Iterator[str], depth: int) -> Default:
    """A default of any type; each named type has a name of its own."""
    shape = draw(
        st.sampled_from(["simple", "fixed", "enum", "array", "map", "record", "null", "union"][: 8 * depth or 3])
    )
    if shape == "simple":
        return draw(SIMPLE)
    name = next(names)
    if shape == "fixed":
        raw = draw(st.binary(min_size=1, max_size=4))
        return Default({"type": "fixed", "name": name, "size": len(raw)}, raw.decode("latin-1"), raw)
    if shape == "enum":
        symbol = draw(st.sampled_from(["A", "B"]))
        return Default({"type": "enum", "name": name, "symbols": ["A", "B"]}, symbol, symbol)
    inner = draw(defaults(names, depth - 1))
    match shape:
        case "array":
            length = draw(st.integers(0, 2))
            return Default({"type": "array", "items": inner.kind}, [inner.given] * length, [inner.value] * length)
        case "map":
            keys = draw(st.lists(st.text(string.ascii_letters, max_size=2), max_size=2, unique=True))
            given, value = dict.fromkeys(keys, inner.given), dict.fromkeys(keys, inner.value)
            return Default({"type": "map", "values": inner.kind}, given, value)
        case "record":
            own = draw(st.booleans())
            return Default(record(("z", inner.kind, inner.given), name=name), {"z": inner.given} if own else {},
                           {"z": inner.value})  # fmt: skip
    if isinstance(inner.kind, list):
        return inner
    other = "null" if shape == "null" else record(("never", "int"), name=name)
    chosen = inner.value
    if shape == "union" and isinstance(inner.kind, dict) and inner.kind["type"] == "record":
        chosen = (inner.kind["name"], chosen)  # fastavro's writer knows such names of records alone, deeper down
    if isinstance(inner.kind, dict) and inner.kind.get("logicalType") == "timestamp-micros" and shape == "union":
        return inner
    branches = [inner.kind, other]
    return Default(branches if draw(st.booleans()) else branches[::-1], inner.given, chosen)


def test_with_the_field_and_without_it_the_rows_are_the_same() -> None:
    subjects = (f"t{at}-value" for at in itertools.count())

    with RegistryDouble() as double:

        @given(st.data())
        def same(data: st.DataObject) -> None:
            default, subject = data.draw(defaults((f"T{at}" for at in itertools.count()), 3)), next(subjects)
            new = record(("id", "int"), ("x", default.kind, default.given))
            without, with_it = (double.register(subject, json.dumps(one)) for one in (OLD, new))
            decoder = plan_avro_registry(double.url, subject).open()
            values = [written(OLD, {"id": 1}, without), written(new, {"id": 1, "x": default.value}, with_it)]
            found = decoder.decode(pa.array(values, pa.binary()))
            assert found.errors.to_pylist() == [None, None]
            assert found.rows[0].as_py() == found.rows[1].as_py()

        same()
