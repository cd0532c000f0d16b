"""Records of the metadata log, one class each.

Keys are the record types of KIP-631; ``moldau.image`` folds them, ``moldau.wire.records.framing`` puts them into bytes.
Source: KIP-631, KIP-746, KIP-778, KIP-841, KIP-858, KIP-966, KIP-1066.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class RegisterBrokerRecord(Message, key=0, versions=(0, 4)):
    """Metadata record 0."""

    class BrokerEndpoint(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")
        security_protocol: int = at(0, "int16")

    class BrokerFeature(Struct):
        name: str = at(0, "string")
        min_supported_version: int = at(0, "int16")
        max_supported_version: int = at(0, "int16")

    broker_id: int = at(0, "int32")
    is_migrating_zk_broker: bool = at(2, "bool")
    incarnation_id: bytes = at(0, "uuid")
    broker_epoch: int = at(0, "int64")
    end_points: list[RegisterBrokerRecord.BrokerEndpoint] = at(0, ["BrokerEndpoint"])
    features: list[RegisterBrokerRecord.BrokerFeature] = at(0, ["BrokerFeature"])
    rack: str | None = at(0, "string", null=0)
    fenced: bool = at(0, "bool", default=True)
    in_controlled_shutdown: bool = at(1, "bool")
    log_dirs: list[bytes] = at(3, ["uuid"], tag=0)
    cordoned_log_dirs: list[bytes] | None = at(4, ["uuid"], null=4, default=None, tag=1)


class UnregisterBrokerRecord(Message, key=1, versions=(0, 0)):
    """Metadata record 1."""

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64")


class TopicRecord(Message, key=2, versions=(0, 0)):
    """Metadata record 2."""

    name: str = at(0, "string")
    topic_id: bytes = at(0, "uuid")


class PartitionRecord(Message, key=3, versions=(0, 2)):
    """Metadata record 3."""

    partition_id: int = at(0, "int32", default=-1)
    topic_id: bytes = at(0, "uuid")
    replicas: list[int] = at(0, ["int32"])
    isr: list[int] = at(0, ["int32"])
    removing_replicas: list[int] = at(0, ["int32"])
    adding_replicas: list[int] = at(0, ["int32"])
    leader: int = at(0, "int32", default=-1)
    leader_recovery_state: int = at(0, "int8", tag=0)
    leader_epoch: int = at(0, "int32", default=-1)
    partition_epoch: int = at(0, "int32", default=-1)
    directories: list[bytes] = at(1, ["uuid"])
    eligible_leader_replicas: list[int] | None = at(2, ["int32"], null=2, default=None, tag=1)
    last_known_elr: list[int] | None = at(2, ["int32"], null=2, default=None, tag=2)


class ConfigRecord(Message, key=4, versions=(0, 0)):
    """Metadata record 4."""

    resource_type: int = at(0, "int8")
    resource_name: str = at(0, "string")
    name: str = at(0, "string")
    value: str | None = at(0, "string", null=0)


class PartitionChangeRecord(Message, key=5, versions=(0, 2)):
    """Metadata record 5."""

    partition_id: int = at(0, "int32", default=-1)
    topic_id: bytes = at(0, "uuid")
    isr: list[int] | None = at(0, ["int32"], null=0, default=None, tag=0)
    leader: int = at(0, "int32", default=-2, tag=1)
    replicas: list[int] | None = at(0, ["int32"], null=0, default=None, tag=2)
    removing_replicas: list[int] | None = at(0, ["int32"], null=0, default=None, tag=3)
    adding_replicas: list[int] | None = at(0, ["int32"], null=0, default=None, tag=4)
    leader_recovery_state: int = at(0, "int8", default=-1, tag=5)
    directories: list[bytes] | None = at(1, ["uuid"], null=1, default=None, tag=8)
    eligible_leader_replicas: list[int] | None = at(2, ["int32"], null=2, default=None, tag=6)
    last_known_elr: list[int] | None = at(2, ["int32"], null=2, default=None, tag=7)


class FenceBrokerRecord(Message, key=7, versions=(0, 0)):
    """Metadata record 7."""

    id: int = at(0, "int32")
    epoch: int = at(0, "int64")


class UnfenceBrokerRecord(Message, key=8, versions=(0, 0)):
    """Metadata record 8."""

    id: int = at(0, "int32")
    epoch: int = at(0, "int64")


class RemoveTopicRecord(Message, key=9, versions=(0, 0)):
    """Metadata record 9."""

    topic_id: bytes = at(0, "uuid")


class DelegationTokenRecord(Message, key=10, versions=(0, 0)):
    """Metadata record 10."""

    owner: str = at(0, "string")
    requester: str = at(0, "string")
    renewers: list[str] = at(0, ["string"])
    issue_timestamp: int = at(0, "int64")
    max_timestamp: int = at(0, "int64")
    expiration_timestamp: int = at(0, "int64")
    token_id: str = at(0, "string")


class UserScramCredentialRecord(Message, key=11, versions=(0, 0)):
    """Metadata record 11."""

    name: str = at(0, "string")
    mechanism: int = at(0, "int8")
    salt: bytes = at(0, "bytes")
    stored_key: bytes = at(0, "bytes")
    server_key: bytes = at(0, "bytes")
    iterations: int = at(0, "int32")


class FeatureLevelRecord(Message, key=12, versions=(0, 0)):
    """Metadata record 12."""

    name: str = at(0, "string")
    feature_level: int = at(0, "int16")


class ClientQuotaRecord(Message, key=14, versions=(0, 0)):
    """Metadata record 14."""

    class EntityData(Struct):
        entity_type: str = at(0, "string")
        entity_name: str | None = at(0, "string", null=0)

    entity: list[ClientQuotaRecord.EntityData] = at(0, ["EntityData"])
    key: str = at(0, "string")
    value: float = at(0, "float64")
    remove: bool = at(0, "bool")


class ProducerIdsRecord(Message, key=15, versions=(0, 0)):
    """Metadata record 15."""

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64", default=-1)
    next_producer_id: int = at(0, "int64")


class BrokerRegistrationChangeRecord(Message, key=17, versions=(0, 3)):
    """Metadata record 17."""

    broker_id: int = at(0, "int32")
    broker_epoch: int = at(0, "int64")
    fenced: int = at(0, "int8", tag=0)
    in_controlled_shutdown: int = at(1, "int8", tag=1)
    log_dirs: list[bytes] = at(2, ["uuid"], tag=2)
    cordoned_log_dirs: list[bytes] | None = at(3, ["uuid"], null=3, default=None, tag=3)


class AccessControlEntryRecord(Message, key=18, versions=(0, 0)):
    """Metadata record 18."""

    id: bytes = at(0, "uuid")
    resource_type: int = at(0, "int8")
    resource_name: str = at(0, "string")
    pattern_type: int = at(0, "int8")
    principal: str = at(0, "string")
    host: str = at(0, "string")
    operation: int = at(0, "int8")
    permission_type: int = at(0, "int8")


class RemoveAccessControlEntryRecord(Message, key=19, versions=(0, 0)):
    """Metadata record 19."""

    id: bytes = at(0, "uuid")


class NoOpRecord(Message, key=20, versions=(0, 0)):
    """Metadata record 20."""


class ZkMigrationStateRecord(Message, key=21, versions=(0, 0)):
    """Metadata record 21."""

    zk_migration_state: int = at(0, "int8")


class RemoveUserScramCredentialRecord(Message, key=22, versions=(0, 0)):
    """Metadata record 22."""

    name: str = at(0, "string")
    mechanism: int = at(0, "int8")


class BeginTransactionRecord(Message, key=23, versions=(0, 0)):
    """Metadata record 23."""

    name: str | None = at(0, "string", null=0, default=None, tag=0)


class EndTransactionRecord(Message, key=24, versions=(0, 0)):
    """Metadata record 24."""


class AbortTransactionRecord(Message, key=25, versions=(0, 0)):
    """Metadata record 25."""

    reason: str | None = at(0, "string", null=0, default=None, tag=0)


class RemoveDelegationTokenRecord(Message, key=26, versions=(0, 0)):
    """Metadata record 26."""

    token_id: str = at(0, "string")


class RegisterControllerRecord(Message, key=27, versions=(0, 0)):
    """Metadata record 27."""

    class ControllerEndpoint(Struct):
        name: str = at(0, "string")
        host: str = at(0, "string")
        port: int = at(0, "uint16")
        security_protocol: int = at(0, "int16")

    class ControllerFeature(Struct):
        name: str = at(0, "string")
        min_supported_version: int = at(0, "int16")
        max_supported_version: int = at(0, "int16")

    controller_id: int = at(0, "int32")
    incarnation_id: bytes = at(0, "uuid")
    zk_migration_ready: bool = at(0, "bool")
    end_points: list[RegisterControllerRecord.ControllerEndpoint] = at(0, ["ControllerEndpoint"])
    features: list[RegisterControllerRecord.ControllerFeature] = at(0, ["ControllerFeature"])


class ClearElrRecord(Message, key=28, versions=(0, 0)):
    """Metadata record 28: a topic, or every topic when the name is empty, has no eligible leader replicas any more."""

    topic_name: str = at(0, "string")
