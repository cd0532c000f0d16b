"""What a controller is asked to decide: one frozen value for each request. Answers: ``replies.py``; decisions:
``ledger.py``.

Fields are named as in Kafka's requests; the request files of the broker translate. Lists are tuples. Requests that
are a clock's or a socket's observation (Tick, BrokerRefused, RebalanceLeaders ...) come from the node itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import IntEnum

from moldau.image.partition import Key
from moldau.image.registration import Endpoint, FeatureRange
from moldau.model.value import field, value
from moldau.wire.records.metadata import ClientQuotaRecord, ConfigRecord
from moldau.wire.schema import Message

# ---- brokers and controllers


@value(kw_only=True)
class RegisterBroker:
    """A broker process presents itself. ``previous_is_gone``: the node knows that the earlier incarnation is dead, the
    one of ``gone_epoch``; -1: none was registered; None: whatever is registered.

    ``broker_epoch``: the number that the plane gave this registration; None: the offset of its record.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    log_dirs: tuple[bytes, ...] = ()
    previous_broker_epoch: int = -1
    is_migrating_zk_broker: bool = False
    previous_is_gone: bool = False
    gone_epoch: int | None = None
    broker_epoch: int | None = None

    def has_ended(self, broker_epoch: int) -> bool:
        """Whether the process that is registered under this epoch has certainly ended."""
        if self.previous_broker_epoch == broker_epoch:
            return True
        return self.previous_is_gone and self.gone_epoch in (None, broker_epoch)


@value(kw_only=True)
class RegisterController:
    """A controller process presents itself (KIP-919)."""

    controller_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    zk_migration_ready: bool = False


@value(kw_only=True)
class AdoptCluster:
    """Take over a whole cluster, as metadata records, from ZooKeeper, whose controller rules no more (KIP-866); in
    parts, the next from record ``at`` on."""

    records: tuple[Message, ...]
    at: int = 0


@value(kw_only=True)
class FinishMigration:
    """End the migration: ZooKeeper is told nothing any more."""


@value(kw_only=True)
class BrokerHeartbeat:
    """A broker says that it is alive, how far it has read, and what it wants."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] | None = None
    """None: nothing is said of them."""


@value(kw_only=True)
class BrokerRefused:
    """A broker's connection closed and its address refuses a new one: fast death."""

    broker_id: int
    broker_epoch: int


@value(kw_only=True)
class BrokersGone:
    """Brokers whose registrations, (id, epoch) each, have ended: one decision, so that none is elected that goes as
    well."""

    brokers: tuple[tuple[int, int], ...]


@value(kw_only=True)
class ReconcileOnFailover:
    """What a controller that has just read the whole cluster begins with: who of the loaded brokers is dead, and whose
    process died and is back."""

    dead: tuple[int, ...] = ()
    back: tuple[int, ...] = ()


@value(kw_only=True)
class RemainingPartitions:
    """Part of a decision that concerns many partitions: bring the next ``keys``, from number ``at`` on, into line, as
    if brokers ``leaving``, each (id, epoch), were gone; when it is through, decide ``then``. ``lost_tail``: as after an
    unclean shutdown (KIP-966). ``shutting_down``: they are there still, in a controlled shutdown."""

    keys: tuple[Key, ...]
    at: int = 0
    leaving: tuple[tuple[int, int], ...] = ()
    lost_tail: bool = False
    shutting_down: bool = False
    then: object = None

    @property
    def is_through(self) -> bool:
        return self.at >= len(self.keys)


@value
class Tick:
    """Time went by: fence brokers whose session ran out."""


@value
class Idle:
    """Nothing was written for a while: write a no-op, so that lag can be measured (KIP-835)."""


@value(kw_only=True)
class UnregisterBroker:
    """Forget a broker for good."""

    broker_id: int


# ---- topics


@value(kw_only=True)
class NewTopic:
    """A topic to create. ``assignments``: partition -> brokers, in place of numbers; -1 is "the default"."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@value(kw_only=True)
class CreateTopics:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@value(kw_only=True)
class DeleteTopics:
    """Topics by name or id; each item has exactly one of them. ``deleted``: ids of topics whose replicas are deleted,
    which in ZooKeeper mode comes first (TD-2)."""

    topics: tuple[str | bytes, ...]
    deleted: frozenset[bytes] = frozenset()


@value(kw_only=True)
class MorePartitions:
    """A topic's new number of partitions. ``assignments``: brokers of each added partition, in order."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@value(kw_only=True)
