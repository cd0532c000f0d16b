"""The words for types in a pipeline's file, as Arrow types: ``long``, ``decimal(9,2)``, ``array<struct<a: int>>``.

The words are Spark's; a timestamp is in microseconds and UTC. Raises TypeWordError, which says where the word is wrong.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

SIMPLE: Final = {
    "byte": pa.int8(), "tinyint": pa.int8(), "short": pa.int16(), "smallint": pa.int16(), "int": pa.int32(),
    "integer": pa.int32(), "long": pa.int64(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
_WORDS = (*SIMPLE, "decimal", "array", "map", "struct")
_TOKEN = re.compile(r"\s*([A-Za-z_][\w-]*|\d+|[<>(),:]|\S)")
_DEEPEST = 50


class TypeWordError(ValueError):
    """A text that is no type; ``column`` is where, counted from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{message} (at {column})")
        self.column = column


def parse_type(text: str) -> pa.DataType:
    """The Arrow type of a type word; TypeWordError when it is none."""
    reader = _Reader(text)
    found = reader.type(0)
    if reader.word:
        raise TypeWordError(f"{reader.word!r} is too much", reader.column)
    return found


def case_only(name: str, other: str) -> str:
    """Why two columns, or two fields of a struct, cannot be."""
    return f"{name!r} and {other!r} differ in case only: tables take them for one"


def one_but_for_case(kind: pa.DataType, path: str) -> Iterator[str]:
    """Why fields within a column's type cannot be, by their paths as Spark and Delta write them: ``list.element.a``."""
    if isinstance(kind, pa.StructType):
        folded: dict[str, str] = {}
        for field in kind:
            if (other := folded.setdefault(field.name.lower(), field.name)) != field.name:
                yield case_only(f"{path}.{field.name}", f"{path}.{other}")
            yield from one_but_for_case(field.type, f"{path}.{field.name}")
    elif isinstance(kind, pa.MapType):
        yield from one_but_for_case(kind.key_type, f"{path}.key")
        yield from one_but_for_case(kind.item_type, f"{path}.value")
    elif isinstance(kind, pa.ListType):
        yield from one_but_for_case(kind.value_type, f"{path}.element")


class _Reader:
    """Goes through a text from word to word."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self.word, self.column = "", 1
        self.step()

    def step(self) -> str:
        """The word that was current; the next one is current then, an empty one at the end."""
        before = self.word
        found = _TOKEN.match(self._text, self._end)
        self.word = "" if found is None else found[1]
        self.column = len(self._text) + 1 if found is None else found.start(1) + 1
        self._end = len(self._text) if found is None else found.end()
        return before

    def expect(self, word: str) -> None:
        if self.word != word:
            found = repr(self.word) if self.word else "the end"
            raise TypeWordError(f"{word!r} is expected, not {found}", self.column)
        self.step()

    def number(self) -> int:
        if not self.word.isdigit():
            raise TypeWordError(f"a number is expected, not {self.word!r}", self.column)
        return int(self.step())

    def type(self, depth: int) -> pa.DataType:
        column, word = self.column, self.step()
        kind = word.lower()
        if depth > _DEEPEST:
            raise TypeWordError("types are nested too deeply", column)
        if kind in SIMPLE:
            return SIMPLE[kind]
        if kind == "decimal":
            return self._decimal(column)
        if kind not in _WORDS:
            near = difflib.get_close_matches(kind, _WORDS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(_WORDS)}."
            raise TypeWordError(f"{word or 'nothing'!r} is no type. {hint}", column)
        self.expect("<")
        found = self._nested(kind, depth)
        self.expect(">")
        return found

    def _decimal(self, column: int) -> pa.DataType:
        precision, scale = 10, 0
        if self.word == "(":
            self.step()
            precision = self.number()
            if self.word == ",":
                self.step()
                scale = self.number()
            self.expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            what = f"decimal({precision},{scale}): 1 to 38 digits, the second number of them after the point"
            raise TypeWordError(what, column)
        return pa.decimal128(precision, scale)

    def _nested(self, kind: str, depth: int) -> pa.DataType:
        if kind == "array":
            return pa.list_(self.type(depth + 1))
        if kind == "map":
            key = self.type(depth + 1)
            self.expect(",")
            return pa.map_(key, self.type(depth + 1))
        fields: dict[str, pa.DataType] = {}
        folded: dict[str, str] = {}
        while True:
            column, name = self.column, self.step()
            if not re.fullmatch(r"[A-Za-z_][\w-]*", name):
                raise TypeWordError(f"a name is expected, not {name!r}", column)
            if name in fields:
                raise TypeWordError(f"{name!r} is named twice", column)
            if (other := folded.setdefault(name.lower(), name)) != name:
                raise TypeWordError(case_only(name, other), column)
            self.expect(":")
            fields[name] = self.type(depth + 1)
            if self.word != ",":
                return pa.struct(list(fields.items()))
            self.step()
