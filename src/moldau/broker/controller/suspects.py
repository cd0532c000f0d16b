"""Brokers that may just have died: a connection to them broke, or was refused, and the image shows them alive still.

For a moment such news makes the image doubtful. Decides nothing: the controller finds out whether a broker is dead.
"""

from __future__ import annotations

from moldau.image import Image
from moldau.model.protocol import Protocol
from moldau.ports import Clock

SUSPICION_MS = 500
"""How long a refusal makes the image doubtful. Then it counts again: the refusal may have been somebody's mistake."""
BREAK_MS = 20
"""How long the end of a connection does: by then its address has refused another one, or taken it."""


class WithImage(Protocol):
    """Where the committed image of this node stands."""

    @property
    def image(self) -> Image: ...


class SuspectedBrokers:
    """The brokers that one node suspects to be dead."""

    def __init__(self, clock: Clock, metadata: WithImage) -> None:
        self._clock = clock
        self._metadata = metadata
        self._until_ms: dict[int, int] = {}

    def refused(self, broker_id: int) -> None:
        """A broker refuses connections."""
        self._until_ms[broker_id] = self._clock.monotonic_ms() + SUSPICION_MS

    def broke(self, broker_id: int) -> None:
        """The connection to a broker has just ended: whether it died is known in a moment."""
        until_ms = self._clock.monotonic_ms() + BREAK_MS
        self._until_ms[broker_id] = max(self._until_ms.get(broker_id, 0), until_ms)

    def any_left(self) -> bool:
        """Whether a broker that the image shows alive is suspected: the image is about to change."""
        now_ms = self._clock.monotonic_ms()
        for id, until_ms in list(self._until_ms.items()):
            broker = self._metadata.image.brokers.get(id)
            if broker is None or broker.fenced or now_ms >= until_ms:
                del self._until_ms[id]
        return bool(self._until_ms)
