"""CSV as Jackson writes and reads it for kafka-consumer-groups.sh: plans of new offsets.

A line is ``topic,partition,offset`` of one group, or begins with the group. Columns that are missing at the end are
taken for 0, as Kafka's tool does.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence

from moldau.admin.classic.groups_session import wrapped
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.options import java_integer
from moldau.model import TopicPartition

_RECORD = "org.apache.kafka.tools.consumer.group.CsvUtils$CsvRecord"
_CSV = "com.fasterxml.jackson.dataformat.csv."
_BIND = "com.fasterxml.jackson.databind.exc."
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
    cells = next(csv.reader([line]), [])
    if not cells:
        why = "No content to map due to end-of-input\n at [Source: (StringReader); line: UNKNOWN, column: UNKNOWN]"
        raise JavaError(f"{_BIND}MismatchedInputException", why)
    found: dict[str, str] = dict(zip(columns, cells, strict=False))
    numbers = []
    for name, java, bits in (("partition", "int", 32), ("offset", "long", 64)):
        at = columns.index(name)
        try:
            numbers.append(java_integer(found[name].strip() or "0", bits) if name in found else 0)
        except ValueError:
            what = f'Cannot deserialize value of type `{java}` from String "{found[name]}": not a valid `{java}` value'
            chain = f'(through reference chain: {_RECORD}{"With" if grouped else "No"}Group["{name}"])'
            raise JavaError(f"{_BIND}InvalidFormatException", f"{what}\n at {_place(cells, at)} {chain}") from None
    if len(cells) > len(columns):
        at = len(columns)
        value = f'(value #{at} ({len(cells[at])} chars) "{cells[at]}")'
        what = f"Too many entries: expected at most {at} {value}"
        raise JavaError(f"{_CSV}CsvReadException", f"{what}\n at {_place(cells, at)}")
    return found.get("group", ""), found.get("topic", ""), numbers[0], numbers[1]


def _place(cells: Sequence[str], at: int) -> str:
    column = sum(len(cell) + 1 for cell in cells[:at]) + 1
    return f"[Source: (StringReader); line: 1, column: {column}]"
