"""Records of __consumer_offsets that stand for groups of Kafka Streams (KIP-1071), one class each.

``key`` is the type that leads a record's key in the log; a value is led by its version.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class StreamsGroupMetadataKey(Message, key=17, versions=(0, 0), flexible=None):
    """Key of a group's epoch."""

    group_id: str = at(0, "string")


class StreamsGroupMetadataValue(Message, key=17, versions=(0, 0), flexible=0):
    """A group's epoch, and what its last assignment was made of."""

    class LastAssignmentConfig(Struct):
        key: str = at(0, "string")
        value: str = at(0, "string")

    epoch: int = at(0, "int32")
    metadata_hash: int = at(0, "int64")
    validated_topology_epoch: int = at(0, "int32", tag=0, default=-1)
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = at(
        0, ["LastAssignmentConfig"], null=0, tag=1
    )


class StreamsGroupMemberMetadataKey(Message, key=19, versions=(0, 0), flexible=None):
    """Key of a member."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class StreamsGroupMemberMetadataValue(Message, key=19, versions=(0, 0), flexible=0):
    """What a member said of itself."""

    class Endpoint(Struct):
        host: str = at(0, "string")
        port: int = at(0, "uint16")

    class KeyValue(Struct):
        key: str = at(0, "string")
        value: str = at(0, "string")

    instance_id: str | None = at(0, "string", null=0)
    rack_id: str | None = at(0, "string", null=0)
    client_id: str = at(0, "string")
    client_host: str = at(0, "string")
    rebalance_timeout_ms: int = at(0, "int32", default=-1)
    topology_epoch: int = at(0, "int32")
    process_id: str = at(0, "string")
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = at(0, "Endpoint", null=0, default=None)
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = at(0, ["KeyValue"])


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, versions=(0, 0), flexible=None):
    """Key of the epoch of a group's target assignment."""

    group_id: str = at(0, "string")


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions=(0, 0), flexible=0):
    """The epoch of a group's target assignment, and when it was made."""

    assignment_epoch: int = at(0, "int32")
    assignment_timestamp: int = at(0, "int64", tag=0)


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions=(0, 0), flexible=None):
    """Key of a member's part of the target assignment."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions=(0, 0), flexible=0):
    """A member's part of the target assignment."""

    class TaskIds(Struct):
        subtopology_id: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = at(0, ["TaskIds"])
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = at(0, ["TaskIds"])
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = at(0, ["TaskIds"])


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions=(0, 0), flexible=None):
    """Key of what a member has."""

    group_id: str = at(0, "string")
    member_id: str = at(0, "string")


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions=(0, 0), flexible=0):
    """What a member has, and what it has yet to give back."""

    class TaskIds(Struct):
        subtopology_id: str = at(0, "string")
        partitions: list[int] = at(0, ["int32"])
        assignment_epochs: list[int] | None = at(0, ["int32"], null=0, tag=0)

    member_epoch: int = at(0, "int32")
    previous_member_epoch: int = at(0, "int32")
    state: int = at(0, "int8")
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = at(0, ["TaskIds"])
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = at(0, ["TaskIds"])
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = at(0, ["TaskIds"])
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = at(0, ["TaskIds"])
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = at(0, ["TaskIds"])
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = at(0, ["TaskIds"])


class StreamsGroupTopologyKey(Message, key=23, versions=(0, 0), flexible=None):
    """Key of a group's topology."""

    group_id: str = at(0, "string")


class StreamsGroupTopologyValue(Message, key=23, versions=(0, 0), flexible=0):
    """A group's topology: the topics that its parts read, write and keep."""

    class Subtopology(Struct):
        subtopology_id: str = at(0, "string")
        source_topics: list[str] = at(0, ["string"])
        source_topic_regex: list[str] = at(0, ["string"])
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = at(0, ["TopicInfo"])
        repartition_sink_topics: list[str] = at(0, ["string"])
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = at(0, ["TopicInfo"])
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = at(0, ["CopartitionGroup"])

    class TopicInfo(Struct):
        name: str = at(0, "string")
        partitions: int = at(0, "int32")
        replication_factor: int = at(0, "int16")
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = at(0, ["TopicConfig"])

    class TopicConfig(Struct):
        key: str = at(0, "string")
        value: str = at(0, "string")

    class CopartitionGroup(Struct):
        source_topics: list[int] = at(0, ["int16"])
        source_topic_regex: list[int] = at(0, ["int16"])
        repartition_source_topics: list[int] = at(0, ["int16"])

    epoch: int = at(0, "int32")
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = at(0, ["Subtopology"])
