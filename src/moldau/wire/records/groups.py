"""Records of __consumer_offsets, and the bytes that consumers exchange through the coordinator.

Keys and values are preceded by an int16 version in the log. Source: protocol guide; KIP-211, KIP-345, KIP-429.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class OffsetCommitKey(Message, versions=(0, 1), flexible=None):
    """Key of a committed offset."""

    group: str = at(0, "string", until=1)
    topic: str = at(0, "string", until=1)
    partition: int = at(0, "int32", until=1)


class LegacyOffsetCommitValue(Message, versions=(0, 0), flexible=None):
    """A committed offset behind a key of version 0, as Kafka's tools read it."""

    offset: int = at(0, "int64")
    metadata: str = at(0, "string")
    commit_timestamp: int = at(0, "int64")


class OffsetCommitValue(Message, versions=(0, 4), flexible=4):
    """A committed offset."""

    offset: int = at(0, "int64")
    leader_epoch: int = at(3, "int32", default=-1)
    metadata: str = at(0, "string")
    commit_timestamp: int = at(0, "int64")
    expire_timestamp: int = at(1, "int64", until=1, default=-1)
    topic_id: bytes = at(4, "uuid", tag=0)


class GroupMetadataKey(Message, versions=(2, 2), flexible=None):
    """Key of a group's state."""

    group: str = at(2, "string", until=2)


class GroupMetadataValue(Message, versions=(0, 4), flexible=4):
    """A classic group's state after a rebalance."""

    class MemberMetadata(Struct):
        member_id: str = at(0, "string")
        group_instance_id: str | None = at(3, "string", null=3, default=None)
        client_id: str = at(0, "string")
        client_host: str = at(0, "string")
        rebalance_timeout: int = at(1, "int32", default=-1)
        session_timeout: int = at(0, "int32")
        subscription: bytes = at(0, "bytes")
        assignment: bytes = at(0, "bytes")

    protocol_type: str = at(0, "string")
    generation: int = at(0, "int32")
    protocol: str | None = at(0, "string", null=0)
    leader: str | None = at(0, "string", null=0)
    current_state_timestamp: int = at(2, "int64", default=-1)
    members: list[GroupMetadataValue.MemberMetadata] = at(0, ["MemberMetadata"])


class ConsumerProtocolSubscription(Message, versions=(0, 3), flexible=None):
    """What a member of a consumer group subscribes to (client side)."""

    class TopicPartition(Struct):
        topic: str = at(1, "string")
        partitions: list[int] = at(1, ["int32"])

    topics: list[str] = at(0, ["string"])
    user_data: bytes | None = at(0, "bytes", null=0, default=None)
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = at(1, ["TopicPartition"])
    generation_id: int = at(2, "int32", default=-1)
    rack_id: str | None = at(3, "string", null=3, default=None)


class ConsumerProtocolAssignment(Message, versions=(0, 3), flexible=None):
    """What a member of a consumer group was given (client side)."""

    class TopicPartition(Struct):
        topic: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = at(0, ["TopicPartition"])
    user_data: bytes | None = at(0, "bytes", null=0, default=None)
