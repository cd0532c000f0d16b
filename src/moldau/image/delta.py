"""What changed: the values *before* a run of records, by name; the image has the values after.

Collected by ``Image.apply(record, delta=...)`` over a committed batch, so that a broker applies changes only and the
state-change log can say from what to what. A thing absent from a table did not change; None means it was not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.image.partition import Key, Partition
from moldau.image.registration import Broker, Controller
from moldau.model.named import NamedTuple
from moldau.model.protocol import Protocol


class ChangedTopic(Protocol):
    """A topic as it is after the records."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Mapping[int, Partition]: ...


class ChangedTopics(Protocol):
    """The image after the records, as far as a delta reads it: topics by id."""

    @property
    def topics(self) -> Mapping[bytes, ChangedTopic]: ...


class PartitionDelta(NamedTuple):
    """One partition's change. ``before`` is None for a new one, ``after`` is None for a deleted one."""

    topic: str
    key: Key
    before: Partition | None
    after: Partition | None


class Delta:
    """Before-values of everything that a batch of records touched; first touch wins."""

    __slots__ = ("brokers", "configs", "controllers", "features", "opaque", "partitions", "producer_ids", "topics")

    def __init__(self) -> None:
        self.topics: dict[bytes, tuple[str, bool]] = {}  # id -> name, was there before
        self.partitions: dict[Key, Partition | None] = {}
        self.brokers: dict[int, Broker | None] = {}
        self.controllers: dict[int, Controller | None] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}  # (resource type, name) -> settings before
        self.features: dict[str, int] = {}  # name -> level before (0: none)
        self.producer_ids: int | None = None
        self.opaque: set[tuple[object, ...]] = set()

    def __bool__(self) -> bool:
        """Whether anything changed at all."""
        return self.producer_ids is not None or any(
            (self.topics, self.partitions, self.brokers, self.controllers, self.configs, self.features, self.opaque)
        )

    def deleted_topics(self, image: ChangedTopics) -> dict[bytes, str]:
        """Id -> name of topics that are gone. A name deleted and created again is
        here under its former id."""
        return {id: name for id, (name, was) in self.topics.items() if was and id not in image.topics}

    def partition_changes(self, image: ChangedTopics) -> list[PartitionDelta]:
        """Every partition touched, with before and after; those created and deleted within the batch are left out."""
        return list(self.changes(image))

    def changes(self, image: ChangedTopics) -> Iterator[PartitionDelta]:
        """Every partition touched, one by one, for a caller that pauses; the image may not change before the end."""
        for key, before in self.partitions.items():
            topic = image.topics.get(key[0])
            after = None if topic is None else topic.partitions.get(key[1])
            if before is None and after is None:
                continue
            name = topic.name if topic is not None else self.topics[key[0]][0]
            yield PartitionDelta(name, key, before, after)
