"""JSON files as Kafka's tools read them, and what is said of wrong ones: the words of Jackson and Kafka's reader."""

from __future__ import annotations

import json
import re
from pathlib import Path
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


class Json:
    """A value of a JSON text; JavaError wherever it is not what is asked for."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        """As Jackson writes it."""
        return compact(self._value)

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
    """The first value of a text, None when it is no JSON; what comes after it does not matter."""
    try:
        return Json(_DECODER.raw_decode(text.lstrip())[0])
    except (ValueError, RecursionError):
        return None


def why_no_json(text: str) -> JavaError:
    """What Jackson says of a text that is no JSON."""
    source = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: {}, column: {}]"
    start = len(text) - len(text.lstrip())
    try:
        _DECODER.raw_decode(text[start:])
    except json.JSONDecodeError as error:
        at, why = start + error.pos, error.msg
    except (ValueError, RecursionError):
        at, why = start, ""
    else:
        at, why = start, ""
    if at >= len(text):
        return JavaError("com.fasterxml.jackson.core.io.JsonEOFException", "Unexpected end-of-input")
    here = f"'{text[at]}' (code {ord(text[at])})"
    column = at - text.rfind("\n", 0, at)
    token = re.match(r"[\w$]+", text[at:])
    if why == "Expecting value" and token is not None:
        what = f"Unrecognized token '{token[0]}': was expecting {_VALUES}"
    else:
        expected = "was expecting " + _EXPECTED[why] if why in _EXPECTED else "expected a valid value"
        what = f"Unexpected character ({here}): {expected}"
    place = source.format(text.count("\n", 0, at) + 1, column)
    return JavaError("com.fasterxml.jackson.core.JsonParseException", f"{what}\n at {place}")


_VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_EXPECTED = {
    "Expecting property name enclosed in double quotes": "double-quote to start field name",
    "Expecting ':' delimiter": "a colon to separate field name and value",
    "Expecting ',' delimiter": "comma to separate Object entries",
    "Expecting value": _VALUES,
}


def compact(value: object) -> str:
    """A value as Jackson writes it: one line, no blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _wrong(message: str) -> NoReturn:
    raise JavaError("com.fasterxml.jackson.databind.JsonMappingException", message)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
