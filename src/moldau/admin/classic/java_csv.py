"""CSV as Jackson writes and reads it for kafka-consumer-groups.sh: plans of new offsets.

A line is ``topic,partition,offset`` of one group, or begins with the group. Columns that are missing at the end are
taken for 0, as Kafka's tool does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from moldau.admin.classic.groups_session import wrapped
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.options import java_integer
from moldau.model import TopicPartition
from moldau.wire.varints import LONG_MAX, LONG_MIN

_RECORD = "org.apache.kafka.tools.consumer.group.CsvUtils$CsvRecord"
_CSV = "com.fasterxml.jackson.dataformat.csv."
_CORE = "com.fasterxml.jackson.core."
_DATA = "com.fasterxml.jackson.databind."
_BIND = f"{_DATA}exc."
_WHOLE = re.compile("[-+]?[0-9]+")
_QUOTED = re.compile('"((?:[^"]|"")*)"([\\x00- ]*)')
_SAFE_FROM = "-"
_LONGEST_UNQUOTED = 24


def write_line(cells: Sequence[str]) -> str:
    """A line with its end; texts that are long or have odd marks stand in quotes."""
    return ",".join(map(_quoted, cells)) + "\n"


def _quoted(text: str) -> str:
    if len(text) <= _LONGEST_UNQUOTED and all(mark >= _SAFE_FROM for mark in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def read_plan(text: str, group: str | None) -> dict[str, dict[TopicPartition, int]]:
    """The offsets by group; ``group`` is the one that was asked for, if it was one. JavaError for what is no plan."""
    lines = text.rstrip("\n").split("\n") if text else [""]
    alone = True
    try:
        _read_line(lines[0], grouped=False)
    except JavaError as error:
        sys.stdout.flush()
        sys.stderr.write(error.trace)
        alone = False
    plans: dict[str, dict[TopicPartition, int]] = {}
    for line in lines:
        try:
            name, topic, partition, offset = _read_line(line, grouped=group is None or not alone)
        except JavaError as error:
            raise wrapped(error) from None
        if offset < 0:
            raise illegal_argument("Invalid negative offset")
        plans.setdefault(name if group is None or not alone else group, {})[TopicPartition(topic, partition)] = offset
    return plans


def _read_line(line: str, *, grouped: bool) -> tuple[str, str, int, int]:
    columns = ["group"] * grouped + ["topic", "partition", "offset"]
    if not line:
        why = "No content to map due to end-of-input\n at [Source: (StringReader); line: UNKNOWN, column: UNKNOWN]"
        raise JavaError(f"{_BIND}MismatchedInputException", why)
    cells = _Cells(line)
    texts, numbers = {"group": "", "topic": ""}, {"partition": 0, "offset": 0}
    for name in columns:
        text = cells.next()
        if text is None:
            break
        if name in texts:
            texts[name] = text
        else:
            chain = f'(through reference chain: {_RECORD}{"With" if grouped else "No"}Group["{name}"])'
            numbers[name] = _number(text, 32 if name == "partition" else 64, cells, chain)
    _check_rest(cells, len(columns))
    return texts["group"], texts["topic"], numbers["partition"], numbers["offset"]


def _check_rest(cells: _Cells, count: int) -> None:
    """JavaError for more cells than there are columns, but for one that is blank: that is a comma at the end."""
    text = cells.next()
    if text is None or (not text.strip() and cells.next() is None):
        return
    shown = text.strip()
    value = f'(value #{count} ({len(shown)} chars) "{shown}")'
    what = f"Too many entries: expected at most {count} {value}"
    raise JavaError(f"{_CSV}CsvReadException", f"{what}\n at {_place(cells.start)}")


def _number(text: str, bits: int, cells: _Cells, chain: str) -> int:
    """A number as Jackson reads one from a cell: nothing is 0, and so is the word null."""
    kind, least, most = ("int" if bits == 32 else "long"), -(1 << bits - 1), (1 << bits - 1) - 1
    if _WHOLE.fullmatch(text):
        number = int(text)
        if least <= number <= most:
            return number
        bounds = "" if LONG_MIN <= number <= LONG_MAX else f" ({least} - {most})"
        why, place = f"Numeric value ({text}) out of range of {kind}{bounds}", f"\n at {_place(cells.now)}"
        cause = JavaError(f"{_CORE}JsonParseException", why + place)
        raise JavaError(f"{_DATA}JsonMappingException", f"{why}{place} {chain}", cause)
    text = text.strip()
    if text in ("", "null"):
        return 0
    why = f"not a valid `{kind}` value"
    try:
        number = java_integer(text, 64)
    except ValueError:
        pass
    else:
        if least <= number <= most:
            return number
        why = f"Overflow: numeric value ({text}) out of range of int ({least} -{most})"
    what = f'Cannot deserialize value of type `{kind}` from String "{text}": {why}'
    raise JavaError(f"{_BIND}InvalidFormatException", f"{what}\n at {_place(cells.start)} {chain}")


class _Cells:
    """The cells of a line, one after the other, as Jackson's decoder takes them."""

    def __init__(self, line: str) -> None:
        self.start = self.now = 1
        """The columns in which the last cell began, and where the decoder says that it stands: at the end of the input
        that is another one, as its buffer is behind it."""
        self._line = line
        self._at = 0
        self._over = False

    def next(self) -> str | None:
        """The next cell, None after the last; JavaError where a quote is not closed, or not the end of its cell."""
        if self._over:
            return None
        if self._at == len(self._line):
            self._over = True
            return ""
        self.start = self._at + 1
        if self._line[self._at] == '"':
            return self._quoted()
        end = self._line.find(",", self._at)
        text = self._line[self._at :] if end < 0 else self._line[self._at : end]
        self._go_on(end, 2 * len(self._line) + 1)
        return text

    def _quoted(self) -> str:
        found = _QUOTED.match(self._line, self._at)
        if found is None:
            raise _unparseable("Missing closing quote for value", len(self._line) + 1)
        end = found.end()
        if end < len(self._line) and self._line[end] != ",":
            expected = "Expected column separator character (',' (code 44)) or end-of-line"
            raise _unparseable(f"Unexpected character ({_shown(self._line[end])}): {expected}", end + 2)
        self._go_on(end if end < len(self._line) else -1, len(self._line) + bool(found[2]))
        return found[1].replace('""', '"')

    def _go_on(self, separator: int, column_at_end: int) -> None:
        self._over = separator < 0
        self._at = separator + 1
        self.now = column_at_end if self._over else self._at + 1


def _shown(mark: str) -> str:
    code = ord(mark)
    if code < 32 or 127 <= code < 160:
        return f"(CTRL-CHAR, code {code})"
    return f"'{mark}' (code {code})" if code <= 255 else f"'{mark}' (code {code} / 0x{code:x})"


def _unparseable(why: str, column: int) -> JavaError:
    return JavaError(f"{_CORE}JsonParseException", f"{why}\n at {_place(column)}")


def _place(column: int) -> str:
    return f"[Source: (StringReader); line: 1, column: {column}]"
