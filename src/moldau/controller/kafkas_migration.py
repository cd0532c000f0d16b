"""Migrations from ZooKeeper that Apache Kafka's controllers began: Moldau takes no part in one, and ends none.

Nobody has tried to go on with one, and a controller of Moldau that was started without the setting would end it. Whose
a migration is shows by levels of metadata.version: Kafka 4 migrates nothing, and Moldau begins at a level of Kafka 4.
So controllers that take part and support no such level, and a log that is at none, are Kafka 3's. Asked by
``broker/kraft/start_checks.py`` (of the own log) and ``broker/controller/kafkas_controllers.py`` (of others).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from moldau.controller.feature_support import UnsupportedLevel
from moldau.controller.features import ELR_LEVEL
from moldau.controller.migration import MigrationState
from moldau.image.snapshot import METADATA_VERSION

KAFKA_4 = ELR_LEVEL
"""The lowest level of metadata.version that only releases of Kafka 4 have."""
UNFINISHED = (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION)
END_IT = "end it, or go back, with Kafka's own nodes first; this node has written nothing"


class KafkasMigration(UnsupportedLevel):
    """The cluster is on a way from ZooKeeper that Kafka's own nodes have to end: the node ends, and says so."""


def of_log(level: int, state: int) -> KafkasMigration | None:
    """Why nothing may be decided on a metadata log at this level, whose last word on migrations is ``state``."""
    if state not in UNFINISHED or level >= KAFKA_4:
        return None
    return KafkasMigration(
        f"the metadata log is that of a migration from ZooKeeper which controllers of Apache Kafka began and nobody has"
        f" ended ({MigrationState(state).name}, metadata.version {level}): {END_IT}"
    )


def demand_no_migration_of_kafkas(levels: Mapping[str, int], state: int) -> None:
    """KafkasMigration when a controller would have to lead such a migration."""
    why = of_log(levels.get(METADATA_VERSION, KAFKA_4), state)
    if why is not None:
        raise why


def of_controllers(addresses: Collection[str]) -> KafkasMigration:
    """Why a node does not start beside these controllers."""
    return KafkasMigration(
        f"the controllers at {', '.join(sorted(addresses))} are Apache Kafka's, and take a cluster from ZooKeeper to"
        f" KRaft: {END_IT}"
    )
