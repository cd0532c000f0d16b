"""A broker begins with all that its image has in turns: what is committed meanwhile comes after it, once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.broker.metadata.cache import MetadataCache
from moldau.image import Delta, Image, Partition
from moldau.image.partition import to_record
from moldau.wire.records.metadata import PartitionChangeRecord, TopicRecord

ID = bytes(15) + b"t"
MANY = 10


def created() -> list[Any]:
    parts = (Partition(ID, number, (1, 2), (1, 2), leader=1) for number in range(MANY))
    return [TopicRecord(name="t", topic_id=ID), *map(to_record, parts)]


def led_by_another(number: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=ID, partition_id=number, leader=2)


class Broker:
    """Acts on one partition in a turn, and notes whom it was told to follow."""

    def __init__(self, metadata: MetadataCache) -> None:
        self.metadata = metadata
        self.done: list[tuple[int, int]] = []
        metadata.subscribe(self.act)

    def act(self, image: Image, delta: Delta) -> Iterator[None]:
        for change in delta.partition_changes(image):
            assert change.after is not None
            assert change.after == image.at(change.key), "the image changes after what was told of it is done"
            self.done.append((change.after.id, change.after.leader))
            yield


def begun() -> tuple[MetadataCache, Broker]:
    metadata = MetadataCache()
    broker = Broker(metadata)
    metadata.committed(created(), MANY, 1)
    assert not broker.done, "held"
    return metadata, broker


WHOLE = [(number, 1) for number in range(MANY)]


def test_one_step_is_one_turn_of_the_listener() -> None:
    metadata, broker = begun()
    counts = [len(broker.done) for _ in metadata.release_in_slices(1)]
    assert counts == list(range(1, MANY + 1))
    assert broker.done == WHOLE
    assert not list(metadata.release_in_slices(1)), "once"


@pytest.mark.parametrize("turns", [1, 4, MANY])
def test_what_is_committed_meanwhile_waits_for_the_rest_of_the_beginning_and_helps_it_along(turns: int) -> None:
    metadata, broker = begun()
    beginning = metadata.release_in_slices(1)
    for _ in range(turns):
        next(beginning)
    rest = metadata.committed([led_by_another(0)], MANY + 1, 1)
    assert rest is not None
    assert metadata.offset == (MANY + 1 if len(broker.done) > MANY else MANY)
    for _ in rest:
        next(beginning, None)
    assert broker.done == [*WHOLE, (0, 2)]
    assert metadata.offset == MANY + 1
    assert not list(beginning)


def test_a_snapshot_ends_the_beginning_at_once() -> None:
    metadata, broker = begun()
    beginning = metadata.release_in_slices(1)
    next(beginning)
    records = created()
    records[1] = to_record(Partition(ID, 0, (1, 2), (2,), leader=2))
    metadata.load_snapshot(records, MANY + 5, 1)
    assert broker.done == [*WHOLE, (0, 2)]
    assert not list(beginning)
    assert metadata.offset == MANY + 5


def test_a_second_registration_while_it_begins_waits_for_the_same_end() -> None:
    metadata, broker = begun()
    one, other = metadata.release_in_slices(1), metadata.release_in_slices(1)
    next(one)
    for _ in other:
        pass
    assert broker.done == WHOLE
    assert not list(one)


def test_clients_are_told_of_a_change_before_all_who_act_on_it_have_heard_and_those_who_watch_hear_first() -> None:
    metadata, broker = begun()
    for _ in metadata.release_in_slices(1):
        pass
    heard: list[list[tuple[int, int]]] = []
    metadata.watch(lambda image, delta: heard.append(broker.done[MANY:]))
    rest = metadata.committed([led_by_another(number) for number in range(MANY)], 2 * MANY, 1)
    assert rest is not None
    assert heard == [[]]
    assert broker.done[MANY:] == [(0, 2)]
    assert all(metadata.image.at((ID, number)).leader == 2 for number in range(MANY))
    for _ in rest:
        pass
    assert broker.done[MANY:] == [(number, 2) for number in range(MANY)]
