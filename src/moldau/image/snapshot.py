"""An image as records and back, and its hash: two nodes at one offset must have the same (law C3).

``snapshot_records`` is a total order without chance: equal images give equal records. Framing into a checkpoint file is
KRaft mode's. Registration offsets are not part of the state: a snapshot's reader takes the snapshot's own end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.image.image import Image
from moldau.image.partition import to_record
from moldau.image.registration import broker_record, controller_record
from moldau.wire.records import metadata as records
from moldau.wire.records.framing import pack_metadata

METADATA_VERSION = "metadata.version"


def snapshot_records(image: Image) -> Iterator[Any]:
    """Records that rebuild ``image`` from nothing; metadata.version first, as readers expect (KIP-778)."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield records.FeatureLevelRecord(name=name, feature_level=image.features[name])
    if image.zk_migration_state:
        yield records.ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    for id in sorted(image.brokers):
        yield broker_record(image.brokers[id])
    for id in sorted(image.controllers):
        yield controller_record(image.controllers[id])
    for name in sorted(image.names):
        topic = image.topics[image.names[name]]
        yield records.TopicRecord(name=name, topic_id=topic.id)
        for number in sorted(topic.partitions):
            yield to_record(topic.partitions[number])
    for kind, name in sorted(image.configs):
        settings = image.configs[kind, name]
        for key in sorted(settings):
            yield records.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=settings[key])
    if image.next_producer_id:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for identity in sorted(image.opaque, key=repr):
        yield image.opaque[identity]


def image_from(snapshot: Iterator[Any] | list[Any], offset: int = -1) -> Image:
    """The image that a snapshot's records rebuild; ``offset`` is the last offset that the snapshot covers."""
    image = Image()
    for record in snapshot:
        image.apply(record)
    image.offset = offset
    for broker_id in image.registered_at:
        image.registered_at[broker_id] = offset
    return image


def image_hash(image: Image) -> bytes:
    """SHA-256 over the snapshot's bytes."""
    from hashlib import sha256  # OpenSSL's, which a start has no use for

    digest = sha256()
    for record in snapshot_records(image):
        digest.update(pack_metadata(record))
    return digest.digest()
