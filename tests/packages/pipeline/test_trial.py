"""Test files of pipelines: how cases are read and how rows are compared."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.pipeline import pipeline
from moldau.pipeline.trial import BadTest, as_records, compared, read_cases, unknown


def test_rows_are_compared_by_the_columns_that_are_expected_in_any_order() -> None:
    found = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert compared("rows", [{"a": 2}, {"a": 1}], found) == []
    assert compared("rows", [{"a": 1}], found) == ['rows: found and not expected: {"a": 2}']
    assert compared("rows", [{"a": 3}, {"a": 1}], found) == [
        'rows: expected and not found: {"a": 3}',
        'rows: found and not expected: {"a": 2}',
    ]


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        (1.0, 1, True),
        (0.3, 0.1 + 0.2, True),
        (True, 1, False),
        ("2026-11-23T02:00:00Z", datetime(2026, 11, 23, 2), True),
        ("2026-11-23", datetime(2026, 11, 23, tzinfo=UTC), True),
        ("later", datetime(2026, 11, 23, tzinfo=UTC), False),
        ("raw", b"raw", True),
        (None, 0, False),
        ({"x": 1}, {"x": 1, "y": 2}, True),
        ([1, 2], [1, 2], True),
        ([1], [1, 2], False),
        ("1", 1, False),
        (1, "1", False),
        (2.5, Decimal("2.50"), True),
        ("2.50", Decimal("2.5"), True),
        ("x", Decimal("2.5"), False),
    ],
)  # fmt: skip
def test_values_are_equal_as_people_write_them(expected: object, found: object, same: bool) -> None:
    assert (compared("rows", [{"v": expected}], [{"v": found}]) == []) is same


def test_records_get_what_a_case_does_not_say() -> None:
    rows = as_records([{"value": {"id": 1}}, {"value": None, "key": "k", "headers": {"h": "v"}}], "orders").to_pylist()
    assert [row["value"] for row in rows] == [b'{"id": 1}', None]
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [("orders", 0, 0), ("orders", 0, 1)]
    assert rows[1]["headers"] == [{"key": "h", "value": b"v"}]


def test_records_are_of_the_time_that_the_help_names_unless_a_case_says_another() -> None:
    (row,) = as_records([{"value": "a"}], "orders").to_pylist()
    assert row["timestamp"] == datetime(2000, 1, 1, tzinfo=UTC)
    help = " ".join(CliRunner().invoke(pipeline, ["test", "--help"]).output.split())
    assert f"A record without timestamp is of {row['timestamp']:%Y-%m-%d} (UTC)" in help


def test_mistakes_of_a_test_file_are_named_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.test.yaml"
    path.write_text("- name: x\n  recods: []\n- {records: [{vale: 1}], rows: 3}\n")
    with pytest.raises(BadTest) as caught:
        read_cases(path)
    told = [f"{one.place.line} {one.message}" for one in caught.value.problems]
    assert told[0] == "2 'recods' is not known here. Did you mean 'records'?"
    assert "1 'records' is missing, or no list" in told
    assert "3 'vale' is not known here. Did you mean 'value'?" in told
    path.write_text("nothing: here")
    with pytest.raises(BadTest, match="a list of cases"):
        read_cases(path)


def test_a_name_that_is_no_column_is_told_with_what_it_may_have_been_meant_to_be() -> None:
    assert unknown("rows", [{"id": 1}], ["id"]) == []
    assert unknown("rows", [{"idd": None}], ["id"]) == ["rows: there is no column 'idd'. Did you mean 'id'?"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("{value: a, partition: -1}", "partition: a whole number from 0 on is expected, not -1"),
        ("{value: a, offset: -7}", "offset: a whole number from 0 on is expected, not -7"),
        ("{value: a, offset: x}", "offset: a whole number from 0 on is expected, not 'x'"),
        ("{value: a, timestamp: x}", "timestamp: a time like 2026-11-23T02:00:00Z is expected, or ms, not 'x'"),
        ('{value_base64: "###"}', "value_base64: it is no Base64"),
        ("{value: a, offset: 7}, {value: b, offset: 7}",
         "record 2 has partition 0 and offset 7, as record 1: no two can"),
    ],
)  # fmt: skip
def test_what_no_record_of_a_topic_can_have_is_refused(tmp_path: Path, records: str, message: str) -> None:
    path = tmp_path / "a.test.yaml"
    path.write_text(f"- {{name: x, records: [{records}], rows: []}}\n")
    with pytest.raises(BadTest) as caught:
        read_cases(path)
    assert [one.message for one in caught.value.problems] == [message]
