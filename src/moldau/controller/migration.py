"""The move from ZooKeeper to the quorum, as far as it is the controller's to decide (KIP-866).

A log that begins with PRE_MIGRATION is empty until everything that stood in ZooKeeper is adopted in one decision; until
then nothing else is decided, and no broker of the quorum's plane is let in, which would take its replicas for strays.
From MIGRATION on the log is the truth, until POST_MIGRATION says that there is no way back. When to ask, and what
ZooKeeper is told: ``broker/migration/``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from moldau.controller import asks, failures
from moldau.controller.facts import Decision, View
from moldau.controller.replies import Done, Refused
from moldau.image import Image
from moldau.terms import Code
from moldau.wire.records.metadata import PartitionRecord, ZkMigrationStateRecord


class MigrationState(IntEnum):
    """How far a cluster is; the numbers are Kafka's."""

    NONE = 0
    PRE_MIGRATION = 1
    MIGRATION = 2
    POST_MIGRATION = 3


EARLY = (asks.RegisterBroker, asks.RegisterController, asks.Heartbeat, asks.BrokersGone, asks.BrokerRefused, asks.Tick,
         asks.Idle, asks.AdoptCluster, asks.FinishMigration, asks.UnregisterBroker)  # fmt: skip
"""What is decided before anything was adopted."""


def too_early(image: Image, ask: Any) -> Refused | None:
    """Why an ask must wait: what it is about still stands in ZooKeeper, whose controller decides."""
    if image.zk_migration_state != MigrationState.PRE_MIGRATION or isinstance(ask, EARLY):
        return None
    return Refused(Code.NOT_CONTROLLER, "The migration from ZooKeeper has not begun: its controller decides.")


def wrong_plane(image: Image, ask: asks.RegisterBroker) -> Refused | None:
    """Why a broker of that plane cannot be taken in now."""
    state = image.zk_migration_state
    if ask.is_migrating_zk_broker and state not in (MigrationState.PRE_MIGRATION, MigrationState.MIGRATION):
        return Refused(Code.BROKER_ID_NOT_REGISTERED, "This cluster is not migrating from ZooKeeper.")
    if not ask.is_migrating_zk_broker and state == MigrationState.PRE_MIGRATION:
        return Refused(Code.BROKER_ID_NOT_REGISTERED, "Nothing was read from ZooKeeper yet: only its brokers register.")
    return None


def adopt_cluster(view: View, ask: asks.AdoptCluster) -> Decision:
    """Everything that stood in ZooKeeper, and the word that it did, in one batch; who is dead leads nothing in it."""
    if view.image.zk_migration_state != MigrationState.PRE_MIGRATION:
        return Decision([], Refused(Code.INVALID_REQUEST, "Nothing can be adopted from ZooKeeper any more."))
    named = {id for record in ask.records if isinstance(record, PartitionRecord) for id in record.replicas}
    strangers = sorted(named - view.image.brokers.keys())
    if strangers:
        return Decision([], Refused(Code.BROKER_ID_NOT_REGISTERED, f"Brokers {strangers} hold replicas, unregistered."))
    records = [*ask.records, ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION)]
    after = view.image.copy()
    after.apply_all(records)
    dead = frozenset(id for id in named if after.brokers[id].fenced)
    records += failures.settle(View(after, view.soft, view.facts), dead)
    return Decision(records, Done())


def finish_migration(view: View, ask: asks.FinishMigration) -> Decision:
    """No way back from here. Refused while a broker in ZooKeeper mode is registered: it would be told nothing any more.
    One that is fenced counts as well, for whoever asks this speaks for none of them, and they are all fenced soon."""
    if view.image.zk_migration_state == MigrationState.PRE_MIGRATION:
        why = (
            "Nothing was copied yet. Start the controllers with zookeeper.metadata.migration.enable=true, or stop them."
        )
        return Decision([], Refused(Code.INVALID_REQUEST, why))
    if view.image.zk_migration_state != MigrationState.MIGRATION:
        return Decision([], Refused(Code.INVALID_REQUEST, "No migration is under way."))
    left = sorted(broker.id for broker in view.image.brokers.values() if broker.is_migrating)
    if left:
        why = f"Brokers {left} are still in ZooKeeper mode. Start the controllers with the setting again, and let them"
        return Decision([], Refused(Code.INVALID_REQUEST, f"{why} cross; unregister those that are gone for good."))
    return Decision([ZkMigrationStateRecord(zk_migration_state=MigrationState.POST_MIGRATION)], Done())
