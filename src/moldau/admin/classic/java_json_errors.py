"""What Jackson says of a text that is no JSON: the first thing in it that cannot be, and where.

Source: what was read of Kafka 4.3.1's tools, and of 2.8.2's, whose older Jackson tells the place after a character.
"""

from __future__ import annotations

import re
from typing import NoReturn

from moldau.admin.classic.java import JavaError

_PARSE = "com.fasterxml.jackson.core.JsonParseException"
TOO_MUCH = "com.fasterxml.jackson.core.exc.StreamConstraintsException"
"""A text that is JSON, but more than is read."""
_EOF = "com.fasterxml.jackson.core.io.JsonEOFException"
_VALUES = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
_WORDS = {"t": "true", "f": "false", "n": "null"}
_BLANK, _TOKEN, _HEX, _DIGITS = " \t\r\n", re.compile(r"[\w$]+"), "0123456789abcdefABCDEF", re.compile(r"\d*")
_OPENED = {"}": ("Object", "]"), "]": ("Array", "}")}
_BEFORE = (
    ("`JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS`", "JsonParser.Feature.ALLOW_NON_NUMERIC_NUMBERS"),
    ("No digit following sign", "No digit following minus sign"),
    ("'}': no open Object to close", "'}': expected ']' (for root starting at [Source: PLACE; line: 1, column: 0])"),
    ("']': no open Array to close", "']': expected '}' (for root starting at [Source: PLACE; line: 1, column: 0])"),
)
"""How 2.8.2 says the same."""
_MOST = 500
_NUMERIC = " in numeric value"
REDACTED = "REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled)"


class _Wrong(Exception):
    """The text is no JSON from ``at`` on; ``later``: how many characters further 2.8.2 says so."""

    def __init__(self, message: str, at: int, kind: str = _PARSE, *, later: int = 1) -> None:
        super().__init__(message)
        self.at = at
        self.kind = kind
        self.later = later


def why_no_json(text: str, *, old: bool = False) -> JavaError:
    """The failure that a text comes to which is no JSON; ``old``: as 2.8.2 tells it, which shows the text itself."""
    if not text:
        place = "line: -1, column: -1" if old else "byte offset: #UNKNOWN"
        return JavaError(_PARSE, f"The input string shouldn't be empty\n at [Source: UNKNOWN; {place}]")
    reader = _Reader(text, _shown(text) if old else REDACTED)
    try:
        reader.value(reader.skip(0))
    except _Wrong as wrong:
        said = str(wrong)
        for new, before in _BEFORE if old else ():
            said = said.replace(new, before.replace("PLACE", reader.source))
        return JavaError(wrong.kind, f"{said}\n at {reader.place(wrong.at, wrong.later * old)}")
    except RecursionError:
        limit = "(1000, from `StreamReadConstraints.getMaxNestingDepth()`)"
        return JavaError(TOO_MUCH, f"Document nesting depth (1001) exceeds the maximum allowed {limit}")
    limit = "(1000, from `StreamReadConstraints.getMaxNumberLength()`)"  # there is nothing else that is too much
    return JavaError(
        TOO_MUCH, f"Number value length ({max(map(len, _DIGITS.findall(text)))}) exceeds the maximum allowed {limit}"
    )


def _shown(text: str) -> str:
    cut = f"[truncated {len(text) - _MOST} chars]" if len(text) > _MOST else ""
    return f'(String)"{text[:_MOST]}"{cut}'


