"""Times and durations as Java reads them from a command line: ISO 8601, strictly."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from moldau.admin.classic.java import JavaError
from moldau.wire.varints import LONG_MAX, LONG_MIN

_TIME = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:(Z)|([+-])(\d\d)(?::(\d\d))?)")
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))
_NS = 1_000_000_000
_FIRST_SECOND, _LAST_SECOND = -31_557_014_167_219_200, 31_556_889_864_403_199
"""The least and the greatest second of java.time.Instant."""
_WEST, _EAST, _LAST_YEAR = timedelta(hours=-13), timedelta(hours=14), 292_278_994
"""The bounds of java.util.GregorianCalendar: how far zones may be from UTC, and the last year."""
_CYCLE_MS = 146_097 * 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def java_datetime_ms(text: str) -> int:
    """Milliseconds since 1970 of a time like 2024-01-31T12:00:00.000, in UTC where it names no zone."""
    _date, *rest = text.split("T")
    if not rest:
        raise _unreadable("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    if not any(mark in rest[0] for mark in "+-Z"):
        text += "Z"
    match = _TIME.match(text)
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(match[n]) for n in range(1, 7))
        ahead = _ahead(match[9], int(match[10] or 0), int(match[11] or 0))
        if int(match[7]) > 999 or year > _LAST_YEAR:
            raise ValueError
        cycles = max(0, year - 2000) // 400  # of the calendar, which repeats: datetime ends with the year 9999
        moment = datetime(year - 400 * cycles, month, day, hour, minute, second, tzinfo=UTC) - ahead
    except (ValueError, OverflowError):
        raise _unreadable(f'Unparseable date: "{text}"') from None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + cycles * _CYCLE_MS + int(match[7])


def _ahead(sign: str | None, hours: int, minutes: int) -> timedelta:
    """How far a zone is ahead of UTC. Where its minutes cannot be, it is read without them, as by Kafka's tool, which
    tries a second pattern; ValueError where that is too far as well."""
    for minute in (minutes, 0):
        ahead = timedelta(hours=hours, minutes=minute)
        ahead = -ahead if sign == "-" else ahead
        if minute < 60 and _WEST <= ahead <= _EAST:
            return ahead
    raise ValueError


def _unreadable(why: str) -> JavaError:
    cause = JavaError("java.text.ParseException", why)
    return JavaError("java.lang.RuntimeException", str(cause), cause)


def java_ago_ms(now_ns: int, text: str) -> int:
    """Milliseconds since 1970 of what was a duration like P1DT2H3M4.5S before ``now_ns``; refused as Java does, which
    knows no instant more than some 10^9 years away."""
    then_ns = now_ns - duration_ns(text)
    if not _FIRST_SECOND <= then_ns // _NS <= _LAST_SECOND:
        raise JavaError("java.time.DateTimeException", "Instant exceeds minimum or maximum instant")
    if not LONG_MIN <= then_ns // 1_000_000 <= LONG_MAX:
        raise JavaError("java.lang.ArithmeticException", "long overflow")
    return then_ns // 1_000_000


def duration_ns(text: str) -> int:
    """Nanoseconds of a duration like P1DT2H3M4.5S; JavaError when it is none."""
    match = _DURATION.fullmatch(text)
    if match is None or (match[3] or "").upper() == "T" or not any(match[n] for n in (2, 4, 5, 6)):
        raise _no_duration("")
    found = 0
    for group, (unit, seconds) in zip((2, 4, 5, 6), _UNITS, strict=True):
        part = int(match[group] or 0)
        if not LONG_MIN <= part <= LONG_MAX:
            raise _no_duration(f": {unit}", JavaError("java.lang.NumberFormatException", _too_long(match[group])))
        if not LONG_MIN <= part * seconds <= LONG_MAX:
            raise _no_duration(f": {unit}", JavaError("java.lang.ArithmeticException", "long overflow"))
        found += part * seconds
        if not LONG_MIN <= found <= LONG_MAX:
            raise _no_duration(": overflow", JavaError("java.lang.ArithmeticException", "long overflow"))
    fraction = int(((match[7] or "") + "0" * 9)[:9])
    whole = found * _NS + (-fraction if (match[6] or "").startswith("-") else fraction)
    return -whole if match[1] == "-" else whole


def _too_long(digits: str) -> str:
    """Where Java's Long.parseLong gives up a number that is too large."""
    least = LONG_MIN if digits.startswith("-") else -LONG_MAX
    found, at = 0, int(digits[0] in "+-")
    while found >= -(-least // 10) and found * 10 >= least + int(digits[at]):
        found = found * 10 - int(digits[at])
        at += 1
    return f'Error at index {at} in: "{digits}"'


def _no_duration(why: str, cause: JavaError | None = None) -> JavaError:
    return JavaError("java.time.format.DateTimeParseException", f"Text cannot be parsed to a Duration{why}", cause)
