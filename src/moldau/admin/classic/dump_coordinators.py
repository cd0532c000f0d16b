"""Records that Kafka's coordinators write, in JSON: of __consumer_offsets, __transaction_state, __share_group_state.

A key is led by the type of its record, a value by its version. The formatters of the console consumer read them here,
too (``console_formatters.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from moldau.admin.classic.dump_structs import RUNTIME_ERROR, fields_version, read_message
from moldau.admin.classic.java import JavaError
from moldau.wire.batch import Record
from moldau.wire.records import consumer_groups, groups, share_groups, share_state, streams_groups, transactions
from moldau.wire.records.as_json import Plain, plain, text
from moldau.wire.schema import Message

Shown = tuple[str | None, str | None]
"""What is shown of a record's key and of its value."""
Kinds = dict[int, tuple[type[Message], type[Message]]]
"""The classes of keys and values by the type of a record."""

_CONSUMER_PROTOCOL = {
    "subscription": groups.ConsumerProtocolSubscription,
    "assignment": groups.ConsumerProtocolAssignment,
}


def offsets(record: Record) -> Shown:
    """A record of __consumer_offsets."""
    return _shown(record, _GROUP_RECORDS, _group_value)


def transaction_states(record: Record) -> Shown:
    """A record of __transaction_state."""
    return _shown(record, _TRANSACTION_RECORDS, plain)


def share_states(record: Record) -> Shown:
    """A record of __share_group_state."""
    return _shown(record, _SHARE_STATE_RECORDS, plain)


class CoordinatorRecord(NamedTuple):
    """A record of a known type; no value is one that was deleted."""

    kind: int
    key: Message
    value: tuple[int, Message] | None
    """Its version and what it says."""


def group_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """A record of __consumer_offsets, None when its type is not known; JavaError where Kafka's reader fails."""
    return _read(key, value, _GROUP_RECORDS)


def _read(key: bytes, value: bytes | None, known: Kinds) -> CoordinatorRecord | None:
    kind = _version(key, "key")
    if kind not in known:
        return None
    of_key, of_value = known[kind]
    found = _body(of_key, key, of_key.versions[1], "key", kind)
    if value is None:
        return CoordinatorRecord(kind, found, None)
    version = _version(value, "value")
    if not of_value.versions[0] <= version <= of_value.versions[1]:
        raise JavaError(RUNTIME_ERROR, f"Found an unknown record version {version} for {kind} type")
    return CoordinatorRecord(kind, found, (version, _body(of_value, value, version, "value", version)))


def _shown(record: Record, known: Kinds, as_plain: Callable[[Message, int], Plain]) -> Shown:
    if record.key is None:
        reason = "using the specified decoder (message had a missing key)"
        raise JavaError(RUNTIME_ERROR, f"Failed to decode message at offset {record.offset} {reason}")
    try:
        found = _read(record.key, record.value, known)
        if found is None:
            return f"Unknown record type {_version(record.key, 'key')} at offset {record.offset}, skipping.", None
        shown = text({"type": str(found.kind), "data": plain(found.key, found.key.versions[1])})
        if found.value is None:
            return shown, "<DELETE>"
        version, value = found.value
        return shown, text({"version": str(version), "data": as_plain(value, version)})
    except JavaError as error:
        return f"Error at offset {record.offset}, skipping. {error.said}", None


def _version(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise JavaError(RUNTIME_ERROR, f"Could not read version from {what}'s buffer.")
    return int.from_bytes(data[:2], signed=True)


def _body(kind: type[Message], data: bytes, version: int, what: str, named: int) -> Message:
    try:
        return read_message(kind, data[2:], version)[0]
    except JavaError as error:
        why = f"Could not read record with version {named} from {what}'s buffer due to: {error.said}."
        raise JavaError(RUNTIME_ERROR, why) from None


def _group_value(value: Message, version: int) -> Plain:
    """A value's fields; what consumers told each other through a group is told in their words."""
    shown = plain(value, version)
    if isinstance(value, groups.GroupMetadataValue) and value.protocol_type == "consumer":
        for member, row in zip(value.members, shown["members"], strict=True):
            for name, kind in _CONSUMER_PROTOCOL.items():
                data = bytes(getattr(member, name))
                try:
                    (of_protocol,) = struct.unpack_from(">h", data)
                    found, _ = read_message(kind, data[2:], of_protocol)
                    row[name] = plain(found, fields_version(kind, of_protocol))
                except (JavaError, struct.error):
                    continue  # the bytes stay
    return shown


def _by_type(messages: Iterable[object]) -> Kinds:
    """Keys and values that have a type of their own."""
    found = [kind for kind in messages if isinstance(kind, type) and issubclass(kind, Message) and kind.api_key >= 0]
    keys = {kind.api_key: kind for kind in found if kind.__name__.endswith("Key")}
    return {kind.api_key: (keys[kind.api_key], kind) for kind in found if kind.__name__.endswith("Value")}


_GROUP_RECORDS: Kinds = {
    0: (groups.OffsetCommitKey, groups.LegacyOffsetCommitValue),
    1: (groups.OffsetCommitKey, groups.OffsetCommitValue),
    2: (groups.GroupMetadataKey, groups.GroupMetadataValue),
    **_by_type(vars(consumer_groups).values()),
    **_by_type(vars(share_groups).values()),
    **_by_type(vars(streams_groups).values()),
}
_TRANSACTION_RECORDS = _by_type(vars(transactions).values())
_SHARE_STATE_RECORDS = _by_type(vars(share_state).values())
