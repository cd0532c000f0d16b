"""This node's copy of what the cluster agreed on, kept by the plane's events, and who wants to hear of changes.

Holds the committed image. A committed batch changes it at once, and with it what clients are told; then its one delta
is handed on, in order: to those who ``watch`` (what is made of the image: caches, quotas, settings), last to those who
``subscribe`` and act on it (replicas, the coordinator), in slices where that is much. Clients may be sent to a leader
that has not heard of it yet: it refuses them, and they ask again. Decides nothing. The controller's working copy is
``controller/active.py``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from moldau.image import Delta, Image, image_from
from moldau.image.prepared import Prepared, prepared_in_slices
from moldau.wire.schema import Message

K = TypeVar("K")

Watcher = Callable[[Image, Delta], None]
"""Makes something of the image, and returns soon."""
Listener = Callable[[Image, Delta], Iterator[None] | None]
"""Acts on the image. May return what is too much for one turn of the loop; it is finished before anything else is
told."""


class MetadataCache:
    """The committed image of one node; a ``PlaneEvents`` listener."""

    def __init__(self, at_once: int = 100) -> None:
        """``at_once``: how many records are looked at in one turn of the loop."""
        self._at_once = at_once
        self.image = Image()
        self.offset = -1
        """Offset of the last committed record that was applied."""
        self.epoch = 0
        self.version = 0
        """Counts applied batches: whoever caches what it made of the image compares this."""
        self._listeners: list[Listener] = []
        self._watchers: list[Watcher] = []
        self._held = True
        self._first: Iterator[None] | None = None
        """What is left to do of all that was there when listeners were let act."""

    def subscribe(self, listener: Listener) -> None:
        """``listener(image, delta)`` is called after every batch that changed something, behind all watchers, once
        released."""
        self._listeners.append(listener)

    def watch(self, watcher: Watcher) -> None:
        """``watcher(image, delta)`` is called after every batch that changed something, from the start: also while old
        records are replayed, on which nobody may act."""
        self._watchers.append(watcher)

    def release_in_slices(self, me: int) -> Generator[None, None, None]:
        """Let the listeners of broker ``me`` act: called once the image is new enough that nothing in it is of an
        earlier life of this node.

        Old records replayed at start could otherwise make this broker lead under an epoch long gone. Pauses where the
        loop should turn: ten thousand partitions begin, and the quorum goes on meanwhile. What is committed meanwhile
        is applied when all is done, and whoever applies it does the rest, as does a second caller.
        """
        if self._held:
            self._held = False
            self._first = self._tell(beginning(self.image, me))
        yield from self._begin()

    def _begin(self) -> Generator[None, None, None]:
        while (first := self._first) is not None:
            for _ in first:
                yield
                break
            else:
                self._first = None

    def became_active(self, epoch: int) -> None:
        """The controller's business."""

    def lost_active(self) -> None:
        """The controller's business."""

    def committed(self, records: Sequence[Message], offset: int, epoch: int) -> Iterator[None] | None:
        rest = self._carry_out(records, offset, epoch)
        for _ in rest:
            return rest
        return None

    def _carry_out(self, records: Sequence[Message], offset: int, epoch: int) -> Iterator[None]:
        yield from self._begin()
        if not isinstance(records, Prepared):  # else this node decided them
            records = yield from prepared_in_slices(records, self._at_once)
        delta = Delta()
        self.image.apply_all(records, offset, delta)
        yield from self._publish(delta, offset, epoch)

    def load_snapshot(self, records: Sequence[Message], offset: int, epoch: int) -> None:
        _finish(self._begin())
        before, self.image = self.image, image_from(list(records), offset)
        _finish(self._publish(difference(before, self.image), offset, epoch))

    def _publish(self, delta: Delta, offset: int, epoch: int) -> Iterator[None]:
        self.offset = offset
        self.epoch = epoch
        self.version += 1
        if delta:
            for watcher in self._watchers:
                watcher(self.image, delta)
        yield from self._tell(delta)

    def _tell(self, delta: Delta) -> Iterator[None]:
        if delta and not self._held:
            for listener in self._listeners:
                yield from listener(self.image, delta) or ()


def _finish(work: Iterator[None]) -> None:
    """All of it, at once."""
    for _ in work:
        pass


def beginning(image: Image, me: int) -> Delta:
    """The delta from nothing to an image, with those partitions only that have a replica on broker ``me``."""
    delta = Delta()
    delta.topics = {id: (topic.name, False) for id, topic in image.topics.items()}
    delta.partitions = dict.fromkeys(image.index.assigned.get(me, ()))
    delta.brokers = dict.fromkeys(image.brokers)
    delta.configs = {resource: {} for resource in image.configs}
    delta.features = dict.fromkeys(image.features, 0)
    return delta


def difference(before: Image, after: Image) -> Delta:
    """The delta that leads from one image to another: what a loaded snapshot changed."""
    delta = Delta()
    for id in _either(before.topics, after.topics):
        old, new = before.topics.get(id), after.topics.get(id)
        if old is None or new is None:
            topic = old or new
            assert topic is not None
            delta.topics[id] = (topic.name, old is not None)
        olds = old.partitions if old is not None else {}
        news = new.partitions if new is not None else {}
        for number in _either(olds, news):
            if olds.get(number) != news.get(number):
                delta.partitions[(id, number)] = olds.get(number)
    for broker in _either(before.brokers, after.brokers):
        if before.brokers.get(broker) != after.brokers.get(broker):
            delta.brokers[broker] = before.brokers.get(broker)
    for resource in _either(before.configs, after.configs):
        if before.configs.get(resource) != after.configs.get(resource):
            delta.configs[resource] = dict(before.configs.get(resource, {}))
    for name in _either(before.features, after.features):
        if before.features.get(name) != after.features.get(name):
            delta.features[name] = before.features.get(name, 0)
    delta.opaque.update(
        key for key in _either(before.opaque, after.opaque) if before.opaque.get(key) != after.opaque.get(key)
    )
    if before.next_producer_id != after.next_producer_id:
        delta.producer_ids = before.next_producer_id
    return delta


def _either(one: Iterable[K], other: Iterable[K]) -> Iterable[K]:
    """What is in one or the other, in their order: a set's would differ from process to process."""
    return dict.fromkeys((*one, *other))
