"""Znodes that fell behind an image are brought up to it, whatever was missed; what is the same is left alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.image import image_from
from moldau.ports.zookeeper import Set
from moldau.wire.records import metadata as records
from moldau.zookeeper import paths
from moldau.zookeeper.catching_up import catch_up, image_in_slices
from moldau.zookeeper.reading import read, read_in_slices
from tests.packages.zookeeper.test_writing import EPOCH, Pen, decision, new_topic, topic_id


def through(work: Any) -> tuple[Any, int]:
    """What is returned in the end, and how many pauses there were."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def write_what_was_missed(pen: Pen) -> list[Any]:
    reading = read(pen.tree.survey(), lambda: topic_id(99))
    there, _ = through(image_in_slices(reading, 2))
    ops = catch_up(pen.image, there, reading.known_znodes, EPOCH)
    pen.tree.apply(ops)
    reading.known_znodes.applied(ops)
    pen.known_znodes = reading.known_znodes
    return ops


@given(st.data(), st.integers(1, 3))
def test_what_is_read_in_slices_is_what_is_read_at_once(data: st.DataObject, step: int) -> None:
    """No step works out more partitions than it may, a large topic's no more than many small ones'."""
    pen = Pen()
    for n in range(data.draw(st.integers(0, 5), label="topics")):
        pen.write(*data.draw(decision(pen.image, n + 1)))
    survey = pen.tree.survey()
    found, pauses = through(read_in_slices(survey, lambda: topic_id(99), step))
    at_once = read(survey, lambda: topic_id(99))
    assert found._replace(known_znodes=at_once.known_znodes) == at_once
    assert found.known_znodes.settings == at_once.known_znodes.settings
    assert (pauses + 1) * (2 * step - 1) >= len(survey.states), "what is left of one topic may be joined by the next's"
    image, _ = through(image_in_slices(found, step))
    there = image_from(found.records)
    assert image.names == there.names
    assert all(topic.partitions == there.topics[id].partitions for id, topic in image.topics.items())


@given(st.data())
def test_whatever_was_missed_is_made_up_for(data: st.DataObject) -> None:
    pen = Pen()
    numbers = iter(range(1, 20))
    for _ in range(data.draw(st.integers(0, 4), label="written")):
        pen.write(*data.draw(decision(pen.image, next(numbers))))
    for _ in range(data.draw(st.integers(0, 6), label="missed")):
        batch = data.draw(decision(pen.image, next(numbers)))
        for record in batch:
            if not isinstance(record, records.FeatureLevelRecord):
                pen.image.apply(record)
    write_what_was_missed(pen)
    pen.check()
    assert write_what_was_missed(pen) == []
    pen.write(
        *(r for r in data.draw(decision(pen.image, next(numbers))) if not isinstance(r, records.FeatureLevelRecord))
    )
    pen.check()


def test_a_version_is_the_epoch_again_when_several_changes_were_missed() -> None:
    pen = Pen()
    pen.write(*new_topic("t", topic_id(1), [1, 2]))
    for leader in (2, 1, 2):
        pen.image.apply(records.PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=leader))
    ops = write_what_was_missed(pen)
    assert [(type(op), op.path, op.version) for op in ops] == [(Set, paths.state("t", 0), n) for n in range(3)]
    pen.check()


def test_settings_that_were_missed_get_a_note_for_brokers_that_read_znodes() -> None:
    pen = Pen()
    for record in new_topic("t", topic_id(1), [1]):
        pen.image.apply(record)
    pen.image.apply(records.ConfigRecord(resource_type=2, resource_name="t", name="k", value="v"))
    told = [op for op in write_what_was_missed(pen) if op.path == paths.NEW_CONFIG_CHANGE]
    assert len(told) == 1
    assert b"topics/t" in told[0].data
