"""Records of __share_group_state: what share groups have delivered (KIP-932). Moldau writes none, and shows Kafka's.

``key`` is the type that leads a record's key in the log; a value is led by its version.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class ShareSnapshotKey(Message, key=0, versions=(0, 0), flexible=None):
    """Key of what a group has delivered of a partition."""

    group_id: str = at(0, "string")
    topic_id: bytes = at(0, "uuid")
    partition: int = at(0, "int32")


class ShareSnapshotValue(Message, key=0, versions=(0, 0), flexible=0):
    """All that a group has delivered of a partition."""

    class StateBatch(Struct):
        first_offset: int = at(0, "int64")
        last_offset: int = at(0, "int64")
        delivery_state: int = at(0, "int8")
        delivery_count: int = at(0, "int16")

    snapshot_epoch: int = at(0, "int32")
    state_epoch: int = at(0, "int32")
    leader_epoch: int = at(0, "int32")
    start_offset: int = at(0, "int64")
    delivery_complete_count: int = at(0, "int32", tag=0, default=-1)
    create_timestamp: int = at(0, "int64")
    write_timestamp: int = at(0, "int64")
    state_batches: list[ShareSnapshotValue.StateBatch] = at(0, ["StateBatch"])


class ShareUpdateKey(Message, key=1, versions=(0, 0), flexible=None):
    """Key of what has changed since a snapshot."""

    group_id: str = at(0, "string")
    topic_id: bytes = at(0, "uuid")
    partition: int = at(0, "int32")


class ShareUpdateValue(Message, key=1, versions=(0, 0), flexible=0):
    """What has changed since a snapshot."""

    class StateBatch(Struct):
        first_offset: int = at(0, "int64")
        last_offset: int = at(0, "int64")
        delivery_state: int = at(0, "int8")
        delivery_count: int = at(0, "int16")

    snapshot_epoch: int = at(0, "int32")
    leader_epoch: int = at(0, "int32")
    start_offset: int = at(0, "int64")
    delivery_complete_count: int = at(0, "int32", tag=0, default=-1)
    state_batches: list[ShareUpdateValue.StateBatch] = at(0, ["StateBatch"])
