"""10,000 record batches as clients with faults would send them, each made from its number alone.

``batch_of(number)`` returns the topic configuration it goes to and its bytes: a sound batch, or one with up to two of
its fields, records or packed bytes changed, its checksum computed again. What a codec's library packs differs from
release to release; where packed bytes themselves were changed, the recording keeps them.
Read next: record_admission.py (asks Apache Kafka), tests/packages/storage/test_kafka_log_validator.py (asks Moldau).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import Struct

from moldau.wire.batch import HEADER_SIZE
from moldau.wire.compression import compress
from moldau.wire.crc import crc32c

COUNT = 10_000
NOW_MS = 1_800_000_000_000
CONFIGS: dict[str, dict[str, str]] = {
    "plain": {},
    "compact": {"cleanup.policy": "compact"},
    "append": {"message.timestamp.type": "LogAppendTime"},
    "compact-append": {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"},
    "bounds": {"message.timestamp.before.max.ms": "86400000", "message.timestamp.after.max.ms": "1000"},
    "unbounded": {"message.timestamp.after.max.ms": str(2**63 - 1)},
    "small": {"max.message.bytes": "400"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "snappy": {"compression.type": "snappy", "cleanup.policy": "compact"},
    "lz4": {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"},
    "zstd": {"compression.type": "zstd", "max.message.bytes": "400"},
}
"""Topic configurations by name, in Kafka's keys."""
_NAMES = list(CONFIGS)

_HEADER = Struct(">qiibIhiqqqhii")
_FIELDS = {
    "base_offset": 64, "length": 32, "leader_epoch": 32, "magic": 8, "crc": 0, "attributes": 16,
    "last_offset_delta": 32, "base_timestamp": 64, "max_timestamp": 64, "producer_id": 64, "producer_epoch": 16,
    "base_sequence": 32, "count": 32,
}  # fmt: skip
"""The header's fields in order, and their bits; the checksum is computed, or flipped."""


class Produced:
    """A batch before it is packed: header fields, records as lists of parts, and what is to be done to its bytes."""

    def __init__(self, number: int) -> None:
        chance = self.chance = random.Random(number)
        self.number = number
        self.config = _NAMES[number % len(_NAMES)]
        self.codec = chance.randrange(5) if chance.random() < 0.45 else 0
        count = chance.randrange(1, 7) if chance.random() < 0.93 else chance.randrange(64, 150)
        keyed = chance.random() < (0.9 if "compact" in CONFIGS[self.config].get("cleanup.policy", "") else 0.4)
        uniform = chance.random() < 0.5
        base = NOW_MS - chance.randrange(2000)
        size = chance.randrange(70) if count < 10 else chance.randrange(8)
        self.records: list[list[bytes]] = []
        newest = 0
        for delta in range(count):
            if not uniform:
                size = chance.randrange(90) if count < 10 else chance.randrange(6)
            since = delta // 3 if uniform else chance.randrange(-100, 200)
            newest = since if not delta else max(newest, since)
            key = chance.randbytes(3) if keyed and (uniform or chance.random() < 0.95) else None
            headers = chance.randrange(3) if chance.random() < 0.15 and not uniform else 0
            self.records.append(_record(since, delta, key, chance.randbytes(size), headers))
        idempotent = chance.random() < 0.2
        self.fields: dict[str, int] = {
            "base_offset": 0, "leader_epoch": -1, "magic": 2, "attributes": self.codec, "last_offset_delta": count - 1,
            "base_timestamp": base, "max_timestamp": base + newest, "producer_id": 10**6 + number if idempotent else -1,
            "producer_epoch": 0 if idempotent else -1, "base_sequence": 0 if idempotent else -1, "count": count,
        }  # fmt: skip
        self.longer = 0
        self.bad_crc = False
        self.packed: list[Callable[[bytearray], bytearray]] = []
        self.framed: list[Callable[[bytearray], bytearray]] = []


def batch_of(number: int, packed: bytes | None = None) -> tuple[str, bytes, bytes | None]:
    """(configuration's name, the batch, its packed payload where that itself was changed and must be kept).

    ``packed``: that payload as it was kept, to be used instead of what this machine's library would pack.
    """
    made = Produced(number)
    for _ in range(made.chance.choice((0, 1, 1, 1, 1, 1, 2))):
        made.chance.choice(_CHANGES)(made)
    payload = b"".join(_framed(record) for record in made.records)
    for change in made.framed:
        payload = bytes(change(bytearray(payload)))
    kept = None
    if made.codec:
        payload = compress(made.codec, payload)
        if made.packed:
            for change in made.packed:
                payload = bytes(change(bytearray(payload)))
            kept = payload = payload if packed is None else packed
    fields = {"length": HEADER_SIZE - 12 + len(payload) + made.longer, "crc": 0, **made.fields}
    head = bytearray(_HEADER.pack(*(_wrapped(fields[name], bits) for name, bits in _FIELDS.items())))
    crc = crc32c(payload, crc32c(memoryview(head)[21:])) ^ made.bad_crc
    head[17:21] = crc.to_bytes(4, "big")
    return made.config, bytes(head) + payload, kept


def _wrapped(value: int, bits: int) -> int:
    if not bits:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def varint(value: int) -> bytes:
    """Zigzag, any int64."""
    raw = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    return bytes((*out, raw))


def _record(since: int, delta: int, key: bytes | None, value: bytes | None, headers: int) -> list[bytes]:
    """Attributes, timestamp delta, offset delta, key length, key, value length, value, header count, headers."""
    lengths = [varint(-1 if part is None else len(part)) for part in (key, value)]
    parts = [b"\0", varint(since), varint(delta), lengths[0], key or b"", lengths[1], value or b"", varint(headers)]
    for number in range(headers):
        parts += [varint(2), b"h%d" % number, varint(1), b"v"]
    return parts


