"""Topics that were deleted a moment ago: how long, and how many, a node remembers."""

from __future__ import annotations

from moldau.broker.metadata.cache import MetadataCache
from moldau.broker.metadata.recently_deleted import LINGER_MS, NAMES_MAX, RecentlyDeletedTopics
from moldau.wire.records.metadata import RemoveTopicRecord, TopicRecord
from tests.packages.manual_clock import ManualClock


class Topics:
    """Topics that come and go."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.metadata = MetadataCache()
        self.deleted = RecentlyDeletedTopics(self.clock, self.metadata)
        self.made = 0

    def create(self, *names: str) -> list[bytes]:
        first, self.made = self.made, self.made + len(names)
        ids = [(first + number + 1).to_bytes(16, "big") for number in range(len(names))]
        self.say([TopicRecord(name=name, topic_id=id) for name, id in zip(names, ids, strict=True)])
        return ids

    def delete(self, ids: list[bytes]) -> None:
        self.say([RemoveTopicRecord(topic_id=id) for id in ids])

    def say(self, records: list[TopicRecord] | list[RemoveTopicRecord]) -> None:
        for _ in self.metadata.committed(records, self.metadata.offset + len(records), 1) or ():
            pass


def test_a_deleted_topic_is_remembered_for_a_moment_and_one_that_never_was_is_not() -> None:
    topics = Topics()
    topics.delete(topics.create("old"))
    assert "old" in topics.deleted
    assert "never" not in topics.deleted
    topics.clock.now_ms += LINGER_MS
    assert "old" not in topics.deleted


def test_the_moment_begins_anew_with_each_deletion() -> None:
    topics = Topics()
    topics.delete(topics.create("old"))
    topics.clock.now_ms += LINGER_MS - 1
    topics.delete(topics.create("old"))
    topics.clock.now_ms += LINGER_MS - 1
    assert "old" in topics.deleted


def test_names_whose_moment_is_over_are_forgotten_at_the_next_deletion() -> None:
    topics = Topics()
    topics.delete(topics.create("a", "b"))
    topics.clock.now_ms += LINGER_MS
    topics.delete(topics.create("c"))
    assert len(topics.deleted) == 1


def test_however_many_are_deleted_at_once_the_last_ones_alone_are_kept() -> None:
    topics = Topics()
    names = [f"topic-{number}" for number in range(NAMES_MAX + 10)]
    topics.delete(topics.create(*names))
    assert len(topics.deleted) == NAMES_MAX
    assert names[-1] in topics.deleted
    assert names[0] not in topics.deleted
