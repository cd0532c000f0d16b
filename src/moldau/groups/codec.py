"""Records of __consumer_offsets between values and Kafka's bytes; and the one look into a consumer's subscription.

Keys start with an int16 that names the kind: 0 and 1 an offset, 2 a group. Values start with their version. Values are
written in the versions that every Kafka since 2.3 reads (KIP-915): 3, or 1 for an offset with an expiry of its own.
Of groups that this coordinator does not serve (KIP-848 and later) it only notes that they are. Read next: records.py.
"""

from __future__ import annotations

from moldau.groups.records import (
    GroupRecord,
    OffsetRecord,
    OtherGroupRecord,
    Record,
    ReplayedRecord,
    StoredGroup,
    StoredMember,
    StoredOffset,
)
from moldau.wire.codec import Buffer, Malformed, decode_from
from moldau.wire.records.framing import pack_versioned, version_of
from moldau.wire.records.groups import (
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
OTHER_KEYS = range(3, 24)
MEMBER_KEYS = frozenset({5, 10, 19})
"""The key types that stand for a member, among those of consumer, share and streams groups."""
VALUE_VERSION = 3
EXPIRING_OFFSET_VERSION = 1


def pack(record: Record) -> tuple[bytes, bytes | None]:
    """A record's key and value as they stand in the log; a None value is a tombstone.

    Malformed when the format has no room for it: a text of more than 32,767 bytes, a number beyond its field.
    """
    match record:
        case OffsetRecord(group_id, topic, partition, stored):
            key = pack_versioned(OffsetCommitKey(group=group_id, topic=topic, partition=partition), OFFSET_KEYS[-1])
            return key, None if stored is None else _pack_offset(stored)
        case GroupRecord(group_id, group):
            key = pack_versioned(GroupMetadataKey(group=group_id), GROUP_KEY)
            return key, None if group is None else _pack_group(group)


def unpack(key: Buffer, value: Buffer | None) -> ReplayedRecord | None:
    """The record behind a key and value; None for kinds that are not known. Malformed when the bytes are broken."""
    kind = version_of(key)
    if kind in OFFSET_KEYS:
        name = decode_from(OffsetCommitKey, memoryview(key), 2, kind)[0]
        return OffsetRecord(name.group, name.topic, name.partition, None if value is None else _unpack_offset(value))
    if kind == GROUP_KEY:
        group_id = decode_from(GroupMetadataKey, memoryview(key), 2, kind)[0].group
        return GroupRecord(group_id, None if value is None else _unpack_group(value))
    if kind in OTHER_KEYS:  # all of them begin as the key of a group does
        group_id = decode_from(GroupMetadataKey, memoryview(key), 2, GROUP_KEY)[0].group
        return OtherGroupRecord(group_id, bytes(key), kind in MEMBER_KEYS, None if value is None else True)
    return None


def subscribed_topics(metadata: Buffer) -> tuple[str, ...] | None:
    """The topics in a consumer's subscription, or None when the bytes are not one.

    Read as version 0, which begins every version, whatever a newer client adds (KIP-429).
    """
    try:
        version_of(metadata)
        return tuple(decode_from(ConsumerProtocolSubscription, memoryview(metadata), 2, 0)[0].topics)
    except Malformed:
        return None


def _pack_offset(stored: StoredOffset) -> bytes:
    value = OffsetCommitValue(
        offset=stored.offset,
        leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        commit_timestamp=stored.commit_ms,
        expire_timestamp=-1 if stored.expire_ms is None else stored.expire_ms,
    )
    return pack_versioned(value, VALUE_VERSION if stored.expire_ms is None else EXPIRING_OFFSET_VERSION)


def _unpack_offset(value: Buffer) -> StoredOffset:
    stored = decode_from(OffsetCommitValue, memoryview(value), 2, _value_version(value, OffsetCommitValue))[0]
    expire_ms = None if stored.expire_timestamp < 0 else stored.expire_timestamp
    return StoredOffset(stored.offset, stored.leader_epoch, stored.metadata, stored.commit_timestamp, expire_ms)


def _pack_group(group: StoredGroup) -> bytes:
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.subscription,
            assignment=member.assignment,
        )
        for member in group.members
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.since_ms,
        members=members,
    )
    return pack_versioned(value, VALUE_VERSION)


def _unpack_group(value: Buffer) -> StoredGroup:
    group = decode_from(GroupMetadataValue, memoryview(value), 2, _value_version(value, GroupMetadataValue))[0]
    members = tuple(
        StoredMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )
        for member in group.members
    )
    return StoredGroup(
        group.protocol_type, group.generation, group.protocol, group.leader, group.current_state_timestamp, members
    )


def _value_version(value: Buffer, kind: type[OffsetCommitValue] | type[GroupMetadataValue]) -> int:
    version = version_of(value)
    if not kind.versions[0] <= version <= kind.versions[1]:
        raise Malformed(f"{kind.__name__} version {version} is not known")
    return version