def _framed(parts: list[bytes]) -> bytes:
    """A record behind its length; a record of one part is framed already."""
    body = b"".join(parts)
    return body if len(parts) == 1 else varint(len(body)) + body


_EDGES = (0, 1, -1, 2, -2, 63, 64, 127, 128, 8191, 8192, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 10**12)


def _set_field(made: Produced) -> None:
    name = made.chance.choice([name for name, bits in _FIELDS.items() if bits and name != "length"])
    kind = made.chance.randrange(3)
    if kind == 0:
        made.fields[name] = made.chance.choice(_EDGES)
    elif kind == 1:
        made.fields[name] += made.chance.choice((-2, -1, 1, 2))
    else:
        made.fields[name] ^= 1 << made.chance.randrange(_FIELDS[name])


def _set_attributes(made: Produced) -> None:
    bit = 1 << made.chance.randrange(16)
    made.fields["attributes"] ^= bit


def _set_timestamps(made: Produced) -> None:
    kind = made.chance.randrange(4)
    if kind == 0:
        made.fields["base_timestamp"] = made.chance.choice((2**63 - 1, -(2**63), -1, 0, NOW_MS + 10**7, 2**63 - 50))
    elif kind == 1:
        made.fields["base_timestamp"] += made.chance.choice((-1, 1)) * made.chance.choice((10**3, 3_600_000, 10**8))
    elif kind == 2:
        made.fields["max_timestamp"] = made.chance.choice((-1, 0, 5, NOW_MS + 1, 2**63 - 1, -(2**63)))
    else:
        far = made.chance.choice((2**62, -(2**62), 2**63 - 1, -(2**63), 10**8, -(10**8), 3_700_000))
        record = made.chance.choice(made.records)
        if len(record) > 1:
            record[1] = varint(far)


def _set_count(made: Produced) -> None:
    by = made.chance.choice((-1, 1, 2, 1000))
    made.fields["count"] += by
    if made.chance.random() < 0.7:
        made.fields["last_offset_delta"] += by


def _set_number(made: Produced) -> None:
    """A number in a record: timestamp or offset delta, a length, the count of headers."""
    record = made.chance.choice(made.records)
    places = [1, 2, 3, 5, 7, *range(8, len(record), 2)]
    record[made.chance.choice(places) if len(record) > 1 else 0] = varint(made.chance.choice(_EDGES))


def _stretch_number(made: Produced) -> None:
    """The same number in more bytes than it needs, up to more than there may be."""
    record = made.chance.choice(made.records)
    if len(record) > 1:
        at = made.chance.choice((1, 2, 3, 5, 7))
        more = made.chance.choice((1, 2, 4, 5, 8, 9, 10))
        record[at] = record[at][:-1] + bytes([record[at][-1] | 128]) + b"\x80" * (more - 1) + b"\x00"


def _wrong_length(made: Produced) -> None:
    at = made.chance.randrange(len(made.records))
    body = b"".join(made.records[at])
    said = len(body) + made.chance.choice((-1, 1, 2, -2, 60, 2**20)) if made.chance.random() < 0.8 else -1
    made.records[at] = [varint(said) + body]


def _set_byte(made: Produced) -> None:
    at, to = made.chance.random(), made.chance.randrange(256)

    def change(payload: bytearray) -> bytearray:
        if payload:
            payload[int(at * len(payload))] = to
        return payload

    (made.packed if made.codec and made.chance.random() < 0.3 else made.framed).append(change)


def _cut(made: Produced) -> None:
    by = made.chance.choice((1, 2, 5, 20))
    (made.packed if made.codec and made.chance.random() < 0.3 else made.framed).append(
        lambda payload: payload[: max(len(payload) - by, 0)]
    )


def _trail(made: Produced) -> None:
    more = made.chance.choice((b"\0", b"\x01", b"abc", bytes(40)))
    (made.packed if made.codec and made.chance.random() < 0.3 else made.framed).append(lambda payload: payload + more)


def _other_order(made: Produced) -> None:
    made.chance.shuffle(made.records)


def _once_more(made: Produced) -> None:
    made.records.append(made.chance.choice(made.records))


def _no_key(made: Produced) -> None:
    for record in made.records:
        if len(record) > 1 and made.chance.random() < 0.4:
            record[3:5] = [varint(-1), b""]


def _grown(made: Produced) -> None:
    record = made.chance.choice(made.records)
    if len(record) > 1:
        value = made.chance.randbytes(300)
        record[5:7] = [varint(len(value)), value]


def _broken_sum(made: Produced) -> None:
    made.bad_crc = True


def _other_length(made: Produced) -> None:
    made.longer = made.chance.choice((-1, 1, -20, -(2**20), 2**20))


def _other_codec(made: Produced) -> None:
    made.fields["attributes"] = made.fields["attributes"] & ~7 | made.chance.randrange(8)


def _garbage(made: Produced) -> None:
    made.records = [[made.chance.randbytes(made.chance.randrange(60))]]


_CHANGES: list[Callable[[Produced], None]] = [
    _set_field, _set_field, _set_attributes, _set_timestamps, _set_timestamps, _set_count, _set_number, _set_number,
    _set_number, _stretch_number, _wrong_length, _set_byte, _set_byte, _set_byte, _cut, _trail, _other_order,
    _once_more, _no_key, _grown, _broken_sum, _other_length, _other_codec, _garbage,
]  # fmt: skip
