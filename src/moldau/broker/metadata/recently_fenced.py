"""Brokers that were fenced a moment ago: kept on the list of brokers that clients see, leading nothing.

When a response no longer lists the broker that led, librdkafka tears its handle down while partitions are still moving
off it, takes them for leaderless, and waits for a timer of a whole second before it asks again. Measured with its own
log: gaps of 1.0 and 2.0 s in acknowledged writes after elections that had taken 50 ms. Only ``api/k03_metadata.py``
asks here.
"""

from __future__ import annotations

from moldau.broker.metadata.cache import MetadataCache
from moldau.image import Broker, Delta, Image
from moldau.ports import Clock

LINGER_MS = 3_000
"""How long: a client's move to the new leaders takes milliseconds, its timers a second or two."""
RELAPSE_MS = 15_000
"""A broker that falls again so soon leaves the list at once: a handle that lives on makes the client wait longer with
every failed connection (up to reconnect.backoff.max.ms, 10 s), and one torn down begins anew."""


class RecentlyFencedBrokers:
    """Watches the committed image of a node."""

    def __init__(self, clock: Clock, metadata: MetadataCache) -> None:
        self._clock = clock
        self._metadata = metadata
        self._gone: dict[int, tuple[Broker, int]] = {}
        self._fell_ms: dict[int, int] = {}
        metadata.watch(self._changed)

    def brokers(self) -> list[Broker]:
        """The brokers that were fenced or unregistered within the last moment and are not back."""
        if not self._gone:
            return []
        now_ms = self._clock.monotonic_ms()
        for id, (_, until_ms) in list(self._gone.items()):
            if now_ms >= until_ms or self._is_back(id):
                del self._gone[id]
        return [broker for broker, _ in self._gone.values()]

    def _is_back(self, id: int) -> bool:
        broker = self._metadata.image.brokers.get(id)
        return broker is not None and not broker.fenced

    def _changed(self, image: Image, delta: Delta) -> None:
        for id, before in delta.brokers.items():
            if before is not None and not before.fenced and not self._is_back(id):
                now_ms = self._clock.monotonic_ms()
                last_ms, self._fell_ms[id] = self._fell_ms.get(id), now_ms
                if last_ms is None or now_ms - last_ms >= RELAPSE_MS:
                    self._gone[id] = (before, now_ms + LINGER_MS)
