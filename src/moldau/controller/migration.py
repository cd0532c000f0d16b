"""The move from ZooKeeper to the quorum, as far as it is the controller's to decide (KIP-866).

Everything that stood in ZooKeeper is adopted in parts, and MIGRATION is the last record. As long as the log says
PRE_MIGRATION, what it holds of that counts for nothing: nothing else is decided, no KRaft broker is let
in, which would take its replicas for strays, and whoever copies next begins by removing it. From MIGRATION on the log
is the truth, until POST_MIGRATION says that there is no way back. When to ask, and what ZooKeeper is told:
``broker/migration/``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from moldau.controller import failures, parts, requests
from moldau.controller.facts import Decision, DecisionContext
from moldau.controller.replies import Done, Refused
from moldau.image import Image
from moldau.model import Code
from moldau.model.value import replace
from moldau.wire.records.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from moldau.wire.schema import Message

TOPIC = 2
"""The kind of a topic's settings."""


class MigrationState(IntEnum):
    """How far a cluster is; the numbers are Kafka's."""

    NONE = 0
    PRE_MIGRATION = 1
    MIGRATION = 2
    POST_MIGRATION = 3


EARLY = (
    requests.RegisterBroker, requests.RegisterController, requests.BrokerHeartbeat, requests.BrokersGone,
    requests.BrokerRefused, requests.Tick, requests.Idle, requests.AdoptCluster, requests.RemainingPartitions,
    requests.FinishMigration, requests.UnregisterBroker,
)  # fmt: skip
"""What is decided before anything was adopted."""


def too_early(image: Image, request: object) -> Refused | None:
    """Why a request must wait: what it is about still stands in ZooKeeper, whose controller decides."""
    if image.zk_migration_state != MigrationState.PRE_MIGRATION or isinstance(request, EARLY):
        return None
    return Refused(Code.NOT_CONTROLLER, "The migration from ZooKeeper has not begun: its controller decides.")


def wrong_mode(image: Image, request: requests.RegisterBroker) -> Refused | None:
    """Why a broker in its mode, ZooKeeper or KRaft, cannot register now; None when it can."""
    state = image.zk_migration_state
    if request.is_migrating_zk_broker and state not in (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION):
        return Refused(Code.BROKER_ID_NOT_REGISTERED, "This cluster is not migrating from ZooKeeper.")
    if not request.is_migrating_zk_broker and state == MigrationState.PRE_MIGRATION:
        return Refused(Code.BROKER_ID_NOT_REGISTERED, "Nothing was read from ZooKeeper yet: only its brokers register.")
    return None


def adopt_cluster(context: DecisionContext, request: requests.AdoptCluster) -> Decision:
    """The next part of everything that stood in ZooKeeper; with the last, the word that all of it is here. Who is dead
    leads nothing by then."""
    image = context.image
    if image.zk_migration_state != MigrationState.PRE_MIGRATION:
        return Decision([], Refused(Code.INVALID_REQUEST, "Nothing can be adopted from ZooKeeper any more."))
    if not request.at:
        named = {id for record in request.records if isinstance(record, PartitionRecord) for id in record.replicas}
        unregistered = sorted(named - image.brokers.keys())
        if unregistered:
            why = f"Brokers {unregistered} hold replicas, unregistered."
            return Decision([], Refused(Code.BROKER_ID_NOT_REGISTERED, why))
        request = replace(request, records=(*_leftovers(image), *request.records))
    if request.at < len(request.records):
        end = request.at + context.settings.partitions_at_once
        return Decision(list(request.records[request.at : end]), None, then=replace(request, at=end))
    dead = frozenset(broker.id for broker in image.brokers.values() if broker.fenced)
    if dead and (first := parts.in_parts(context, request, dead)) is not None:
        return first
    told = ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION)
    return Decision([*failures.reconcile(context, dead), told], Done())


def _leftovers(image: Image) -> Iterator[Message]:
    """Records that remove what an earlier copy, which did not come to its end, has left here."""
    for id in image.topics:
        yield RemoveTopicRecord(topic_id=id)
    for (kind, name), settings in image.configs.items():
        for key in settings if kind != TOPIC else ():  # a topic's go with it
            yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=None)
    for record in image.opaque.values():
        if isinstance(record, ClientQuotaRecord):
            yield ClientQuotaRecord(entity=record.entity, key=record.key, value=record.value, remove=True)
        elif isinstance(record, UserScramCredentialRecord):
            yield RemoveUserScramCredentialRecord(name=record.name, mechanism=record.mechanism)


def finish_migration(context: DecisionContext, request: requests.FinishMigration) -> Decision:
    """No way back from here. Refused while a broker in ZooKeeper mode is registered: it would be told nothing any more.
    One that is fenced counts as well, for whoever asks this speaks for none of them, and they are all fenced soon."""
    if context.image.zk_migration_state == MigrationState.PRE_MIGRATION:
        why = (
            "Nothing was copied yet. Start the controllers with zookeeper.metadata.migration.enable=true, or stop them."
        )
        return Decision([], Refused(Code.INVALID_REQUEST, why))
    if context.image.zk_migration_state != MigrationState.MIGRATION:
        return Decision([], Refused(Code.INVALID_REQUEST, "No migration is under way."))
    left = sorted(broker.id for broker in context.image.brokers.values() if broker.is_migrating)
    if left:
        why = f"Brokers {left} are still in ZooKeeper mode. Start the controllers with the setting again, and let them"
        return Decision([], Refused(Code.INVALID_REQUEST, f"{why} cross; unregister those that are gone for good."))
    return Decision([ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION)], Done())
