"""Messages of the formats v0 and v1, of before Kafka 0.11, read into batches of v2.

A broker of another kind still sends them as they lie in its log. Whoever reads a log here knows batches of v2 alone:
what came is turned into such batches once, where it comes from the network. Slow, since it takes messages one by one.
A few bytes of packed messages may be many records: only so many are made at once, and the rest is asked for again.
Nothing is written in these formats. Checksums are looked at here, as the turning makes new ones.
Format: the protocol guide, "Old Message Format"; KIP-31 (relative offsets), KIP-32 (timestamps). Read next: batch.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import Struct, error
from zlib import crc32

from moldau.model.named import NamedTuple
from moldau.wire import batch
from moldau.wire.compression import BatchError, Buffer, Codec, decompress

_HEAD = Struct(">qiIbb")
"""Offset, size, checksum, format and attributes; the size counts from the checksum on, which is of what follows it."""
_SIZE_FROM, _CRC_FROM = 12, 16  # the format stands where the checksum's bytes begin
_LEAST_SIZE = 14
"""A message of v0 without key and value."""
_OFFSET, _TIMESTAMP, _LENGTH = Struct(">q"), Struct(">q"), Struct(">i")
_CODEC, _LOG_APPEND = 0x07, 0x08
_NO_TIMESTAMP = -1
_BEFORE_ALL = -(1 << 64)

ENOUGH_BYTES = 32 << 20
"""Once about so many bytes of records are there, no more messages are unpacked."""
_RECORD_COST = 100
"""What a record counts beside its key and value."""


class _Message(NamedTuple):
    """A message, or one that wraps others; ``appended`` when the broker and not the producer gave it its time."""

    offset: int
    format: int
    codec: int
    appended: bool
    timestamp: int
    key: bytes | None
    value: bytes | None


def first_old(buffer: Buffer, positions: Iterable[int]) -> int | None:
    """The first of these places, at which whole batches begin or end, where a message of v0 or v1 begins."""
    size = len(buffer) - _HEAD.size
    return next((at for at in positions if at <= size and buffer[at + _CRC_FROM] < 2), None)


def first_size(buffer: Buffer) -> int:
    """How many bytes the first message takes, as it says; BatchError for a size that none has."""
    _, size, _, _, _ = _HEAD.unpack_from(buffer)
    if size < _LEAST_SIZE:
        raise BatchError(f"a message claims a size of {size} bytes")
    return _SIZE_FROM + int(size)


def as_batches(buffer: Buffer, start: int = _BEFORE_ALL, enough: int = ENOUGH_BYTES) -> bytes:
    """The old messages with which the buffer begins as batches of v2, from offset ``start`` on.

    Up to the first batch of v2, the first message that did not come whole, or about ``enough`` bytes. BatchError when
    one is corrupt, or when whole messages came and all are before ``start``.

    Messages whose offsets follow one another share a batch. A timestamp, which v0 does not have, is -1 as in Kafka.
    Unpacked is one message after the other, each whole: as a batch of v2, it has ``MAX_OUTPUT_BYTES`` at most.
    """
    found = _found(buffer, start, enough)
    if not found and any(_places(buffer)):
        raise BatchError(f"of the messages that came for offset {start}, none is of it or of a later one")
    try:
        return b"".join(_batches(found))
    except error as wrong:  # offsets that no log has
        raise BatchError(f"a message cannot be made a record: {wrong}") from wrong


def _found(buffer: Buffer, start: int, enough: int) -> list[_Message]:
    """The messages from ``start`` on, until they are about ``enough`` bytes."""
    found: list[_Message] = []
    view, size = memoryview(buffer), 0
    for at, end in _places(view):
        for each in _unwrapped(_message(view[at:end]), start):
            found.append(each)
            size += _RECORD_COST + len(each.key or b"") + len(each.value or b"")
            if size >= enough:
                return found
    return found


def _places(buffer: Buffer) -> Iterator[tuple[int, int]]:
    """Where each message of an old format begins and ends, as far as they came whole."""
    view, at = memoryview(buffer), 0
    while first_old(view, (at,)) is not None:
        end = at + first_size(view[at:])
        if end > len(view):
            return
        yield at, end
        at = end


def _message(whole: memoryview) -> _Message:
    offset, _, crc, format, attributes = _HEAD.unpack_from(whole)
    if crc32(whole[_CRC_FROM:]) != crc:
        raise BatchError(f"the message at offset {offset} is corrupt: its checksum is wrong")
    try:
        at, timestamp = _HEAD.size, _NO_TIMESTAMP
        if format == 1:
            (timestamp,) = _TIMESTAMP.unpack_from(whole, at)
            at += _TIMESTAMP.size
        key, at = _field(whole, at)
        value, at = _field(whole, at)
    except error:
        at = -1
    if at != len(whole):
        raise BatchError(f"the fields of the message at offset {offset} do not end where it ends")
    codec, appended = attributes & _CODEC, format == 1 and bool(attributes & _LOG_APPEND)
    return _Message(offset, format, codec, appended, timestamp, key, value)


def _field(whole: memoryview, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(whole, at)
    at += _LENGTH.size
    if length < 0:
        return None, at
    return bytes(whole[at : at + length]), at + length


def _unwrapped(outer: _Message, start: int) -> Iterator[_Message]:
    """The messages that one wraps, from offset ``start`` on; itself when it wraps none.

    In v1 the inner offsets are relative and the outer one is the last one's (KIP-31); a time that a broker gave stands
    outside.
    """
    if not outer.codec:
        if outer.offset >= start:
            yield outer
        return
    if outer.codec == Codec.LZ4 and not outer.format:
        # Its frames have a checksum over other bytes than lz4 says (KAFKA-3160), which no library takes.
        raise BatchError(f"the message at offset {outer.offset} is packed with lz4 in format 0: that is not read")
    if outer.value is None:
        raise BatchError(f"the message at offset {outer.offset} is packed and has no value")
    data = memoryview(decompress(outer.codec, outer.value))
    at = end = 0
    for at, end in _places(data):  # noqa: B007  # the last one's, without the others being kept
        pass
    if not end or end != len(data):
        raise _not_whole(outer)
    base = outer.offset - _offset(data, at) if outer.format else 0
    for at, end in _places(data):
        offset = base + _offset(data, at)
        if offset < start:
            continue
        each = _message(data[at:end])
        if each.codec:
            raise _not_whole(outer)
        time = outer.timestamp if outer.appended else each.timestamp
        yield each._replace(offset=offset, timestamp=time, appended=outer.appended)


def _offset(data: memoryview, at: int) -> int:
    offset: int = _OFFSET.unpack_from(data, at)[0]
    return offset


def _not_whole(outer: _Message) -> BatchError:
    return BatchError(f"what the message at offset {outer.offset} packs are no whole messages")


def _batches(messages: list[_Message]) -> Iterator[bytes]:
    starts = [0, *(index for index, pair in enumerate(pairwise(messages), 1) if not _share_a_batch(*pair))]
    for start, end in pairwise([*starts, len(messages)]):
        run = messages[start:end]
        if run:
            yield batch.build(
                ((each.timestamp, each.key, each.value, ()) for each in run),
                base_offset=run[0].offset, log_append_time=run[0].appended,
            )  # fmt: skip


def _share_a_batch(one: _Message, other: _Message) -> bool:
    """Whether ``other`` can follow in the same batch, whose records have their own times, or all the broker's one."""
    if other.offset != one.offset + 1 or other.appended != one.appended:
        return False
    return not one.appended or other.timestamp == one.timestamp
