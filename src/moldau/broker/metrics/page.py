"""The node's pages: /metrics, /livez, /readyz, /healthz, /safe-to-restart, /debug. As much of HTTP/1.1 as that takes.

One GET a connection, no body; anything else gets its error and the connection is closed. Never on the listeners of
clients. An answer is made from what the node is at that moment. Read next: ``figures.py``, ``health.py``,
``state.py``.
"""

from __future__ import annotations

import json
import logging

from moldau.broker.metrics.elections import Elections
from moldau.broker.metrics.figures import figures
from moldau.broker.metrics.health import not_ready, not_safe_to_restart, report
from moldau.broker.metrics.reported import Reported
from moldau.broker.metrics.state import state
from moldau.broker.metrics.text import CONTENT_TYPE, page
from moldau.ports import Listener, Transport

log = logging.getLogger(__name__)

REQUEST_MAX = 8 * 1024
PATIENCE_MS = 10_000
"""For a request to come whole, and for its answer to be taken."""
PLAIN, JSON = "text/plain; charset=utf-8", "application/json"
Answer = tuple[int, str, str]
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class Pages:
    """The pages of one node."""

    def __init__(self, node: Reported) -> None:
        self.node = node
        self._elections = Elections()
        self._listener: Listener | None = None
        if node.config.is_controller:
            node.metadata.watch(self._elections.decided)

    async def open(self, host: str, port: int) -> None:
        """Listen; OSError when the address cannot be had."""
        self._listener = await self.node.world.net.listen(host, port, lambda: Visit(self))
        log.info("metrics and health at http://%s:%d/metrics", host, self._listener.port)

    @property
    def port(self) -> int:
        """Where it really listens."""
        assert self._listener is not None
        return self._listener.port

    def close(self) -> None:
        """Take no more visitors."""
        if self._listener is not None:
            self._listener.close()

    async def answer(self, method: str, path: str) -> Answer:
        """(status, content type, body) of one request."""
        if method not in ("GET", "HEAD"):
            return 405, PLAIN, "only GET is served here\n"
        match path.partition("?")[0]:
            case "/metrics":
                return 200, CONTENT_TYPE, page(await figures(self.node, self._elections))
            case "/livez":
                return 200, PLAIN, "ok\n"
            case "/readyz":
                return _verdict(not_ready(self.node))
            case "/safe-to-restart":
                return _verdict(not_ready(self.node) + not_safe_to_restart(self.node))
            case "/healthz":
                found = report(self.node)
                return 200 if found["ready"] else 503, JSON, json.dumps(found, indent=2) + "\n"
            case "/debug":
                return 200, PLAIN, await state(self.node)
            case _:
                return 404, PLAIN, "here are /metrics /livez /readyz /healthz /safe-to-restart /debug\n"


def _verdict(reasons: list[str]) -> Answer:
    return (503, PLAIN, "".join(f"{reason}\n" for reason in reasons)) if reasons else (200, PLAIN, "ok\n")


class Visit:
    """One connection."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._buffer = bytearray(REQUEST_MAX)
        self._have = 0
        self._transport: Transport | None = None
        self._busy = False

    def connection_made(self, transport: Transport) -> None:
        self._transport = transport
        self._timer = self._pages.node.world.tasks.call_later(PATIENCE_MS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._have == len(self._buffer):
            self._have = 0  # more than a request may have; it was refused, and what still comes is not looked at
        return memoryview(self._buffer)[self._have :]

    def buffer_updated(self, nbytes: int) -> None:
        self._have += nbytes
        if self._busy:
            return
        head = bytes(self._buffer[: self._have])
        if b"\r\n\r\n" in head or b"\n\n" in head:
            words = head.split(b"\n", 1)[0].decode("latin-1").split()
            self._busy = True
            if len(words) == 3 and words[2].startswith("HTTP/1."):
                self._pages.node.world.tasks.spawn(self._serve(words[0], words[1]), "metrics")
            else:
                self._send("GET", (400, PLAIN, "this is not HTTP/1.1\n"))
        elif self._have >= REQUEST_MAX:
            self._busy = True
            self._send("GET", (400, PLAIN, "the request is too large\n"))

    def eof_received(self) -> bool:
        return self._busy  # keep our half open for the answer

    def pause_writing(self) -> None:
        """The patience for one visit bounds what waits to be sent."""

    def resume_writing(self) -> None:
        """See above."""

    async def _serve(self, method: str, path: str) -> None:
        try:
            answer = await self._pages.answer(method, path)
        except AssertionError:
            raise
        except Exception as error:  # whoever looks at a node must not be able to end it
            self._pages.node.survived("page", error)
            answer = 500, PLAIN, "the page cannot be made; the node's log says why\n"
        self._send(method, answer)

    def _send(self, method: str, answer: Answer) -> None:
        if self._transport is None:
            return
        status, kind, text = answer
        body = text.encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\nCache-Control: no-store\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if method == "HEAD" else body))
        self._transport.close()
