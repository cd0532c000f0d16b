"""Keys and values of Kafka's own topics, for the decoders of ``kafka-dump-log.sh``: of every type and version that
Kafka 4.3.1 has, with fields that are drawn by a seed; and ways to spoil them.

Read next: record_dump_records.py, tests/packages/admin/test_dump_golden.py, tests/live/test_dump_coordinators.py.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

from moldau.wire.codec import put_uvarint
from moldau.wire.records import (
    consumer_groups,
    groups,
    metadata,
    remote_log,
    share_groups,
    share_state,
    streams_groups,
    transactions,
)
from moldau.wire.records.framing import pack_metadata, pack_versioned
from moldau.wire.schema import Field, Message, Struct

OFFSETS, TRANSACTIONS = "--offsets-decoder", "--transaction-log-decoder"
SHARE_STATE, REMOTE_LOG = "--share-group-state-decoder", "--remote-log-metadata-decoder"
CLUSTER = "--cluster-metadata-decoder"
FRAMED = {REMOTE_LOG, CLUSTER}
"""Whose records have no key, and their type in the value."""


class Kind(NamedTuple):
    """A type of record: the option that shows it, its number, its classes."""

    option: str
    number: int
    key: type[Message] | None
    value: type[Message]


class Entry(NamedTuple):
    """A record's key and value."""

    key: bytes | None
    value: bytes | None


def _kinds() -> Iterator[Kind]:
    yield Kind(OFFSETS, 0, groups.OffsetCommitKey, groups.LegacyOffsetCommitValue)
    yield Kind(OFFSETS, 1, groups.OffsetCommitKey, groups.OffsetCommitValue)
    yield Kind(OFFSETS, 2, groups.GroupMetadataKey, groups.GroupMetadataValue)
    for option, module in (
        (OFFSETS, consumer_groups), (OFFSETS, share_groups), (OFFSETS, streams_groups),
        (TRANSACTIONS, transactions), (SHARE_STATE, share_state), (REMOTE_LOG, remote_log), (CLUSTER, metadata),
    ):  # fmt: skip
        of_module = (kind for kind in vars(module).values() if isinstance(kind, type) and kind is not Message)
        found = [kind for kind in of_module if issubclass(kind, Message)]
        for value in found:
            if option in FRAMED:
                yield Kind(option, value.api_key, None, value)
            elif value.__name__.endswith("Value"):
                key = next(kind for kind in found if kind.__name__ == value.__name__.removesuffix("Value") + "Key")
                yield Kind(option, value.api_key, key, value)


KINDS = tuple(_kinds())
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXTS = (
    "", "a", "topic-1", "consumer", "üñï ☃ 𝄞", 'quoted "text" \\ and \\u001f', "\b\t\n\f\r", "\0\x01\x1b\x1f\x7f",
    "\u2028</a>", "a text of more than 127 bytes, so that its packed length takes two of them; " * 2,
)  # fmt: skip


def drawn(rng: random.Random, kind: type[Struct], version: int) -> Struct:
    """A struct with every field of the version drawn."""
    made = kind()
    for field in kind.fields:
        if field.present(version) and rng.random() < 0.9:
            nothing = field.is_nullable(version) and rng.random() < 0.3
            setattr(made, field.name, None if nothing else _value(rng, field, field.type, version))
    return made


