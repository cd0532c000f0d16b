"""Records of __consumer_offsets that stand for share groups (KIP-932), one class each.

``key`` is the type that leads a record's key in the log; a value is led by its version. What a share group has
delivered is in share_state.py.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class ShareGroupMemberMetadataKey(Message, key=10, versions=(0, 0), flexible=None):
    """Key of a member."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class ShareGroupMemberMetadataValue(Message, key=10, versions=(0, 0), flexible=0):
    """What a member said of itself."""

    rack_id: str | None = at(0, "string", null=0)
    client_id: str = at(0, "string")
    client_host: str = at(0, "string")
    subscribed_topic_names: list[str] = at(0, ["string"])


class ShareGroupMetadataKey(Message, key=11, versions=(0, 0), flexible=None):
    """Key of a group's epoch."""

    group_id: str = at(0, "string")


class ShareGroupMetadataValue(Message, key=11, versions=(0, 0), flexible=0):
    """A group's epoch, and a hash of the topics that its members subscribe to."""

    epoch: int = at(0, "int32")
    metadata_hash: int = at(0, "int64")


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions=(0, 0), flexible=None):
    """Key of the epoch of a group's target assignment."""

    group_id: str = at(0, "string")


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions=(0, 0), flexible=0):
    """The epoch of a group's target assignment, and when it was made."""

    assignment_epoch: int = at(0, "int32")
    assignment_timestamp: int = at(0, "int64", tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions=(0, 0), flexible=None):
    """Key of a member's part of the target assignment."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions=(0, 0), flexible=0):
    """A member's part of the target assignment."""

    class TopicPartition(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[int] = at(0, ["int32"])

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = at(0, ["TopicPartition"])


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions=(0, 0), flexible=None):
    """Key of what a member has."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions=(0, 0), flexible=0):
    """What a member has."""

    class TopicPartitions(Struct):
        topic_id: bytes = at(0, "uuid")
        partitions: list[int] = at(0, ["int32"])

    member_epoch: int = at(0, "int32")
    previous_member_epoch: int = at(0, "int32")
    state: int = at(0, "int8")
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = at(0, ["TopicPartitions"])


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions=(0, 0), flexible=None):
    """Key of what a group has set up in __share_group_state."""

    group_id: str = at(0, "string")


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions=(0, 0), flexible=0):
    """The partitions whose state in __share_group_state is being set up, is there, or is being deleted."""

    class TopicPartitionsInfo(Struct):
        topic_id: bytes = at(0, "uuid")
        topic_name: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    class TopicInfo(Struct):
        topic_id: bytes = at(0, "uuid")
        topic_name: str = at(0, "string")

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = at(
        0, ["TopicPartitionsInfo"]
    )
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = at(0, ["TopicPartitionsInfo"])
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = at(0, ["TopicInfo"])
