"""Lines of standard input as records: Kafka's LineMessageReader, with its properties and complaints."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
from collections.abc import Iterator, Mapping

from moldau.admin.classic.java import JavaError
from moldau.model.named import NamedTuple

_READ_BYTES = 256 << 10
_END = re.compile("\r\n|\n|\r(?!\\Z)")
STDIN_FAULT = "MOLDAU_STDIN_FAULT"
"""The environment variable by which a script tells why standard input, which Python cannot have so, is another."""
KAFKA_ERROR = "org.apache.kafka.common.KafkaException"


class RecordLine(NamedTuple):
    """A record as it is to be sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class LineReader:
    """Makes records of lines; JavaError where Kafka's reader would not go on."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self._parse_key = flag("parse.key")
        self._parse_headers = flag("parse.headers")
        self._ignore = flag("ignore.error")
        self._key_mark = properties.get("key.separator", "\t")
        self._headers_end = properties.get("headers.delimiter", "\t")
        self._header_mark = properties.get("headers.separator", ",")
        self._pair_mark = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._number = 0
        self._check()

    def _check(self) -> None:
        names = {
            "headers.delimiter": self._headers_end,
            "headers.separator": self._header_mark,
            "headers.key.separator": self._pair_mark,
        }
        listed = list(names)
        pairs = [(listed[0], listed[1]), (listed[0], listed[2]), (listed[1], listed[2])]
        for one, other in pairs:
            if names[one] == names[other]:
                raise JavaError(KAFKA_ERROR, f"{one} and {other} may not be equal")
        marks = {"key.separator": self._key_mark, listed[1]: names[listed[1]], listed[0]: names[listed[0]]}
        for name, mark in (marks | {listed[2]: names[listed[2]]}).items():
            if mark == self._null:
                raise JavaError(KAFKA_ERROR, f"null.marker and {name} may not be equal")

    def read(self, line: str) -> RecordLine:
        """The record of the next line."""
        self._number += 1
        headers, at = self._part(self._parse_headers, line, 0, self._headers_end, "headers delimiter")
        key, at = self._part(self._parse_key, line, at, self._key_mark, "key separator")
        found = () if headers is None or headers == self._null else tuple(self._headers(headers))
        return RecordLine(self._bytes(key), self._bytes(line[at:]), found)

    def _part(self, wanted: bool, line: str, start: int, mark: str, what: str) -> tuple[str | None, int]:
        if not wanted:
            return None, start
        end = line.find(mark, start)
        if end >= 0:
            return line[start:end], end + len(mark)
        if self._ignore:
            return None, start
        raise JavaError(KAFKA_ERROR, f"No {what} found on line number {self._number}: '{line}'")

    def _headers(self, text: str) -> Iterator[tuple[str, bytes | None]]:
        pairs = re.split(self._header_mark, text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        for pair in pairs:
            key, mark, value = pair.partition(self._pair_mark)
            if not mark:
                if not self._ignore:
                    where = f"in pair '{pair}' on line number {self._number}"
                    raise JavaError(KAFKA_ERROR, f"No header key separator found {where}")
                yield pair, None
                continue
            if key == self._null:
                why = f"Header keys should not be equal to the null marker '{self._null}' as they can't be null"
                raise JavaError(KAFKA_ERROR, why)
            yield key, self._bytes(value)

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode("utf-8", "replace")


def lines_of_stdin(patience_s: float) -> Iterator[str | None]:
    """The lines of standard input; None when no other has come for a while: then what has gathered may be sent.

    JavaError when it cannot be read.
    """
    if (why := os.environ.get(STDIN_FAULT)) is not None:
        raise _unreadable(why)
    try:
        source = sys.stdin.fileno()
    except (OSError, ValueError):  # a stream of text was put in its place
        yield from (line.rstrip("\r\n") for line in sys.stdin)
        return
    prompt = sys.stdin.isatty() and sys.stdout.isatty()
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    rest = ""
    ready = select.poll()  # select() knows no descriptor above 1,023
    ready.register(source, select.POLLIN)
    if prompt:
        _prompt()
    while True:
        if not ready.poll(patience_s * 1000):
            yield None
            ready.poll()
        try:
            data = os.read(source, _READ_BYTES)
        except OSError as error:
            raise _unreadable(error.strerror or str(error)) from None
        *found, rest = _END.split(rest + decode(data, final=not data))
        for line in found:
            yield line
            if prompt:
                _prompt()
        if not data:
            if rest:
                yield rest.removesuffix("\r")
            return


def _unreadable(why: str) -> JavaError:
    cause = JavaError("java.io.IOException", why)
    return JavaError(KAFKA_ERROR, str(cause), cause)


def _prompt() -> None:
    sys.stdout.write(">")
    sys.stdout.flush()
