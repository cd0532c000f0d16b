"""Times as Java's SimpleDateFormat writes them, in the zone of this machine."""

from __future__ import annotations

import re
import time

from moldau.admin.classic.java import JavaError, illegal_argument

_PART = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+")
_LETTERS = "GyMwWDdFEaHkKhmsSzZXYuL"


def java_date(pattern: str, time_ms: int) -> str:
    """A time in a pattern like yyyy-MM-dd HH:mm:ss:SSS; JavaError for letters that mean nothing there."""
    moment = time.localtime(time_ms // 1000)
    found = []
    at = 0
    while at < len(pattern):
        match = _PART.match(pattern, at)
        if match is None:
            raise illegal_argument("Unterminated quote")
        at = match.end()
        if match[1] is not None:
            found.append(match[1].replace("''", "'") or "'")
        elif match[2] is None:
            found.append(match[0])
        else:
            found.append(_part(match[2], len(match[0]), moment, time_ms % 1000))
    return "".join(found)


def _part(letter: str, width: int, moment: time.struct_time, ms: int) -> str:
    if letter not in _LETTERS:
        raise illegal_argument(f"Illegal pattern character '{letter}'")
    if letter in "yYu" and letter != "u":
        return f"{moment.tm_year % 100:02}" if width == 2 else f"{moment.tm_year:0{width}}"
    if letter in "ML" and width > 2:
        return time.strftime("%b" if width == 3 else "%B", moment)
    hour = moment.tm_hour
    numbers = {
        "M": moment.tm_mon, "L": moment.tm_mon, "d": moment.tm_mday, "D": moment.tm_yday, "H": hour, "k": hour or 24,
        "K": hour % 12, "h": hour % 12 or 12, "m": moment.tm_min, "s": moment.tm_sec, "S": ms, "u": moment.tm_wday + 1,
    }  # fmt: skip
    if letter in numbers:
        return f"{numbers[letter]:0{width}}"
    texts = {"E": "%a" if width < 4 else "%A", "a": "%p", "z": "%Z", "Z": "%z"}
    if letter in texts:
        return time.strftime(texts[letter], moment)
    raise JavaError("java.lang.UnsupportedOperationException", f"'{letter}' in a date format is not served by Moldau")
