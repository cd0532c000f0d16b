"""When a pipeline runs by the clock: the five fields of a crontab, in UTC.

Pure: it is told what time it is. Minute, hour, day of month, month, day of week (0 or 7 is Sunday); ``*``, numbers,
``1-5``, ``*/15``, ``8-18/2``, lists of these, and names of months and days. As in cron, a day is right when either of
its two fields says so, where both are limited. Read next: ticking.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

_NAMES: tuple[dict[str, int], ...] = (
    {}, {}, {},
    {name: at for at, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov",
                                         "dec"), 1)},
    {name: at for at, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))},
)  # fmt: skip
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_SHORT = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
_FARTHEST = timedelta(days=366 * 8)
"""A 29th of February on a given weekday may be further off, and is refused."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The minutes at which a run begins."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether both fields of days are limited, so that either makes a day right."""

    def after(self, moment: datetime) -> datetime:
        """The first time after a moment (both in UTC)."""
        at = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        last = at + _FARTHEST
        while at < last:
            if at.month not in self.months or not self._is_day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at
        raise ValueError(f"schedule {self.text!r} never comes")

    def missed(self, begun: datetime, ended: datetime) -> int:
        """How many times came after ``begun``, up to ``ended``: those at which a run was still under way."""
        found, at = 0, self.after(begun)
        while at <= ended:
            found, at = found + 1, self.after(at)
        return found

    def _is_day(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return day or weekday if self.either_day else day and weekday


def parse_schedule(text: str) -> RunTimes:
    """The schedule of a text; ValueError, with what is wrong, when it is none or never comes."""
    fields = _SHORT.get(text.strip().lower(), text).split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{text!r} is no schedule: five fields ({', '.join(_FIELDS)}), or {', '.join(_SHORT)}")
    minutes, hours, days, months, weekdays = (_field(one, at) for at, one in enumerate(fields))
    limited = not fields[2].startswith("*") and not fields[4].startswith("*")
    found = RunTimes(text, minutes, hours, days, months, frozenset(one % 7 for one in weekdays), limited)
    found.after(datetime(2026, 1, 1))  # noqa: DTZ001  # a schedule is in the machine's own time, as cron's
    return found


def _field(text: str, at: int) -> frozenset[int]:
    return frozenset(number for part in text.split(",") for number in _part(part, at))


def _part(text: str, at: int) -> Sequence[int]:
    found = re.fullmatch(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d{1,3}))?", text)
    low, high = _BOUNDS[at]
    if found is None:
        raise ValueError(f"{text!r} is no {_FIELDS[at]}")
    first = low if found[1] is None else _number(found[1], at)
    last = high if found[1] is None or (found[2] is None and found[3]) else _number(found[2] or found[1], at)
    step = int(found[3] or 1)
    if not low <= first <= last <= high or step < 1:
        raise ValueError(f"{text!r} is no {_FIELDS[at]}: {low} to {high}")
    return range(first, last + 1, step)


def _number(text: str, at: int) -> int:
    named = _NAMES[at].get(text.lower())
    if named is None and not text.isdecimal():
        raise ValueError(f"{text!r} is no {_FIELDS[at]}")
    return int(text) if named is None else named