class CreatePartitions:
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


@value(kw_only=True)
class AdoptPartitions:
    """Partitions that a tool put down by hand where the plane keeps them: number -> replicas, of a topic known or new.

    ``topic_id``: None when the tool gave it none. ``configs``: of a new topic.
    """

    name: str
    topic_id: bytes | None
    partitions: tuple[tuple[int, tuple[int, ...]], ...]
    configs: tuple[tuple[str, str], ...] = ()


@value(kw_only=True)
class AdoptConfigs:
    """Settings and quotas that somebody wrote where the plane keeps them: they stand already, and were judged when they
    were read. Those of topics that are not there are nobody's."""

    records: tuple[ConfigRecord | ClientQuotaRecord, ...]


# ---- partitions


@value(kw_only=True)
class IsrChange:
    """What a leader requests for one partition. ``isr``: (broker id, broker epoch or -1 for "not told") (KIP-903)."""

    key: Key
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovery: int = 0


@value(kw_only=True)
class AlterPartition:
    """A leader asks for ISR changes. ``version``: of the request, on which some codes depend."""

    broker_id: int
    broker_epoch: int
    changes: tuple[IsrChange, ...]
    version: int = 3


class ElectionType(IntEnum):
    """As in the ElectLeaders request."""

    PREFERRED = 0
    UNCLEAN = 1


@value(kw_only=True)
class ElectLeaders:
    """``partitions``: (topic, partition); None asks for all that need it, and is told nothing of the others."""

    election_type: int
    partitions: tuple[tuple[str, int], ...] | None = None


@value(kw_only=True)
class RebalanceLeaders:
    """The periodic look at imbalance."""


@value(kw_only=True)
class ElectUncleanLeaders:
    """The periodic look at leaderless partitions of topics that allow an unclean election."""


@value(kw_only=True)
class RaiseLeaderEpochs:
    """Brokers have logs of later leader epochs than the ones they were told: partition -> the epoch that was told."""

    told: Mapping[Key, int]


@value(kw_only=True)
class Move:
    """A partition's new replicas, or None to cancel the move under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@value(kw_only=True)
class AlterPartitionReassignments:
    moves: tuple[Move, ...]
    allow_replication_factor_change: bool = True


@value(kw_only=True)
class ListPartitionReassignments:
    """``partitions``: (topic, partition); None asks for all."""

    partitions: Set[tuple[str, int]] | None = None


@value(kw_only=True)
class AssignReplicasToDirs:
    """A broker tells in which directories replicas lie (KIP-858): directory id -> partitions."""

    broker_id: int
    broker_epoch: int
    directories: Mapping[bytes, tuple[Key, ...]] = field(default_factory=dict)


# ---- settings


class Operation(IntEnum):
    """What an incremental change does to a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@value(kw_only=True)
class ConfigChange:
    """Changes of one resource: (key, operation, value)."""

    resource_type: int
    resource_name: str
    changes: tuple[tuple[str, int, str | None], ...]


@value(kw_only=True)
class IncrementalAlterConfigs:
    resources: tuple[ConfigChange, ...]
    validate_only: bool = False


@value(kw_only=True)
class AlterConfigs:
    """The old request: every key that is not named goes. Operations are all SET."""

    resources: tuple[ConfigChange, ...]
    validate_only: bool = False


@value(kw_only=True)
class QuotaChange:
    """Changes of one entity's quotas: its (type, name) pairs, None for the default; and (key, value), None takes it
    away."""

    entity: tuple[tuple[str, str | None], ...]
    quotas: tuple[tuple[str, float | None], ...]


@value(kw_only=True)
class AlterClientQuotas:
    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


@value(kw_only=True)
class FeatureUpdate:
    """A feature's new level. ``upgrade_type``: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""

    feature: str
    level: int
    upgrade_type: int = 1


@value(kw_only=True)
class UpdateFeatures:
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


@value(kw_only=True)
class AllocateProducerIds:
    """A broker needs a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int
