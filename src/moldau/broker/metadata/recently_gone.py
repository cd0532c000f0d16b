"""What was there a moment ago, as Metadata's answers take it into account."""

from __future__ import annotations

from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.metadata.recently_deleted import RecentlyDeletedTopics
from moldau.broker.metadata.recently_fenced import RecentlyFencedBrokers
from moldau.ports import Clock


class RecentlyGone:
    """Brokers that were fenced and topics that were deleted, of one node."""

    def __init__(self, clock: Clock, metadata: MetadataCache) -> None:
        self.fenced = RecentlyFencedBrokers(clock, metadata)
        self.deleted = RecentlyDeletedTopics(clock, metadata)
