"""Decoding: what fits becomes columns, what does not is an error of that value alone."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline import stages
from moldau.pipeline.decode import Decoded, DecodeError
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.decode.types import TypeWordError, parse_type
from moldau.pipeline.spec import Decode, ValueFormat
from moldau.spark.decode import MAX_MS

FIELDS = {
    "id": "long", "small": "byte", "ratio": "double", "ok": "boolean", "name": "string", "raw": "binary", "day": "date",
    "at": "timestamp", "price": "decimal(9,2)", "tags": "array<string>", "by": "map<string,int>",
    "in": "struct<a: int, b: array<struct<c: date>>>",
}  # fmt: skip


def decoded(*values: object, fields: dict[str, str] | None = None) -> Decoded:
    """The values, as JSON unless they are bytes or None, decoded as on an executor."""
    planned = pickle.loads(pickle.dumps(plan_decode(Decode(fields=fields or FIELDS), ["t"])))
    raw = [one if isinstance(one, bytes) or one is None else json.dumps(one).encode() for one in values]
    return planned.open().decode(pa.array(raw, pa.binary()))


def test_every_type_is_read() -> None:
    found = decoded(
        {
            "id": 2**63 - 1, "small": -128, "ratio": 1, "ok": False, "name": "ü", "raw": "aGk=", "day": "2026-11-23",
            "at": "2026-11-23T02:00:00.5+01:00", "price": 12.30, "tags": ["a", None], "by": {"x": 1},
            "in": {"a": 1, "b": [{"c": "2020-01-01"}]},
        },
        {"at": 1500, "price": "0.01"},
        {"price": 7},
        None,
    )  # fmt: skip
    assert found.errors.null_count == 4
    first, second, third, fourth = found.rows.to_pylist()
    assert first == {
        "id": 2**63 - 1, "small": -128, "ratio": 1.0, "ok": False, "name": "ü", "raw": b"hi", "day": date(2026, 11, 23),
        "at": datetime(2026, 11, 23, 1, 0, 0, 500_000, tzinfo=UTC), "price": Decimal("12.30"), "tags": ["a", None],
        "by": [("x", 1)], "in": {"a": 1, "b": [{"c": date(2020, 1, 1)}]},
    }  # fmt: skip
    assert (second["at"], second["price"]) == (datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC), Decimal("0.01"))
    assert third["price"] == 7
    assert set(fourth.values()) == {None}, "a tombstone is a row of nulls"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff{}", "not"),
        (b'{"ratio": NaN}', "NaN is no JSON number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"in": ' + b'{"a":' * 100_000, "nested too deeply"),
        ([1], "a JSON object is expected, not [1]"),
        ({"id": "1"}, 'id: a whole number is expected, not "1"'),
        ({"id": 1.0}, "id: a whole number is expected, not 1.0"),
        ({"id": True}, "id: a whole number is expected, not true"),
        ({"id": 2**63}, "does not fit into 64 bits"),
        ({"small": 128}, "small: 128 does not fit into 8 bits"),
        ({"ratio": "x"}, "ratio: a number is expected"),
        ({"ratio": 10**400}, "is too large for a number with a point"),
        ({"ok": 0}, "ok: true or false is expected, not 0"),
        ({"name": {"a": 1}}, 'name: a text is expected, not {"a": 1}'),
        (b'{"name": "\\ud800"}', "half of a surrogate pair"),
        ({"raw": "%%"}, "raw: Base64 is expected"),
        ({"day": "23.11.2026"}, "day: a date like"),
        ({"at": "yesterday"}, "at: a time like"),
        ({"at": 10**30}, "at: a time like"),
        ({"price": 0.001}, "price: 0.001 does not fit into decimal128(9, 2)"),
        ({"price": 10**7}, "does not fit into decimal128(9, 2)"),
        ({"price": "much"}, "price: \"much\" does not fit"),
        ({"tags": "a"}, 'tags: a list is expected, not "a"'),
        ({"tags": ["a", 1]}, "tags[1]: a text is expected, not 1"),
        ({"by": {"x": "y"}}, 'by.x: a whole number is expected, not "y"'),
        ({"in": {"b": [{}, {"c": 5}]}}, "in.b[1].c: a text is expected, not 5"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_with_its_path_and_costs_no_other_value(value: object, reason: str) -> None:
    found = decoded({"id": 1}, value, {"id": 2})
    assert found.rows.to_pylist()[1] is None
    assert reason in (found.errors[1].as_py() or "")
    assert [found.rows[at].as_py()["id"] for at in (0, 2)] == [1, 2]


def test_fields_that_are_no_columns_are_drift_and_no_error() -> None:
    found = decoded(
        {"id": 1, "new": 2, "also": 3}, {"id": 1}, {f"f{n:02}": n for n in range(30)}, fields={"id": "long"}
    )
    assert found.errors.null_count == 3
    told = found.drift.to_pylist()
    assert told[:2] == ["fields that are no columns: also, new", None]
    assert told[2] is not None
    assert told[2].endswith("f09 and 20 more")


@given(st.lists(st.binary(max_size=40) | st.none(), max_size=5))
def test_no_bytes_make_a_decoder_fail(values: list[bytes | None]) -> None:
    for format in (ValueFormat.JSON, ValueFormat.TEXT, ValueFormat.RAW):
        planned = plan_decode(Decode(format=format, fields=FIELDS if format is ValueFormat.JSON else None), ["t"])
        found = planned.open().decode(pa.array(values, pa.binary()))
        assert {len(one) for one in found} == {len(values)}
        for row, error in zip(found.rows.is_valid().to_pylist(), found.errors.to_pylist(), strict=True):
            assert row is (error is None)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from([*FIELDS, "other"]), JSON_VALUES, max_size=4), min_size=1, max_size=4))
def test_json_of_any_kind_is_a_row_or_an_error(values: list[dict[str, object]]) -> None:
    found = decoded(*values)
    for at, value in enumerate(values):
        if found.errors[at].as_py() is None and isinstance(value.get("id"), int):
            assert found.rows[at].as_py()["id"] == value["id"]


def test_text_and_bytes_are_one_column() -> None:
    values = pa.array([b"a", None, b"\xff"], pa.binary())
    text = plan_decode(Decode(format=ValueFormat.TEXT), ["t"]).open().decode(values)
    assert text.rows.to_pylist() == [{"value": "a"}, {"value": None}, None]
    assert text.errors.to_pylist() == [None, None, "not UTF-8: byte 0"]
    raw = plan_decode(Decode(format=ValueFormat.RAW), ["t"]).open().decode(values)
    assert raw.rows.to_pylist() == [{"value": b"a"}, {"value": None}, {"value": b"\xff"}]


def test_type_words_are_sparks() -> None:
    assert parse_type("BIGINT") == pa.int64()
    assert parse_type(" map< string , array<decimal(38,10)> >") == pa.map_(pa.string(), pa.list_(pa.decimal128(38, 10)))
    wanted = pa.struct([("a", pa.int32()), ("b_c", pa.timestamp("us", "UTC"))])
    assert parse_type("struct<a: int, b_c: timestamp>") == wanted


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("lng", "'lng' is no type. Did you mean 'long'? (at 1)"),
        ("array<lnog>", "Did you mean 'long'? (at 7)"),
        ("array<long", "'>' is expected, not the end (at 11)"),
        ("long long", "'long' is too much (at 6)"),
        ("decimal(39,2)", "1 to 38 digits"),
        ("decimal(x)", "a number is expected"),
        ("struct<>", "a name is expected, not '>'"),
        ("struct<a: int, a: int>", "'a' is named twice"),
        ("struct<a: int, A: int>", "'A' and 'a' differ in case only: tables take them for one (at 16)"),
        ("array<struct<id: int, Id: int>>", "'Id' and 'id' differ in case only: tables take them for one (at 23)"),
        ("map<string, struct<x: struct<a: int, A: int>>>", "'A' and 'a' differ in case only: tables take them for one"),
        ("", "'nothing' is no type"),
        ("array<" * 60, "nested too deeply"),
    ],
)
def test_a_word_that_is_no_type_is_refused_with_its_place(word: str, problem: str) -> None:
    with pytest.raises(TypeWordError) as caught:
        parse_type(word)
    assert problem in str(caught.value)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(DecodeError, match="needs 'fields'"):
        plan_decode(Decode(), ["t"])
    with pytest.raises(DecodeError, match="id: 'lng' is no type"):
        plan_decode(Decode(fields={"id": "lng"}), ["t"])


KINDS = (
    "byte", "int", "long", "float", "double", "boolean", "string", "binary", "date", "timestamp", "decimal(9,2)",
    "decimal(38,0)", "decimal(38,10)", "array<string>", "map<string,long>", "map<int,string>", "map<date,long>",
    "map<double,long>", "map<decimal(9,2),long>", "struct<a: int, b: decimal(5,0)>",
)  # fmt: skip
NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,45})?([eE][+-]?[0-9]{1,10})?",
    fullmatch=True,
    alphabet=st.characters(codec="ascii"),
)
TEXTS = (
    st.text(max_size=12)
    | NUMBERS
    | st.sampled_from(["\ud800", "NaN", "Infinity", "[" * 5000, "1_0", "\u0661", "0001-01-01"])
)


def written(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lists and objects of JSON texts."""
    fields = st.lists(st.tuples(TEXTS, values), max_size=3)
    return st.lists(values, max_size=3).map(lambda found: f"[{','.join(found)}]") | fields.map(
        lambda found: "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in found) + "}"
    )


