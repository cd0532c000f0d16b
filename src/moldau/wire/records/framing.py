"""Metadata records as values of log records, and group records as keys and values.

A metadata value is: frame version (1), record type, record version (three unsigned varints), then the message
(KIP-631). A group key or value is an int16 version, then the message.
"""

from __future__ import annotations

import struct

from moldau.wire.codec import Buffer, Malformed, decode_from, encode, put_uvarint, uvarint
from moldau.wire.records import metadata
from moldau.wire.schema import Message

FRAME_VERSION = 1

METADATA: dict[int, type[Message]] = {
    record.api_key: record
    for record in vars(metadata).values()
    if isinstance(record, type) and issubclass(record, Message) and record.api_key >= 0
}
"""Record type -> class."""
_NEWER = "this log is of a newer metadata.version than this version of Moldau reads (30, Apache Kafka 4.3)"


def pack_metadata(record: Message, version: int | None = None) -> bytes:
    """The value of a metadata record; ``version`` defaults to ``written_version``."""
    version = written_version(record) if version is None else version
    out = bytearray()
    put_uvarint(out, FRAME_VERSION)
    put_uvarint(out, record.api_key)
    put_uvarint(out, version)
    return bytes(encode(record, version, out, None))


def written_version(record: Message) -> int:
    """The version that a record is written in: the newest that Moldau knows, but none that only Kafka 4.3 reads where
    an older one says the same (KIP-1066's cordoned directories)."""
    if isinstance(record, metadata.RegisterBrokerRecord | metadata.BrokerRegistrationChangeRecord):
        return record.versions[1] - (record.cordoned_log_dirs is None)
    return record.versions[1]


def unpack_metadata(value: Buffer) -> Message:
    """The record in a value; Malformed names an unknown frame version, type or version."""
    view = memoryview(value)
    try:
        frame, p = uvarint(view, 0)
        key, p = uvarint(view, p)
        version, p = uvarint(view, p)
    except IndexError:
        raise Malformed("a metadata record ends inside its frame") from None
    if frame != FRAME_VERSION:
        raise Malformed(f"metadata frame version {frame} is not {FRAME_VERSION}")
    cls = METADATA.get(key)
    if cls is None:
        raise Malformed(f"metadata record type {key} is not known: {_NEWER}")
    if not cls.versions[0] <= version <= cls.versions[1]:
        raise Malformed(f"{cls.__name__} version {version} is not known: {_NEWER}")
    record, end = decode_from(cls, view, p, version)
    if end != len(view):
        raise Malformed(f"{cls.__name__} v{version}: {len(view) - end} bytes left over")
    return record


def pack_versioned(message: Message, version: int) -> bytes:
    """An int16 version and the message: keys and values of __consumer_offsets, consumer protocol bytes."""
    return bytes(encode(message, version, bytearray(struct.pack(">h", version)), None))


def version_of(data: Buffer) -> int:
    """The int16 version that leads a key, value or consumer protocol blob."""
    if len(data) < 2:
        raise Malformed(f"a versioned blob needs 2 bytes, {len(data)} are there")
    return int(struct.unpack_from(">h", data)[0])
