"""Records of __consumer_offsets that stand for groups of the consumer protocol (KIP-848), one class each.

``key`` is the type that leads a record's key in the log; a value is led by its version. Source: KIP-848, KIP-1101.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class ConsumerGroupMetadataKey(Message, key=3, versions=(0, 0), flexible=None):
    """Key of a group's epoch."""

    group_id: str = at(0, "string")


class ConsumerGroupMetadataValue(Message, key=3, versions=(0, 0), flexible=0):
    """A group's epoch, and a hash of the topics that its members subscribe to."""

    epoch: int = at(0, "int32")
    metadata_hash: int = at(0, "int64", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions=(0, 0), flexible=None):
    """Key of what a group knows of its topics, which Kafka 4.1 and later write no more."""

    group_id: str = at(0, "string")


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions=(0, 0), flexible=0):
    """What a group knows of its topics."""

    class TopicMetadata(Struct):
        topic_id: bytes = at(0, "uuid")
        topic_name: str = at(0, "string")
        num_partitions: int = at(0, "int32")
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = at(0, ["PartitionMetadata"])

    class PartitionMetadata(Struct):
        partition: int = at(0, "int32")
        racks: list[str] = at(0, ["string"])

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = at(0, ["TopicMetadata"])


class ConsumerGroupMemberMetadataKey(Message, key=5, versions=(0, 0), flexible=None):
    """Key of a member."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class ConsumerGroupMemberMetadataValue(Message, key=5, versions=(0, 0), flexible=0):
    """What a member said of itself; ``classic_member_metadata`` of one that speaks the classic protocol."""

    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int = at(0, "int32")
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = at(0, ["ClassicProtocol"])

    class ClassicProtocol(Struct):
        name: str = at(0, "string")
        metadata: bytes = at(0, "bytes")

    instance_id: str | None = at(0, "string", null=0)
    rack_id: str | None = at(0, "string", null=0)
    client_id: str = at(0, "string")
    client_host: str = at(0, "string")
    subscribed_topic_names: list[str] = at(0, ["string"])
    subscribed_topic_regex: str | None = at(0, "string", null=0)
    rebalance_timeout_ms: int = at(0, "int32", default=-1)
    server_assignor: str | None = at(0, "string", null=0)
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = at(
        0, "ClassicMemberMetadata", null=0, tag=0, default="ClassicMemberMetadata"
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions=(0, 0), flexible=None):
    """Key of the epoch of a group's target assignment."""

    group_id: str = at(0, "string")


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions=(0, 0), flexible=0):
    """The epoch of a group's target assignment, and when it was made."""

    assignment_epoch: int = at(0, "int32")
    assignment_timestamp: int = at(0, "int64", tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions=(0, 0), flexible=None):
    """Key of a member's part of the target assignment."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions=(0, 0), flexible=0):
    """A member's part of the target assignment."""

    class TopicPartition(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[int] = at(0, ["int32"])

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = at(0, ["TopicPartition"])


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions=(0, 0), flexible=None):
    """Key of what a member has."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions=(0, 0), flexible=0):
    """What a member has, and what it has yet to give back."""

    class TopicPartitions(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[int] = at(0, ["int32"])
        assignment_epochs: list[int] | None = at(0, ["int32"], null=0, tag=0)

    member_epoch: int = at(0, "int32")
    previous_member_epoch: int = at(0, "int32")
    state: int = at(0, "int8")
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = at(0, ["TopicPartitions"])
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = at(
        0, ["TopicPartitions"]
    )


class ConsumerGroupRegularExpressionKey(Message, key=16, versions=(0, 0), flexible=None):
    """Key of a regular expression that members subscribe to."""

    group_id: str = at(0, "string")
    regular_expression: str = at(0, "string")


class ConsumerGroupRegularExpressionValue(Message, key=16, versions=(0, 0), flexible=0):
    """The topics that a regular expression stands for."""

    topics: list[str] = at(0, ["string"])
    version: int = at(0, "int64")
    timestamp: int = at(0, "int64")