JSON = st.recursive(NUMBERS | TEXTS.map(json.dumps) | st.sampled_from(["null", "true", "NaN"]), written, max_leaves=5)


@given(st.sampled_from(KINDS), JSON, TEXTS)
def test_whatever_stands_in_a_value_fails_no_more_than_that_value(kind: str, value: str, name: str) -> None:
    bad = f'{{"f":{value},{json.dumps(name)}:1}}'.encode()
    found = decoded(bad, {"f": None}, fields={"f": kind})
    assert (len(found.rows), found.errors[1].as_py()) == (2, None)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("decimal(9,2)", "1e-999999999", None),  # that was a SIGSEGV
        ("decimal(9,2)", '"1e999999999"', None),
        ("decimal(9,2)", "0e999999999", Decimal(0)),
        ("decimal(9,2)", '"1_000"', None),
        ("decimal(9,2)", "1.100", Decimal("1.1")),
        ("decimal(9,2)", "1.101", None),
        ("decimal(38,10)", "9223372036854775807", Decimal(9223372036854775807)),
        ("decimal(38,10)", '"1234567890123456789.5"', Decimal("1234567890123456789.5")),
        ("decimal(38,0)", "12345678901234567890123456789", Decimal(12345678901234567890123456789)),
        ("double", "1e400", None),
        ("float", "1e308", None),
        ("map<int,long>", '{"' + "[" * 5000 + '":1}', None),
        ("map<string,long>", '{"\\ud800":"x"}', None),
        ("map<double,long>", '{"NaN":1}', None),
    ],
)  # fmt: skip
def test_numbers_are_read_exactly_or_refused(kind: str, value: str, read: object) -> None:
    found = decoded(f'{{"f":{value}}}'.encode(), {"f": None}, fields={"f": kind})
    if read is None:
        assert found.errors[0].as_py().startswith("f")
    else:
        assert (found.errors[0].as_py(), found.rows[0].as_py()["f"]) == (None, read)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("map<long,int>", {"1": 1, " 1": 2}),
        ("map<decimal(5,2),int>", {"1.0": 1, "1.00": 2}),
        ("map<double,int>", {"1": 1, "10e-1": 2}),
        ("map<double,int>", {"0": 1, "-0.0": 2}),
        ("map<float,int>", {"0.1": 1, "0.10000000001": 2}),
        ("map<timestamp,int>", {"2026-11-23T02:00:00Z": 1, "2026-11-23T03:00:00+01:00": 2}),
        ("map<date,int>", {"2026-11-23": 1, "2026-W48-1": 2}),
    ],
)
def test_a_map_of_whose_names_two_are_one_key_is_an_error_of_its_value(kind: str, value: dict[str, int]) -> None:
    found = decoded({"it": value}, {"it": dict([next(iter(value.items()))])}, fields={"it": kind})
    first, second = found.errors.to_pylist()
    assert "it: two of its names are one key" in str(first)
    assert second is None
    assert len(found.rows.to_pylist()[1]["it"]) == 1


def test_a_field_that_is_no_column_may_have_any_name() -> None:
    found = decoded(b'{"f":1,"\\ud800":2}', fields={"f": "int"})
    assert found.rows.to_pylist() == [{"f": 1}]
    assert found.drift.to_pylist() == ["fields that are no columns: \\ud800"]


def test_a_timestamp_that_spark_does_not_reach_is_told_as_drift_beside_other_drift() -> None:
    drift = pa.array([None, "x", None, "x", None], pa.string())
    ends = [0, 0, MAX_MS * 1000, -MAX_MS * 1000, None]
    found = stages.with_far_times(drift, pa.array(ends, pa.int64()).cast(pa.timestamp("us", "UTC")))
    assert found.to_pylist() == [None, "x", stages.UNREACHABLE_TIMES, f"x; {stages.UNREACHABLE_TIMES}", None]
    assert found.type == pa.string()
