"""Records of __remote_log_metadata (KIP-405): Moldau writes none, and shows those of Kafka.

Values are framed as those of the metadata log are; ``key`` is the record type.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class RemoteLogSegmentMetadataRecord(Message, key=0, versions=(0, 0)):
    """A segment that is copied to remote storage."""

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = at(0, "TopicIdPartitionEntry")
        id: bytes = at(0, "uuid")

    class TopicIdPartitionEntry(Struct):
        name: str = at(0, "string")
        id: bytes = at(0, "uuid")
        partition: int = at(0, "int32")

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = at(0, "int32")
        offset: int = at(0, "int64")

    remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = at(0, "RemoteLogSegmentIdEntry")
    start_offset: int = at(0, "int64")
    end_offset: int = at(0, "int64")
    broker_id: int = at(0, "int32")
    max_timestamp_ms: int = at(0, "int64")
    event_timestamp_ms: int = at(0, "int64")
    segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = at(
        0, ["SegmentLeaderEpochEntry"]
    )
    segment_size_in_bytes: int = at(0, "int32")
    custom_metadata: bytes | None = at(0, "bytes", null=0, default=None)
    remote_log_segment_state: int = at(0, "int8")
    txn_index_empty: bool = at(0, "bool", tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions=(0, 0)):
    """A change of a segment's state."""

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = at(0, "TopicIdPartitionEntry")
        id: bytes = at(0, "uuid")

    class TopicIdPartitionEntry(Struct):
        name: str = at(0, "string")
        id: bytes = at(0, "uuid")
        partition: int = at(0, "int32")

    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = at(
        0, "RemoteLogSegmentIdEntry"
    )
    broker_id: int = at(0, "int32")
    event_timestamp_ms: int = at(0, "int64")
    custom_metadata: bytes | None = at(0, "bytes", null=0, default=None)
    remote_log_segment_state: int = at(0, "int8")


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions=(0, 0)):
    """The deletion of a partition."""

    class TopicIdPartitionEntry(Struct):
        name: str = at(0, "string")
        id: bytes = at(0, "uuid")
        partition: int = at(0, "int32")

    topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = at(0, "TopicIdPartitionEntry")
    broker_id: int = at(0, "int32")
    event_timestamp_ms: int = at(0, "int64")
    remote_partition_delete_state: int = at(0, "int8")


class RemoteLogSegmentMetadataSnapshotRecord(Message, key=3, versions=(0, 0)):
    """A segment, in a snapshot of a partition's remote log."""

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = at(0, "int32")
        offset: int = at(0, "int64")

    segment_id: bytes = at(0, "uuid")
    start_offset: int = at(0, "int64")
    end_offset: int = at(0, "int64")
    broker_id: int = at(0, "int32")
    max_timestamp_ms: int = at(0, "int64")
    event_timestamp_ms: int = at(0, "int64")
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = at(
        0, ["SegmentLeaderEpochEntry"]
    )
    segment_size_in_bytes: int = at(0, "int32")
    custom_metadata: bytes | None = at(0, "bytes", null=0, default=None)
    remote_log_segment_state: int = at(0, "int8")
    txn_index_empty: bool = at(0, "bool", tag=0)
