"""Times as Java's tools write them."""

from __future__ import annotations

import pytest

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_dates import java_date
from moldau.admin.classic.java_times import java_ago_ms, java_datetime_ms


def test_a_time_in_a_pattern() -> None:
    assert java_date("yyyy 'o''clock' SSS ''", 5_000_000_007) == "1970 o'clock 007 '"
    with pytest.raises(JavaError, match="Illegal pattern character 'x'"):
        java_date("x", 0)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00.001", 1),
        ("1970-01-01T02:00:00.001+02:00", 1),
        ("1970-01-01T00:00:00.000-0130", 3_600_000),  # Java drops the minutes of such a zone
        ("2024-02-29T12:00:00.5Z", 1_709_208_000_005),
    ],
)
def test_a_time_of_a_command_line(text: str, ms: int) -> None:
    assert java_datetime_ms(text) == ms


@pytest.mark.parametrize("text", ["", "2024-01-01", "2024-13-01T00:00:00.000", "2024-01-01T00:00:00", "T"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(JavaError, match="ParseException"):
        java_datetime_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"), [("PT0S", 0), ("P1DT1H", 90_000_000), ("-PT1.5S", -1_500), ("pt1m", 60_000), ("PT-0.25S", -250)]
)
def test_a_duration_of_a_command_line(text: str, ms: int) -> None:
    assert java_ago_ms(0, text) == -ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1Y", "PT1", "P999999999999999999D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(JavaError, match="Text cannot be parsed to a Duration"):
        java_ago_ms(0, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("PT99999999999999H", "Instant exceeds minimum"),
        ("P110000000000D", "long overflow"),
        ("PT2600000000000000H", "hours"),
    ],
)
def test_a_duration_beyond_all_instants_is_refused_as_java_does(text: str, why: str) -> None:
    with pytest.raises(JavaError, match=why):
        java_ago_ms(1_700_000_000_000_000_000, text)


@pytest.mark.parametrize(
    ("number", "at"),
    [
        ("99999999999999999999", 18), ("9223372036854775808", 18), ("-9223372036854775809", 19),
        ("+9223372036854775808", 19), ("10000000000000000000", 19),
    ],
)  # fmt: skip
def test_a_number_too_long_for_java_is_refused_in_its_words(number: str, at: int) -> None:
    """The first is as Kafka 4.3.1 was seen to say it; the others by the source of Java's Long.parseLong."""
    with pytest.raises(JavaError) as refused:
        java_ago_ms(0, f"P{number}D")
    assert f'Caused by: java.lang.NumberFormatException: Error at index {at} in: "{number}"' in refused.value.trace
