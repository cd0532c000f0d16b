"""An option that is a rate: 50MB, 1GiB, 1000000; and numbers of bytes and seconds in words."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class RateArgument(click.ParamType[float]):
    """Bytes a second: 50MB, 1GiB, 1000000."""

    name = "RATE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As a number."""
        found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]i?|)b?(?:/s)?", str(value).lower(), re.ASCII)
        if found is None or float(found[1]) <= 0:
            self.fail(f"{value!r} is no rate; 50MB is one", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def bytes_text(count: float) -> str:
    """A number of bytes for people: 3.4 GB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def time_text(seconds: float) -> str:
    """A time for people: 2 h 5 min."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
