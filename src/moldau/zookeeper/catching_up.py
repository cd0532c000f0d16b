"""An image -> what makes the znodes say the same: for a controller of the quorum that begins to write to them. Pure.

Its predecessor may have died between a decision and its znodes, or ZooKeeper was away: whatever differs is written, and
nothing else. Settings that changed get their notes. Versions of states become partition epochs again (law Z4). What
brokers say of themselves, and feature levels, are left alone. Source: KIP-866.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from moldau.image import Image
from moldau.ports.zookeeper import Op
from moldau.wire.records import metadata as records
from moldau.zookeeper.known_znodes import KnownZnodes
from moldau.zookeeper.reading import SurveyResult
from moldau.zookeeper.writing import TransactionDraft

TOPIC = 2


def image_in_slices(reading: SurveyResult, step: int) -> Generator[None, None, Image]:
    """What was read, as an image; with a pause after every ``step`` records."""
    there = Image()
    for at in range(0, len(reading.records), step):
        there.apply_all(reading.records[at : at + step])
        yield
    return there


def catch_up(image: Image, there: Image, known_znodes: KnownZnodes, controller_epoch: int) -> list[Op]:
    """Operations that bring ``there``, the image of what was read, and what stands beside it, to what the image says;
    none when it says so already."""
    draft = TransactionDraft(there, known_znodes, controller_epoch, later=True)
    for record in _differences(image, there):
        draft.take(record)
    for id in sorted(image.topics):
        for _, partition in sorted(image.topics[id].partitions.items()):
            draft.write_state_again(partition)
    return draft.operations()


def _differences(image: Image, there: Image) -> Iterator[Any]:
    """Everything but partitions, as records in an order that makes sense."""
    for id in sorted(there.topics.keys() - image.topics.keys()):
        yield records.RemoveTopicRecord(topic_id=id)
    for id in sorted(image.topics.keys() - there.topics.keys()):
        yield records.TopicRecord(name=image.topics[id].name, topic_id=id)
    for resource in sorted(image.configs.keys() | there.configs.keys()):
        kind, name = resource
        if kind == TOPIC and name not in image.names:
            continue  # they go with their topic
        # A topic that is made anew under an old name inherits nothing.
        anew = kind == TOPIC and image.names[name] not in there.topics
        known = {} if anew else there.configs.get(resource, {})
        wanted = image.configs.get(resource, {})
        for key in sorted(known.keys() | wanted.keys()):
            if known.get(key) != wanted.get(key):
                yield records.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=wanted.get(key))
    yield from _kept(image, there)
    if image.next_producer_id > there.next_producer_id:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _kept(image: Image, there: Image) -> Iterator[Any]:
    """Quotas and credentials that are new, other, or gone."""
    for key, record in image.opaque.items():
        if there.opaque.get(key) != record:
            yield record
    for key, record in there.opaque.items():
        if key in image.opaque:
            continue
        if isinstance(record, records.ClientQuotaRecord):
            yield records.ClientQuotaRecord(entity=record.entity, key=record.key, value=record.value, remove=True)
        elif isinstance(record, records.UserScramCredentialRecord):
            yield records.RemoveUserScramCredentialRecord(name=record.name, mechanism=record.mechanism)
