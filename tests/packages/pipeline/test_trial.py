"""Test files of pipelines: how cases are read and how rows are compared."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from moldau.pipeline.trial import BadTest, as_records, compared, read_cases


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
    ],
)  # fmt: skip
def test_values_are_equal_as_people_write_them(expected: object, found: object, same: bool) -> None:
    assert (compared("rows", [{"v": expected}], [{"v": found}]) == []) is same


def test_records_get_what_a_case_does_not_say() -> None:
    rows = as_records([{"value": {"id": 1}}, {"value": None, "key": "k", "headers": {"h": "v"}}], "orders").to_pylist()
    assert [row["value"] for row in rows] == [b'{"id": 1}', None]
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [("orders", 0, 0), ("orders", 0, 1)]
    assert rows[1]["headers"] == [{"key": "h", "value": b"v"}]


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
