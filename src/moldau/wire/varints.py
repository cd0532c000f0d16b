"""Zigzag varints of records, as Protocol Buffers write them: small numbers of either sign take few bytes.

Numbers that are larger than their type wrap around, as sums do in Java.
"""

from __future__ import annotations

from moldau.wire.compression import BatchError

LONG_MIN, LONG_MAX = -0x8000000000000000, 0x7FFFFFFFFFFFFFFF


def long(value: int) -> int:
    """``value`` as an int64 that has wrapped around, as sums of timestamps do in Apache Kafka."""
    if LONG_MIN <= value <= LONG_MAX:
        return value
    value &= 0xFFFFFFFFFFFFFFFF
    return value - 0x10000000000000000 if value >> 63 else value


def varint(value: int) -> bytes:
    """A zigzag varint of any int64, or of what such a difference wraps to."""
    value = long(value)
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def varint_at(data: bytes | bytearray | memoryview, pos: int, bits: int = 35) -> tuple[int, int]:
    """The number at ``pos`` and the position after it: an int32, or an int64 for ``bits`` = 70.

    BatchError beyond ``bits``, IndexError beyond the data.
    """
    byte = data[pos]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    raw = byte & 127
    byte = data[pos + 1]
    pos += 2
    if byte < 128:
        raw |= byte << 7
        return (raw >> 1) ^ -(raw & 1), pos
    raw |= (byte & 127) << 7
    shift = 14
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            raise BatchError("Found invalid record structure: a varint is too long")
    raw &= 0xFFFFFFFF if bits == 35 else 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), pos
