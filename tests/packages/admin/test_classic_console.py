"""What the console tools make of lines and of records' bytes, without a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import DESERIALIZERS, java_decimal
from moldau.admin.classic.line_reader import Line, LineReader, lines_of_stdin

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (0.001, "0.001"), (0.00012, "1.2E-4"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (123456789.5, "1.234567895E8"), (5e-324, "4.9E-324"),
        (float("inf"), "Infinity"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_a_decimal_number_is_shown_as_java_shows_it(number: float, shown: str) -> None:
    assert java_decimal(number) == shown


def test_values_are_read_as_their_deserializers_read_them() -> None:
    assert DESERIALIZERS[f"{JAVA}IntegerDeserializer"](b"\0\0\0\7") == "7"
    assert DESERIALIZERS[f"{JAVA}BooleanDeserializer"](b"\1") == "true"
    assert DESERIALIZERS[f"{JAVA}BytesDeserializer"](b"a\0") == "a\\x00"
    with pytest.raises(ValueError, match="Size of data received is not 8"):
        DESERIALIZERS[f"{JAVA}LongDeserializer"](b"\0")


def test_a_line_has_a_key_and_headers_where_they_are_asked_for() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert reader.read("a:1,b:-\tkey\tthe value") == Line(b"key", b"the value", (("a", b"1"), ("b", None)))
    assert reader.read("-\t-\t-") == Line(None, None)
    with pytest.raises(JavaError, match="No key separator found on line number 3: 'a:1\tkey'"):
        reader.read("a:1\tkey")


def test_marks_that_would_be_mistaken_for_each_other_are_refused() -> None:
    with pytest.raises(JavaError, match=r"headers.separator and headers.key.separator may not be equal"):
        LineReader({"headers.separator": ":"})


@contextmanager
def stdin(data: bytes) -> Iterator[None]:
    """Standard input that holds these bytes."""
    source, end = os.pipe()
    os.write(end, data)
    os.close(end)
    before = sys.stdin
    with open(source) as sys.stdin:
        try:
            yield
        finally:
            sys.stdin = before


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=9), max_size=9))
def test_lines_are_those_that_were_written(texts: list[str]) -> None:
    with stdin("".join(f"{text}\n" for text in texts).encode()):
        assert list(lines_of_stdin(60)) == texts


def test_the_ends_of_lines_are_those_of_all_systems() -> None:
    with stdin(b"a\r\nb\rc\n\nd"):
        assert list(lines_of_stdin(60)) == ["a", "b", "c", "", "d"]