def _value(rng: random.Random, field: Field, kind: object, version: int) -> object:
    if isinstance(kind, list):
        return [_value(rng, field, kind[0], version) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if isinstance(kind, type):
        return drawn(rng, kind, version)
    assert isinstance(kind, str)
    if field.name.endswith("_state"):
        return rng.randrange(5)  # one of which a remote log knows the names, and one too many
    if field.name in ("start_offset", "end_offset"):
        return rng.choice((0, 5, 5, 2**40, -1))
    if kind in _BITS:
        bits = _BITS[kind]
        return rng.choice((0, 1, -1, rng.randrange(-(2**bits), 2**bits)))
    if kind in ("bytes", "uuid"):
        return rng.randbytes(16 if kind == "uuid" else rng.choice((0, 1, 2, 3, 60)))
    return rng.choice(
        {
            "float64": (0.0, -1.5, 1e8, 1e-5, 5e-324, 1e300),
            "bool": (False, True),
            "uint16": (0, 9092, 65535),
            "string": _TEXTS,
        }[kind]
    )


def packed(kind: Kind, key: Struct | None, value: Struct | None, version: int) -> Entry:
    """A record as it stands in the log; without a value, a tombstone."""
    packs = pack_metadata if kind.option in FRAMED else pack_versioned
    of_value = None
    if value is not None:
        assert isinstance(value, Message)
        of_value = packs(value, version)
    if kind.key is None:
        return Entry(None, of_value)
    assert isinstance(key, Message)
    return Entry(struct.pack(">h", kind.number) + key.encode(kind.key.versions[1]), of_value)


def sound(kind: Kind, version: int, seed: int) -> Entry:
    """A record of this kind and version; every third time, what consumers tell each other is in their words."""
    rng = random.Random(f"{kind.option} {kind.number} {version} {seed}")
    key = None if kind.key is None else drawn(rng, kind.key, kind.key.versions[1])
    value = kind.value() if seed == 0 else drawn(rng, kind.value, version)
    if isinstance(value, groups.GroupMetadataValue) and seed % 3:
        value.protocol_type = "consumer"
        for member in value.members:
            of_protocol = rng.randrange(4)
            for name, words in (
                ("subscription", groups.ConsumerProtocolSubscription),
                ("assignment", groups.ConsumerProtocolAssignment),
            ):
                told = drawn(rng, words, of_protocol)
                assert isinstance(told, Message)
                setattr(member, name, pack_versioned(told, of_protocol) + rng.choice((b"", b"", b"more")))
    return packed(kind, key, value, version)


def versions(kind: Kind) -> range:
    """Of its value."""
    return range(kind.value.versions[0], kind.value.versions[1] + 1)


def odd(kind: Kind) -> Iterator[Entry]:
    """Tombstones, values of versions and types that there are not, and of no bytes."""
    key, value = sound(kind, kind.value.versions[1], 1)
    yield Entry(key, None)
    yield Entry(key, b"")
    yield Entry(key, b"\0")
    assert value is not None
    for version in (-1, kind.value.versions[1] + 1, 0x7FFF):
        if kind.option in FRAMED:
            frame = bytearray(b"\1")
            put_uvarint(frame, kind.number)
            put_uvarint(frame, version & 0xFFFFFFFF)
            yield Entry(key, bytes(frame) + value[3:])
        else:
            yield Entry(key, struct.pack(">h", version) + value[2:])
    yield Entry(key, value + b"more")
    if key is not None:
        yield Entry(key + b"more", value)
        yield Entry(key[:2], value)
        yield Entry(key[:2], None)


def strangers(option: str) -> Iterator[Entry]:
    """Records of types that there are not."""
    if option in FRAMED:
        wrong = b"\0\0\0", b"\1", b"\1\0", b"\1\0\0", b"\2\0\0", b"\1\4\0", b"\1\x80", b"\1\xff\xff\xff\xff\x7f\0"
        for value in (None, b"", *wrong):
            yield Entry(None, value)
            yield Entry(b"key", value)
        return
    known = {kind.number for kind in KINDS if kind.option == option}
    for number in (-1, -0x8000, *range(26), 0x7FFF):
        if number not in known:
            yield Entry(struct.pack(">h", number) + b"\0\1g", struct.pack(">h", 0))
            yield Entry(struct.pack(">h", number), None)
    yield Entry(b"", b"\0\0")
    yield Entry(b"\0", b"\0\0")
    yield Entry(b"", None)


def cut(entry: Entry) -> Iterator[Entry]:
    """The record with its key or its value cut short, after every byte."""
    for end in range(len(entry.key or b"")):
        assert entry.key is not None
        yield Entry(entry.key[:end], entry.value)
    for end in range(len(entry.value or b"")):
        assert entry.value is not None
        yield Entry(entry.key, entry.value[:end])


def spoiled(rng: random.Random, entry: Entry) -> Entry:
    """The record with a few bytes of its key or of its value exchanged, added or taken away."""
    of_key = entry.key is not None and rng.random() < 0.2
    data = bytearray((entry.key if of_key else entry.value) or b"")
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        new = rng.choice((0, 1, 2, 3, 5, 0x7F, 0x80, 0xC3, 0xFF, rng.randrange(256)))
        match rng.randrange(4):
            case 0:
                data[at:at] = bytes((new,) * rng.choice((1, 1, 4, 5)))
            case 1:
                del data[at : at + rng.choice((1, 1, 4))]
            case _:
                data[at : at + 1] = bytes((new,))
    return Entry(bytes(data), entry.value) if of_key else Entry(entry.key, bytes(data))
