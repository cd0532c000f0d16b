"""How kafka-verifiable-producer.sh sends: one number after the other, until there are enough or a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial

from moldau.admin.classic.argparse4j import Words
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.record_sender import Sender, Throttle, WrittenAt
from moldau.admin.classic.verifiable import event

ENDS = (signal.SIGINT, signal.SIGTERM)


class SendingRun:
    """One run: what is sent, and what is told of it."""

    def __init__(self, words: Words) -> None:
        self.status = 0
        self._most = words.integer("max-messages")
        self._per_s = words.integer("throughput")
        self._topic = words.value("topic") or ""
        prefix = words.value("value-prefix")
        self._prefix = "" if prefix is None else f"{int(prefix)}."
        self._keys = words.integer("repeating-keys") if words.has("repeating-keys") else None
        self._created_ms = words.integer("message-create-time")
        self._sent = self._acked = 0
        self._next_key = 0

    async def send_all(self, sender: Sender) -> None:
        """Send the records until there are enough, or a signal ends it; what was sent is waited for."""
        began = time.time()
        event("startup_complete")
        work = asyncio.ensure_future(self._send(sender))
        loop = asyncio.get_running_loop()
        for number in ENDS:
            loop.add_signal_handler(number, self._end, work, number)
        try:
            await asyncio.wait([work])
            await sender.flush()
        finally:
            for number in ENDS:
                loop.remove_signal_handler(number)
        if not work.cancelled():
            work.result()
        event("shutdown_complete")
        per_s = 1000.0 * self._acked / max(int((time.time() - began) * 1000), 1)
        event("tool_data", sent=self._sent, acked=self._acked, target_throughput=self._per_s, avg_throughput=per_s)

    def _end(self, work: asyncio.Future[None], number: int) -> None:
        self.status = 128 + number
        work.cancel()

    async def _send(self, sender: Sender) -> None:
        throttle = Throttle(self._per_s)
        stamp_ms = None if self._created_ms == -1 else self._created_ms
        started = time.monotonic()
        while self._sent < self._most or self._most < 0:
            key, value = self._key(), f"{self._prefix}{self._sent}"
            self._sent += 1
            told = partial(self._told, key, value)
            data = None if key is None else key.encode()
            await sender.send(value.encode(), told, key=data, timestamp_ms=stamp_ms)
            if stamp_ms is not None:
                stamp_ms += int((time.monotonic() - started) * 1000)
            await throttle.pause(self._sent - 1)

    def _key(self) -> str | None:
        if self._keys is None:
            return None
        key = str(self._next_key)
        self._next_key = 0 if self._next_key + 1 == self._keys else self._next_key + 1
        return key

    def _told(self, key: str | None, value: str, place: WrittenAt | None, error: JavaError | None) -> None:
        if place is not None:
            self._acked += 1
            where = {"topic": self._topic, "partition": place.partition, "offset": place.offset}
            event("producer_send_success", key=key, value=value, **where)
        elif error is not None:
            why = {"exception": f"class {error.kind}", "message": error.message}
            event("producer_send_error", topic=self._topic, key=key, value=value, **why)