class _Reader:
    """Walks a text; every method is given where to begin, and returns where to go on."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source

    def place(self, at: int, later: int = 0) -> str:
        line = self.text.count("\n", 0, at) + 1
        return f"[Source: {self.source}; line: {line}, column: {at + later - self.text.rfind(chr(10), 0, at)}]"

    def skip(self, at: int) -> int:
        while at < len(self.text) and self.text[at] in _BLANK:
            at += 1
        if at < len(self.text):
            if (char := self.text[at]) < " ":
                only = r"only regular white space (\r, \n, \t) is allowed between tokens"
                raise _Wrong(f"Illegal character ((CTRL-CHAR, code {ord(char)})): {only}", at + 1, later=0)
            if char == "/":
                feature = "Feature 'ALLOW_COMMENTS' not enabled for parser"
                self._unexpected(at, f"maybe a (non-standard) comment? (not recognized as one since {feature})")
        return at

    def value(self, at: int) -> int:
        if at >= len(self.text):
            self._ended("")
        char = self.text[at]
        if char == '"':
            return self._string(at + 1, ": was expecting closing quote for a string value", "string value")
        if char == "{":
            return self._object(at)
        if char == "[":
            return self._array(at)
        if (char.isascii() and char.isdigit()) or char == "-":
            return self._number(at)
        if char in "]}":
            raise _Wrong(f"Unexpected close marker '{char}': no open {_OPENED[char][0]} to close", at)
        return self._word(at)

    def _word(self, at: int) -> int:
        char = self.text[at]
        token = _TOKEN.match(self.text, at)
        if char == "+":
            plus = "JSON spec does not allow numbers to have plus signs"
            feature = "enable `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow"
            self._unexpected(at, f"{plus}: {feature}", _NUMERIC, seen=at + 1)
        if token is None:
            self._unexpected(at, f"expected a valid value {_VALUES}")
        if token[0] == _WORDS.get(char):
            return token.end()
        if token[0] == "NaN":
            feature = "enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"
            raise _Wrong(f"Non-standard token 'NaN': {feature}", token.end(), later=0)
        raise _Wrong(f"Unrecognized token '{token[0]}': was expecting {_VALUES}", at, later=len(token[0]))

    def _object(self, start: int) -> int:
        at = self.skip(start + 1)
        first = True
        while True:
            if first or self._at(at) == ",":
                if not first:
                    at = self.skip(at + 1)
                    self._more(at, "Object", _PARSE)
                if first and self._closes(at, "}", start):
                    return at + 1
                first = False
                if self._at(at) != '"':
                    self._unexpected(at, "was expecting double-quote to start field name")
                at = self.skip(self._string(at + 1, " in field name", "name"))
                self._more(at, "Object")
                if self._at(at) != ":":
                    self._unexpected(at, "was expecting a colon to separate field name and value")
                at = self.skip(at + 1)
                self._more(at, "Object")
                at = self.skip(self.value(at))
            elif self._closes(at, "}", start):
                return at + 1
            else:
                self._unexpected(at, "was expecting comma to separate Object entries")

    def _array(self, start: int) -> int:
        at = self.skip(start + 1)
        if self._closes(at, "]", start):
            return at + 1
        while True:
            at = self.skip(self.value(at))
            if self._closes(at, "]", start):
                return at + 1
            if self._at(at) != ",":
                self._unexpected(at, "was expecting comma to separate Array entries")
            at = self.skip(at + 1)
            self._more(at, "Array", _PARSE)
            if self._at(at) == "]":
                self._unexpected(at, f"expected a valid value {_VALUES}")

    def _closes(self, at: int, marker: str, start: int) -> bool:
        """Whether the marker is there; _Wrong at the end of the text, and for the other marker."""
        what, other = _OPENED[marker]
        if at >= len(self.text):
            self._ended(f": expected close marker for {what} (start marker at {self.place(start)})")
        if self.text[at] == other:
            opened = f"(for {what} starting at {self.place(start)})"
            raise _Wrong(f"Unexpected close marker '{other}': expected '{marker}' {opened}", at)
        return self.text[at] == marker

    def _string(self, at: int, ended: str, what: str) -> int:
        while (char := self._at(at)) != '"':
            if not char:
                self._ended(ended)
            if char < " ":
                code = f"((CTRL-CHAR, code {ord(char)}))"
                how = f"has to be escaped using backslash to be included in {what}"
                raise _Wrong(f"Illegal unquoted character {code}: {how}", at)
            at = self._escaped(at + 1) if char == "\\" else at + 1
        return at + 1

    def _escaped(self, at: int) -> int:
        char = self._at(at)
        if char == "u":
            for place in range(at + 1, at + 5):
                if not self._at(place):
                    self._ended(" in character escape sequence")
                if self.text[place] not in _HEX:
                    self._unexpected(place, "expected a hex-digit for character escape sequence")
            return at + 5
        if not char:
            self._ended(" in character escape sequence")
        if char not in '"\\/bfnrt':
            raise _Wrong(f"Unrecognized character escape '{char}' (code {ord(char)})", at)
        return at + 1

    def _number(self, at: int) -> int:
        if self.text[at] == "-":
            at += 1
            if at >= len(self.text):
                self._ended("No digit following sign")
            if not self.text[at].isdigit():
                self._unexpected(at, "expected digit (0-9) to follow minus sign, for valid numeric value", _NUMERIC)
        if self.text[at] == "0" and self._at(at + 1).isdigit():
            raise _Wrong("Invalid numeric value: Leading zeroes not allowed", at + 1, later=0)
        at = self._digits(at)
        if self._at(at) == ".":
            at += 1
            if not self._at(at).isdigit():
                shown = min(at, len(self.text) - 1)
                self._unexpected(shown, "Decimal point not followed by a digit", _NUMERIC, seen=at - 1)
            at = self._digits(at)
        if self._at(at) in ("e", "E"):
            at += 2 if self._at(at + 1) in ("+", "-") else 1
            if at >= len(self.text):
                self._ended("expected a digit for number exponent")
            if not self.text[at].isdigit():
                self._unexpected(at, "Exponent indicator not followed by a digit", _NUMERIC, seen=at - 1)
            at = self._digits(at)
        return at

    def _digits(self, at: int) -> int:
        while self._at(at).isdigit():
            at += 1
        return at

    def _at(self, at: int) -> str:
        return self.text[at : at + 1]

    def _more(self, at: int, what: str, kind: str = _EOF) -> None:
        if at >= len(self.text):
            self._ended(f" within/between {what} entries", kind)

    def _ended(self, why: str, kind: str = _EOF) -> NoReturn:
        raise _Wrong(f"Unexpected end-of-input{why}", len(self.text), kind, later=0)

    def _unexpected(self, at: int, why: str, where: str = "", *, seen: int | None = None) -> NoReturn:
        """``seen``: the place that is told, where it is not that of the character."""
        if at >= len(self.text):
            self._ended("")
        char = self.text[at]
        raise _Wrong(f"Unexpected character ('{char}' (code {ord(char)})){where}: {why}", at if seen is None else seen)
