"""What a coordinator stores: offsets and group metadata, as values. The log's own bytes are made in codec.py.

A record whose value is None is a tombstone. Read next: codec.py (Kafka's formats), shard.py (``apply``).
"""

from __future__ import annotations

from moldau.terms.named import NamedTuple


class StoredOffset(NamedTuple):
    """A committed offset. ``leader_epoch`` -1 is unknown; ``expire_ms`` is set only by commits of versions 2 to 4."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """One stable generation, or (no members) an empty one. ``since_ms`` -1: written before KIP-211."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    since_ms: int
    members: tuple[StoredMember, ...]


class OffsetRecord(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: StoredOffset | None


class GroupRecord(NamedTuple):
    group_id: str
    value: StoredGroup | None


Record = OffsetRecord | GroupRecord
