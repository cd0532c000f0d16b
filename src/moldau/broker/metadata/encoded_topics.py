"""Topics as Metadata answers show them, encoded once for all who ask: per version and listener, until they change.

Twenty clients that ask for 5,000 partitions cost one encoding and twenty references to it. What is kept of a topic goes
when a batch of metadata changes it; all of it when a broker changes, since addresses and leaders are shown by who is
alive. Decides nothing about what is shown: ``api/k03_metadata.py`` does.
"""

from __future__ import annotations

from moldau.image import Delta, Image
from moldau.model.named import NamedTuple
from moldau.wire.codec import Packed

VARIANTS_MAX = 8
"""Versions and listeners that are kept at a time; the one that was not asked for the longest goes."""


class Variant(NamedTuple):
    """What the bytes depend on besides the image."""

    version: int
    listener: str
    operations: bool


class EncodedTopic:
    """What is kept for one variant."""

    __slots__ = ("being_encoded", "everything", "topics")

    def __init__(self) -> None:
        self.topics: dict[bytes, bytes] = {}
        """Topic id -> the topic as an item of the answer's array."""
        self.everything: Packed | None = None
        """All of them, as the array."""
        self.being_encoded: set[bytes] = set()
        """Topic ids that an answer in turns is at: others wait for it rather than do the same."""


class EncodedTopics:
    """One broker's."""

    def __init__(self) -> None:
        self._variants: dict[Variant, EncodedTopic] = {}
        self.changes = 0
        """Counts changes: what was begun before one may not be kept after it."""

    def of(self, variant: Variant) -> EncodedTopic:
        """What is kept for this variant."""
        found = self._variants.pop(variant, None)
        if found is None:
            found = EncodedTopic()
            while len(self._variants) >= VARIANTS_MAX:
                del self._variants[next(iter(self._variants))]
        self._variants[variant] = found
        return found

    def changed(self, image: Image, delta: Delta) -> None:
        """A batch of metadata was applied: forget what it changed."""
        if delta.brokers or delta.features:
            self.changes += 1
            self._variants.clear()
            return
        ids = dict.fromkeys(delta.topics) | dict.fromkeys(id for id, _ in delta.partitions)
        if ids:
            self.changes += 1
            for kept in self._variants.values():
                kept.everything = None
                for id in ids:
                    kept.topics.pop(id, None)

    def keep(self, kept: EncodedTopic, changes: int, id: bytes, encoded: bytes) -> None:
        """A topic was encoded, begun when there had been so many changes."""
        if changes == self.changes:
            kept.topics[id] = encoded
