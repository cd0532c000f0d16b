"""Reads the options that the sources over files share. Options are refused by name, value and what is allowed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from moldau.spark.given import Given, OptionError


def paths_of(given: Given) -> tuple[str, ...]:
    """The files and folders of ``path``, or of ``paths`` as Spark hands a list of them over (JSON)."""
    several = given.get("paths")
    if several is not None:
        try:
            found = json.loads(several)
        except ValueError:
            found = None
        if not isinstance(found, list) or not found or not all(isinstance(one, str) and one for one in found):
            raise OptionError("paths", several, 'a JSON list of paths is expected: ["/data/1", "/data/2"]')
        return tuple(map(local, found))
    one = given.get("path")
    if not one:
        raise OptionError("path", one, 'name a file or a folder: load("/var/lib/moldau")')
    return (local(one),)


def local(path: str) -> str:
    """A path without ``file:``; OptionError for another scheme."""
    for scheme in ("file://", "file:"):
        if path.startswith(scheme):
            return path.removeprefix(scheme)
    if "://" in path:
        raise OptionError("path", path, "only local files are read")
    return path


def names_of(given: Given, name: str) -> tuple[str, ...]:
    """Names with commas between; none is all."""
    return tuple(one for each in (given.get(name) or "").split(",") if (one := each.strip()))


def whole(given: Given, name: str, at_least: int) -> int | None:
    """A whole number, or None when it is not given."""
    text = given.get(name)
    return None if text is None else given.number(name, 0, at_least=at_least)


def choice(given: Given, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
    """One of some words."""
    text = given.get(name) or default
    if text not in allowed:
        raise OptionError(name, text, "allowed are " + ", ".join(allowed))
    assert text is not None
    return text


def time_ms(given: Given, name: str) -> int | None:
    """A time: ms since 1970, or a date and time (of UTC unless it names a zone); None when it is not given."""
    text = given.get(name)
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(name, text, "a time is 1700000000000 (ms) or 2026-11-22T10:00:00") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
