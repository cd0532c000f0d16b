"""JSON files as Kafka's tools read them, and what is said of wrong ones: the words of Jackson and Kafka's reader."""

from __future__ import annotations

import json
from pathlib import Path
from string import digits
from typing import NoReturn

from moldau.admin.classic.java import JavaError


def read_file(path: str) -> str:
    """The text of a file; JavaError when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        cause = JavaError("java.nio.file.NoSuchFileException", path)
    except PermissionError:
        cause = JavaError("java.nio.file.AccessDeniedException", path)
    except OSError as error:
        cause = JavaError("java.io.IOException", error.strerror)
    raise JavaError("java.io.IOException", f"Unable to read file {path}", cause)


_MISSING = object()


class Json:
    """A value of a JSON text; JavaError wherever it is not what is asked for."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        """As Jackson writes it."""
        return "" if self._value is _MISSING else compact(self._value)

    def field(self, name: str) -> Json:
        """A field that an object must have."""
        found = self.get(name)
        if found is None:
            _wrong(f"No such field exists: `{name}`")
        return found

    def get(self, name: str) -> Json | None:
        """A field of an object, None when it has not got it."""
        if not isinstance(self._value, dict):
            _wrong(f"Expected JSON object, received {self}")
        return Json(self._value[name]) if name in self._value else None

    def items(self) -> list[Json]:
        """The elements of an array."""
        if not isinstance(self._value, list):
            _wrong(f"Expected JSON array, received {self}")
        return [Json(one) for one in self._value]

    def text(self) -> str:
        """A string."""
        if not isinstance(self._value, str):
            _wrong(f"Expected `String` value, received {self}")
        return self._value

    def integer(self, bits: int = 32) -> int:
        """A whole number of so many bits."""
        value = self._value
        if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
            _wrong(f"Expected `{'Integer' if bits == 32 else 'Long'}` value, received {self}")
        return value


def parse(text: str) -> Json | None:
    """The first value of a text, None when it is no JSON; what comes after it does not matter.

    A text of blanks has a value that is nothing, not even null.
    """
    if text and not text.strip(" \t\r\n"):
        return Json(_MISSING)
    start = text.lstrip(" \t\r\n")
    try:
        value, end = _DECODER.raw_decode(start)
    except (ValueError, RecursionError):
        return None
    half = isinstance(value, int | float) and start[end : end + 1] in (*".eE", *digits)  # "1." is not the number 1
    return None if half else Json(value)


def compact(value: object) -> str:
    """A value as Jackson writes it: one line, no blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _wrong(message: str) -> NoReturn:
    raise JavaError("com.fasterxml.jackson.databind.JsonMappingException", message)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
