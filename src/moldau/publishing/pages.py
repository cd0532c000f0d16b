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

VALUE_BYTES_MAX = 512 << 10
"""Half of what topics take unless they are told otherwise (max.message.bytes)."""
ROOM_BYTES = 64
"""For the names and the number that are known last."""
PAGE_BYTES_MAX = 64 << 20
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*(?:\{.*\})?) (\S+)(?: -?\d+)?")
_LINE = re.compile(r"[^\n]+")
_LABELS = (("partition",), ("topic",))
"""Of these labels there are as many series as partitions, and as topics."""


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


def metrics_record(node: int, now_ms: int, page: str, found: dict[str, float | None], missed: int = 0) -> bytes:
    """The value of a record: name -> value, those of single topics and partitions as far as there is room, and how many
    are left out. ``missed``: records before this one that were not kept."""
    fact = _head(node, now_ms, page, missed)
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


def silence_record(node: int, now_ms: int, page: str, why: str, missed: int = 0) -> bytes:
    """The value of a record of a node whose page did not answer."""
    return _encoded(_head(node, now_ms, page, missed) | {"error": why[:1_000]})


def _head(node: int, now_ms: int, page: str, missed: int) -> dict[str, object]:
    return {"time_ms": now_ms, "node": node, "page": page} | ({"missed": missed} if missed else {})


def _encoded(fact: Mapping[str, object]) -> bytes:
    return json.dumps(fact, separators=(",", ":")).encode()


def _by_room(names: Iterable[str]) -> list[str]:
    """Those of the node first, then those of topics, then those of partitions."""

    def kind(name: str) -> int:
        labels = name.partition("{")[2]
        return next((2 - at for at, (label,) in enumerate(_LABELS) if re.search(rf'\b{label}="[^"]', labels)), 0)

    return sorted(names, key=kind)
