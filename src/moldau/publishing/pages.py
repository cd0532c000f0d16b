"""What a node's page of metrics says, as one JSON object that no topic refuses for its size."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite

from moldau.model.named import NamedTuple

VALUE_BYTES_MAX = 512 << 10
"""Half of what topics take unless they are told otherwise (max.message.bytes)."""
ROOM_BYTES = 64
"""For the names and the number that are known last."""
PAGE_BYTES_MAX = 64 << 20
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)(?: -?\d+)?")
_LINE = re.compile(r"[^\n]+")
_LABELS = (("partition",), ("topic",))
"""The labels of figures of which there are as many series as partitions, and as topics."""


class Asked(NamedTuple):
    """A node whose page was asked, and when: ``due_ms`` is the multiple of ``every_ms`` that it was asked for, None
    when it was asked for none. ``missed``: records of the node before this one that were not kept."""

    node: int
    time_ms: int
    page: str
    due_ms: int | None = None
    every_ms: int | None = None
    missed: int = 0

    def facts(self) -> dict[str, object]:
        """What a record begins with."""
        due = {} if self.due_ms is None else {"due_ms": self.due_ms, "every_ms": self.every_ms}
        missed = {"missed": self.missed} if self.missed else {}
        return {"time_ms": self.time_ms, "node": self.node, "page": self.page} | due | missed


def ask(page: str, timeout_s: float) -> str:
    """The text of ``http://PAGE/metrics``, which has so long to come, all of it. OSError says why there is none."""
    until = time.monotonic() + timeout_s
    connection = None
    try:
        connection = http.client.HTTPConnection(page, timeout=timeout_s)
        connection.connect()
        with _ended_at(connection.sock, until):
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"answers {answer.status} {answer.reason}")
            data = answer.read(PAGE_BYTES_MAX + 1)
        if len(data) > PAGE_BYTES_MAX:
            raise OSError(f"has more than {PAGE_BYTES_MAX >> 20} MiB")
        return data.decode("utf-8", "replace")
    except ConnectionRefusedError as error:
        raise OSError("nobody listens there") from error
    except TimeoutError as error:
        raise OSError(f"has said nothing for {timeout_s:g} s") from error
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"is no page of metrics: {error or type(error).__name__}") from error
    finally:
        if connection is not None:
            connection.close()


@contextmanager
def _ended_at(sock: socket.socket, until: float) -> Iterator[None]:
    """Have nothing more come over a connection from a moment on, and raise OSError then: the timeout of a socket is
    for each piece of an answer, however small, and pieces may come for ever."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(until - time.monotonic(), 0), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise OSError("is not through in time")


def series(text: str) -> dict[str, float | None]:
    """What a page in Prometheus' text format says, by name and labels; None for what is no finite number."""
    found: dict[str, float | None] = {}
    for line in _LINE.finditer(text):
        match = _SERIES.fullmatch(line[0].strip())
        if match is not None:
            try:
                number = float(match[2])
            except ValueError:
                continue
            found[match[1]] = None if not isfinite(number) else int(number) if number.is_integer() else number
    return found


def metrics_record(asked: Asked, found: dict[str, float | None]) -> bytes:
    """The value of a record: name -> value, those of single topics and partitions as far as there is room, and how many
    are left out."""
    fact = asked.facts()
    whole = _encoded(fact | {"metrics": found})
    if len(whole) <= VALUE_BYTES_MAX:
        return whole
    taken: set[str] = set()
    left = VALUE_BYTES_MAX - len(_encoded(fact)) - ROOM_BYTES
    for name in _by_room(found):
        size = len(_encoded({name: found[name]}))  # brackets for the comma
        if size <= left:
            left -= size
            taken.add(name)
    fact["left_out"] = len(found) - len(taken)
    return _encoded(fact | {"metrics": {name: number for name, number in found.items() if name in taken}})


def silence_record(asked: Asked, why: str) -> bytes:
    """The value of a record of a node whose page did not answer, or that has none."""
    return _encoded(asked.facts() | {"error": why[:1_000]})


def _encoded(fact: Mapping[str, object]) -> bytes:
    return json.dumps(fact, separators=(",", ":")).encode()


def _by_room(names: Iterable[str]) -> list[str]:
    """The figures of the node first, then those of topics, then those of partitions."""

    def kind(name: str) -> int:
        labels = name.partition("{")[2]
        return next((2 - at for at, (label,) in enumerate(_LABELS) if re.search(rf'\b{label}="[^"]', labels)), 0)

    return sorted(names, key=kind)
