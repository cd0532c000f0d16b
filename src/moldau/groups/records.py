"""What a coordinator stores: offsets and group metadata, as values. The log's own bytes are made in codec.py.

A record whose value is None is a tombstone. Read next: codec.py (Kafka's formats), shard.py (``apply``).
"""

from __future__ import annotations

from moldau.model.named import NamedTuple


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

    def flaw(self) -> str | None:
        """Why no group can be like this; None when one can. What others wrote is not always what a group wrote."""
        if not self.members:
            return None
        if not self.protocol_type or self.protocol_name is None:
            return f"{len(self.members)} members and no protocol that they share"
        ids = [member.member_id for member in self.members]
        instances = [member.instance_id for member in self.members if member.instance_id is not None]
        for what, names in (("member", ids), ("instance", instances)):
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                return f"{what} {twice!r} stands in it twice"
        return "a member without an id" if "" in ids else None


class OffsetRecord(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: StoredOffset | None


class GroupRecord(NamedTuple):
    group_id: str
    value: StoredGroup | None


class OtherGroupRecord(NamedTuple):
    """Something of a group of another protocol, which only Apache Kafka coordinates (KIP-848, KIP-932, KIP-1071): it is
    there (True) or gone (None)."""

    group_id: str
    key: bytes
    of_member: bool
    value: bool | None


Record = OffsetRecord | GroupRecord
ReplayedRecord = Record | OtherGroupRecord
"""What a log may hold; only a ``Record`` is ever written."""
