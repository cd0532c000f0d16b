"""Records of __remote_log_metadata as `kafka-dump-log.sh` shows them: in the words of the objects that Kafka makes of
them, which refuse what cannot be."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.admin.classic.dump_decoders import framed
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.model import uuid_text
from moldau.wire.batch import Record
from moldau.wire.records.remote_log import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from moldau.wire.schema import Message

SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
_KINDS: dict[int, type[Message]] = {
    kind.api_key: kind
    for kind in (
        RemoteLogSegmentMetadataRecord,
        RemoteLogSegmentMetadataUpdateRecord,
        RemotePartitionDeleteMetadataRecord,
        RemoteLogSegmentMetadataSnapshotRecord,
    )
}
_Epochs = Sequence[
    RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry
    | RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry
]
_Partition = (
    RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry
    | RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry
    | RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry
)


def remote_log(record: Record) -> tuple[str | None, str | None]:
    """A record of __remote_log_metadata."""
    try:
        if record.value is None:
            what = 'the return value of "org.apache.kafka.common.record.internal.Record.value()"'
            text = f'Cannot invoke "java.nio.ByteBuffer.remaining()" because {what} is null'
            raise JavaError("java.lang.NullPointerException", text)
        return None, _told(framed(record.value, _KINDS)[1])
    except JavaError as error:
        return None, f"Error at offset {record.offset}, skipping. {error.said}"


def _told(found: Message) -> str:
    match found:
        case RemoteLogSegmentMetadataRecord():
            return _segment(found)
        case RemoteLogSegmentMetadataUpdateRecord():
            state = _state(SEGMENT_STATES, found.remote_log_segment_state, "state can not be null")
            return (
                f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(found.remote_log_segment_id)},"
                f" customMetadata={_custom(found.custom_metadata)}, state={state},"
                f" eventTimestampMs={found.event_timestamp_ms}, brokerId={found.broker_id}}}"
            )
        case RemotePartitionDeleteMetadataRecord():
            state = _state(PARTITION_STATES, found.remote_partition_delete_state, None)
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(found.topic_id_partition)}, state={state},"
                f" eventTimestampMs={found.event_timestamp_ms}, brokerId={found.broker_id}}}"
            )
        case RemoteLogSegmentMetadataSnapshotRecord():
            state = _state(SEGMENT_STATES, found.remote_log_segment_state, "state can not be null")
            return (
                f"RemoteLogSegmentMetadataSnapshot{{segmentId={uuid_text(found.segment_id)},"
                f" startOffset={found.start_offset}, endOffset={found.end_offset},"
                f" maxTimestampMs={found.max_timestamp_ms}, segmentLeaderEpochs={_epochs(found.segment_leader_epochs)},"
                f" segmentSizeInBytes={found.segment_size_in_bytes}, customMetadata={_custom(found.custom_metadata)},"
                f" state={state}, txnIdxEmpty={_bool(found.txn_index_empty)}}}"
            )
    raise AssertionError(f"{type(found).__name__} is not shown")


def _segment(found: RemoteLogSegmentMetadataRecord) -> str:
    start, end = found.start_offset, found.end_offset
    if start < 0:
        text = f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative"
        raise illegal_argument(text)
    if end < start:
        text = (
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
        raise illegal_argument(text)
    epochs = _epochs(found.segment_leader_epochs)
    state = _state(SEGMENT_STATES, found.remote_log_segment_state, "state can not be null")
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(found.remote_log_segment_id)},"
        f" startOffset={start}, endOffset={end}, brokerId={found.broker_id}, maxTimestampMs={found.max_timestamp_ms},"
        f" eventTimestampMs={found.event_timestamp_ms}, segmentLeaderEpochs={epochs},"
        f" segmentSizeInBytes={found.segment_size_in_bytes}, customMetadata={_custom(found.custom_metadata)},"
        f" state={state}, txnIdxEmpty={_bool(found.txn_index_empty)}}}"
    )


def _state(states: Sequence[str], number: int, none: str | None) -> str:
    """A state's name; JavaError with the text ``none`` for one that there is not."""
    if not 0 <= number < len(states):
        raise JavaError("java.lang.NullPointerException", none)
    return states[number]


def _segment_id(
    entry: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry
    | RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry,
) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry.topic_id_partition)}, id={uuid_text(entry.id)}}}"


def _partition(entry: _Partition) -> str:
    return f"{uuid_text(entry.id)}:{entry.name}-{entry.partition}"


def _epochs(entries: _Epochs) -> str:
    """Epochs and where they begin, as a sorted map of Java's."""
    found = {entry.leader_epoch: entry.offset for entry in entries}
    if not found:
        raise illegal_argument("segmentLeaderEpochs can not be null or empty")
    return f"{{{', '.join(f'{epoch}={offset}' for epoch, offset in sorted(found.items()))}}}"


def _custom(metadata: bytes | None) -> str:
    return "Optional.empty" if metadata is None else f"Optional[CustomMetadata{{{len(metadata)} bytes}}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
