"""What stands in a record of the topic of state changes: a line as JSON, and in a header its place in the node's files.

The place is what a publisher goes on from: it is written with the line, by one append, so that there is no moment at
which one is there without the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Self

from moldau.model.named import NamedTuple

PLACE = "moldau.place"
"""The header that has a record's place."""
LINE_BYTES_MAX = 128 << 10
"""A longer line is no entry; the topic gets its beginning."""
SHOWN_CHARS = 1_000
"""So much of a line that is no entry is told."""
UNREADABLE, PUBLISHING = "unreadable line", "publishing"
"""Events of records that are no entry of a log: a line that is none, and what the publisher says itself."""
BEGINS, GOES_ON, LOST = "begins", "goes on", "lines may be lost here"
_PLACE = re.compile(rb"([0-9a-f]{16}):(\d{1,18})-(\d{1,18})")
_CLAIM = b"claim"


class LineRange(NamedTuple):
    """From where to where a line stands in a file; ``file`` is told from the file's first line, not its name. Where
    ``start`` is ``end`` nothing stands, and reading goes on there."""

    file: str
    start: int
    end: int

    @property
    def is_claim(self) -> bool:
        """Whether it is none: the record says only that a producer begins with a node's lines."""
        return not self.file

    def encoded(self) -> bytes:
        """As the header has it."""
        return _CLAIM if self.is_claim else b"%s:%d-%d" % (self.file.encode(), self.start, self.end)

    @classmethod
    def decoded(cls, header: bytes | None) -> Self | None:
        """The place in a header, None when it is none of ours."""
        if header == _CLAIM:
            return cls("", 0, 0)
        found = _PLACE.fullmatch(header or b"")
        return None if found is None else cls(found[1].decode(), int(found[2]), int(found[3]))


CLAIM = LineRange("", 0, 0)


class FileLine(NamedTuple):
    """A line of a file without its end, no more than ``LINE_BYTES_MAX`` of it, and where all of it stands."""

    place: LineRange
    text: bytes


class PublishedRecord(NamedTuple):
    """A record of a node as it is in the topic, and who wrote it: producer, its epoch and last sequence number."""

    place: LineRange
    value: bytes
    partition: int
    timestamp_ms: int
    producer: tuple[int, int]
    sequence: int


def key_of(node: int) -> bytes:
    """The key of all records of a node."""
    return b"%d" % node


def place_in(headers: Iterable[tuple[str, bytes | None]]) -> LineRange | None:
    """The place that a record's headers tell; None when somebody else wrote it."""
    return next((LineRange.decoded(value) for name, value in headers if name == PLACE), None)


def read_line(node: int, line: FileLine) -> tuple[int | None, bytes]:
    """(time in ms if it tells one, value) of the record for a line: the line as it is where it is a JSON object that
    names a node; with the node where it names none; else an object that has its text."""
    text = line.text
    size = line.place.end - line.place.start
    if size <= LINE_BYTES_MAX and text[:1] == b"{":
        try:
            fact = json.loads(text.decode())  # of bytes it would guess the encoding
        except (ValueError, RecursionError):
            fact = None
        if isinstance(fact, dict):
            at = fact.get("time_ms")
            value = text if "node" in fact else b'{"node":%d%s%s' % (node, b"," if fact else b"", text.lstrip(b"{ "))
            return at if type(at) is int else None, value
    shown = text[: 4 * SHOWN_CHARS].decode("utf-8", "backslashreplace")[:SHOWN_CHARS]
    return None, _object({"node": node, "event": UNREADABLE, "bytes": size, "line": shown})


def own_words(node: int, now_ms: int, why: str) -> bytes:
    """The value of a record by which the publisher says something itself."""
    return _object({"time_ms": now_ms, "node": node, "event": PUBLISHING, "why": why})


def _object(fact: dict[str, object]) -> bytes:
    return json.dumps(fact, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
