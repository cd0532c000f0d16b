"""Topics that were deleted a moment ago: who names one is told that it is not there, even if naming creates it anew.

A client that deletes a topic looks whether it is gone, and most ask in a way that creates what is missing. An answer
that waits for the new topic would tell them that nothing was deleted. Kafka's brokers answer first and create then.
Only ``api/k03_metadata.py`` asks here.
"""

from __future__ import annotations

from moldau.broker.metadata.cache import MetadataCache
from moldau.image import Delta, Image
from moldau.ports import Clock

LINGER_MS = 10_000
"""How long: who deleted a topic looks at once, and again a few times."""
NAMES_MAX = 10_000
"""How many names are kept; those that were deleted first are forgotten first."""


class RecentlyDeletedTopics:
    """Watches the committed image of a node."""

    def __init__(self, clock: Clock, metadata: MetadataCache) -> None:
        self._clock = clock
        self._until_ms: dict[str, int] = {}
        metadata.watch(self._changed)

    def __contains__(self, name: str) -> bool:
        """Whether a topic of this name was deleted within the last moment."""
        return self._clock.monotonic_ms() < self._until_ms.get(name, 0)

    def __len__(self) -> int:
        """How many names are kept."""
        return len(self._until_ms)

    def _changed(self, image: Image, delta: Delta) -> None:
        deleted = delta.deleted_topics(image)
        if not deleted:
            return
        now_ms = self._clock.monotonic_ms()
        for name in deleted.values():
            self._until_ms.pop(name, None)  # so that the names stand in the order of their ends
            self._until_ms[name] = now_ms + LINGER_MS
        for name, until_ms in list(self._until_ms.items()):
            if until_ms > now_ms and len(self._until_ms) <= NAMES_MAX:
                break
            del self._until_ms[name]
