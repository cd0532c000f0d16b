"""Laws between an image and the znodes that it stands in, one function each: for a plane that is at rest.

A law takes the active controller's image and a survey of the znodes and raises AssertionError with what is wrong. The
laws of the plane itself (fencing, elections, registration) are tested with it. Z4 and Z7 of the invariants.
"""

from __future__ import annotations

from typing import Any

from moldau.image import Image, snapshot_records
from moldau.image.partition import UNASSIGNED
from moldau.wire.records import metadata as records
from moldau.zookeeper.reading import Survey, read


def z4_versions_are_partition_epochs(image: Image, survey: Survey) -> None:
    """Z4: a state's version is the partition's epoch, so that a write of an older one fails."""
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            found = survey.states.get((topic.name, number))
            assert found is not None, f"{topic.name}-{number} has no state znode"
            version = found[1].version
            assert version == partition.partition_epoch, f"{topic.name}-{number}: version {version}, {partition}"


def z7_znodes_rebuild_the_image(image: Image, survey: Survey) -> None:
    """Z7: what another controller would read now is what this one knows; nothing is left that nobody knows of."""
    reading = read(survey, lambda: b"")
    assert not reading.repairs, f"topics without an id: {reading.repairs}"
    assert not reading.bad, f"znodes that cannot be read: {reading.bad}"
    new_partitions = reading.known_znodes.new_partitions
    assert not new_partitions, f"partitions that never got a state: {new_partitions}"
    read_again = Image()
    for record in reading.records:
        read_again.apply(record)
    for ours, theirs in zip(_held(image), _held(read_again), strict=False):
        assert ours == theirs, f"this controller knows {ours}, the znodes say {theirs}"
    assert len(_held(image)) == len(_held(read_again)), (
        f"{len(_held(image))} records, {len(_held(read_again))} in znodes"
    )
    ghosts = {entity for entity in survey.configs if entity.startswith("topics/")} - _entities(image)
    assert not ghosts, f"settings of topics that are gone: {ghosts}"


LAWS = (z4_versions_are_partition_epochs, z7_znodes_rebuild_the_image)


def _entities(image: Image) -> set[str]:
    return {f"topics/{name}" for name in image.names}


def _held(image: Image) -> list[Any]:
    """An image's records, as far as ZooKeeper holds them."""
    kept: list[Any] = []
    for record in snapshot_records(image):
        match record:
            case records.RegisterControllerRecord():
                continue
            case records.RegisterBrokerRecord():
                if not record.fenced:
                    kept.append((record.broker_id, record.broker_epoch))
                continue
            case records.PartitionRecord():
                record.directories = [UNASSIGNED] * len(record.replicas)
                record.eligible_leader_replicas = record.last_known_elr = None
            case records.ProducerIdsRecord():
                record.broker_id = -1
        kept.append(record)
    return kept
