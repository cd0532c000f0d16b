"""Messages of the formats v0 and v1, of before Kafka 0.11, read into batches of v2.

A broker of another kind still sends them as they lie in its log. Whoever reads a log here knows batches of v2 alone:
what came is turned into such batches once, where it comes from the network. Slow, since it takes messages one by one.
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
_TIMESTAMP, _LENGTH = Struct(">q"), Struct(">i")
_CODEC, _LOG_APPEND = 0x07, 0x08
_NO_TIMESTAMP = -1


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


def as_batches(buffer: Buffer) -> bytes:
    """The old messages with which the buffer begins as batches of v2, up to the first batch of v2 or the first message
    that did not come whole. BatchError when one is corrupt.

    Messages whose offsets follow one another share a batch. A timestamp, which v0 does not have, is -1 as in Kafka.
    """
    found, _ = _messages(buffer)
    try:
        return b"".join(_batches([each for outer in found for each in _unwrapped(outer)]))
    except error as wrong:  # offsets that no log has
        raise BatchError(f"a message cannot be made a record: {wrong}") from wrong


def _messages(buffer: Buffer) -> tuple[list[_Message], int]:
    found: list[_Message] = []
    view, at = memoryview(buffer), 0
    while first_old(view, (at,)) is not None:
        after = at + first_size(view[at:])
        if after > len(view):
            break
        found.append(_message(view[at:after]))
        at = after
    return found, at


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


def _unwrapped(outer: _Message) -> Iterator[_Message]:
    """The messages that one wraps; itself when it wraps none.

    In v1 the inner offsets are relative and the outer one is the last one's (KIP-31); a time that a broker gave stands
    outside.
    """
    if not outer.codec:
        yield outer
        return
    if outer.codec == Codec.LZ4 and not outer.format:
        # Its frames have a checksum over other bytes than lz4 says (KAFKA-3160), which no library takes.
        raise BatchError(f"the message at offset {outer.offset} is packed with lz4 in format 0: that is not read")
    if outer.value is None:
        raise BatchError(f"the message at offset {outer.offset} is packed and has no value")
    data = decompress(outer.codec, outer.value)
    inner, end = _messages(data)
    if not inner or end != len(data) or any(each.codec for each in inner):
        raise BatchError(f"what the message at offset {outer.offset} packs are no whole messages")
    base = outer.offset - inner[-1].offset if outer.format else 0
    for each in inner:
        time = outer.timestamp if outer.appended else each.timestamp
        yield each._replace(offset=base + each.offset, timestamp=time, appended=outer.appended)


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
