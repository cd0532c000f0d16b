"""What `kafka-dump-log.sh` prints of a record's key and value: as text, or as records of Kafka's own topics in JSON."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from math import isfinite

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import java_decimal
from moldau.clusterdata.metadata import CONTROL, kind_of
from moldau.wire.batch import ControlType, Record, control_type
from moldau.wire.codec import Malformed, uvarint
from moldau.wire.records import groups
from moldau.wire.records.as_json import Plain, plain, text
from moldau.wire.records.framing import FRAME_VERSION, unpack_metadata
from moldau.wire.schema import Message

Decoder = Callable[[Record], tuple[str | None, str | None]]

_CONSUMER_PROTOCOL = {
    "subscription": groups.ConsumerProtocolSubscription,
    "assignment": groups.ConsumerProtocolAssignment,
}


def strings(record: Record) -> tuple[str | None, str | None]:
    """Key and value as text."""
    return _string(record.key), _string(record.value)


def by_classes(key: str, value: str) -> Decoder:
    """Key and value as these decoders of Kafka's show them; JavaError for another class."""
    of_key, of_value = _class(key), _class(value)
    return lambda record: (
        None if record.key is None else of_key(record.key),
        None if record.value is None else of_value(record.value),
    )


def _class(name: str) -> Callable[[bytes], str | None]:
    if name == f"{_DECODERS}DefaultDecoder":
        raise JavaError("java.lang.RuntimeException", f"{name} shows addresses of Java's, which Moldau does not have")
    if name not in CLASSES:
        raise JavaError(
            "java.lang.RuntimeException",
            "Failed to load decoder class",
            JavaError("java.lang.ClassNotFoundException", name),
        )
    return CLASSES[name]


def _whole(code: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        try:
            return str(struct.unpack_from(f">{code}", data)[0])
        except struct.error:
            raise JavaError("java.nio.BufferUnderflowException", None) from None

    return read


def _string(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


_DECODERS = "org.apache.kafka.tools.api."
CLASSES: dict[str, Callable[[bytes], str | None]] = {
    f"{_DECODERS}StringDecoder": _string,
    f"{_DECODERS}IntegerDecoder": _whole("i"),
    f"{_DECODERS}LongDecoder": _whole("q"),
}


def metadata(record: Record) -> tuple[str | None, str | None]:
    """A record of the metadata log."""
    value = record.value or b""
    if (why := _no_frame(value)) is not None:
        return None, f"Error at {record.offset}, skipping. {why}"
    try:
        found = unpack_metadata(value)
        _, at = uvarint(memoryview(value), 0)
        _, at = uvarint(memoryview(value), at)
        version, _ = uvarint(memoryview(value), at)
        data = plain(found, version)
        shown = text({"type": kind_of(found), "version": version, "data": data})
        number = data.get("value")
        return None, _with_java_number(shown, number) if isinstance(number, float) else shown
    except (Malformed, IndexError) as error:
        return None, f"Error at {record.offset}, skipping. {error}"


def _with_java_number(shown: str, number: float) -> str:
    """The text of a record with its only decimal number, ``value``, as Java writes it."""
    java = java_decimal(number)
    return re.sub(
        r'(?<!\\)"value":[^,}]+', f'"value":{java if isfinite(number) else f"{chr(34)}{java}{chr(34)}"}', shown
    )


def _no_frame(value: bytes) -> str | None:
    """What Kafka says of a value that does not begin as a metadata record does."""
    try:
        frame, _ = uvarint(memoryview(value), 0)
    except (IndexError, Malformed):
        return "Error while reading frame version"
    if frame == FRAME_VERSION:
        return None
    how = f"(only frame version {FRAME_VERSION} is supported)"
    return f"Could not deserialize metadata record due to unknown frame version {frame}{how}"


def offsets(record: Record) -> tuple[str | None, str | None]:
    """A record of __consumer_offsets."""
    if record.key is None:
        reason = "using offset topic decoder (message had a missing key)"
        raise JavaError("java.lang.RuntimeException", f"Failed to decode message at offset {record.offset} {reason}")
    try:
        (version,) = struct.unpack_from(">h", record.key)
        kinds = _GROUP_RECORDS.get(version)
        if kinds is None:
            return f"Unknown record type {version} at offset {record.offset}, skipping.", None
        key = kinds[0].decode(memoryview(record.key)[2:], version)
        shown = text({"type": str(version), "data": plain(key, version)})
        if record.value is None:
            return shown, "<DELETE>"
        (of_value,) = struct.unpack_from(">h", record.value)
        value = kinds[1].decode(memoryview(record.value)[2:], of_value)
        return shown, text({"version": str(of_value), "data": _group_value(value, of_value)})
    except (Malformed, struct.error) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


_GROUP_RECORDS: dict[int, tuple[type[Message], type[Message]]] = {
    0: (groups.OffsetCommitKey, groups.OffsetCommitValue),
    1: (groups.OffsetCommitKey, groups.OffsetCommitValue),
    2: (groups.GroupMetadataKey, groups.GroupMetadataValue),
}


def _group_value(value: Message, version: int) -> Plain:
    """A value's fields; what consumers told each other through a group is told in their words."""
    shown = plain(value, version)
    if isinstance(value, groups.GroupMetadataValue) and value.protocol_type == "consumer":
        for member, row in zip(value.members, shown["members"], strict=True):
            for name, kind in _CONSUMER_PROTOCOL.items():
                data = bytes(getattr(member, name))
                try:
                    (of_protocol,) = struct.unpack_from(">h", data)
                    row[name] = plain(kind.decode(memoryview(data)[2:], of_protocol), of_protocol)
                except (Malformed, struct.error, KeyError, IndexError):
                    continue  # the bytes stay
    return shown


def control_record(record: Record) -> str:
    """What a control record says, after a blank."""
    kind = control_type(record.key)
    value = record.value or b""
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        _, epoch = struct.unpack_from(">hi", value)
        return f" endTxnMarker: {ControlType(kind).name} coordinatorEpoch: {epoch}"
    known = CONTROL.get(kind)
    if known is None:
        return f" controlType: UNKNOWN({kind})"
    name, message = known
    (version,) = struct.unpack_from(">h", value)
    version = min(max(version, message.versions[0]), message.versions[1])
    return f" {name} {text(plain(message.decode(memoryview(value), version), version))}"
