"""Times and durations as Java reads them from a command line: ISO 8601, strictly."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from moldau.admin.classic.java import JavaError

_TIME = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)")
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
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
        ahead = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
        zone = timezone(-ahead if match[9] == "-" else ahead)
        if int(match[7]) > 999:
            raise ValueError
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except (ValueError, OverflowError):
        raise _unreadable(f'Unparseable date: "{text}"') from None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int(match[7])


def _unreadable(why: str) -> JavaError:
    cause = JavaError("java.text.ParseException", why)
    return JavaError("java.lang.RuntimeException", str(cause), cause)


def java_duration_ms(text: str) -> int:
    """Milliseconds of a duration like P1DT2H3M4.5S."""
    match = _DURATION.fullmatch(text)
    if match is None or (match[3] or "").upper() == "T" or not any(match[n] for n in (2, 4, 5, 6)):
        raise JavaError("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (int(match[n] or 0) for n in (2, 4, 5, 6))
    millis = int(((match[7] or "") + "000")[:3])
    if (match[6] or "").startswith("-"):
        millis = -millis
    whole = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + millis
    return -whole if match[1] == "-" else whole
