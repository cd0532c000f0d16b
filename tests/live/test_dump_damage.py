"""kafka-dump-log.sh on damaged files, as Kafka 4.3.1's own: bytes on both streams and the exit status, for damage that
is put together at random.

What cannot be equal is masked: the address of a channel, and names of arrays.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from classic import ours
from tests.golden.java_tools import JavaTools

from moldau.wire.batch import build, control_key, positions
from moldau.wire.compression import Codec, compress
from moldau.wire.crc import crc32c
from moldau.wire.records.framing import pack_metadata, pack_versioned
from moldau.wire.records.groups import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from moldau.wire.records.metadata import ConfigRecord, FeatureLevelRecord, NoOpRecord, PartitionRecord

DUMP = "org.apache.kafka.tools.DumpLogSegments"
NOW = 1_700_000_000_000
INT_MAX = 0x7FFFFFFF
OPTIONS: tuple[list[str], ...] = (
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--deep-iteration", "--max-bytes", "150"],
    ["--cluster-metadata-decoder"],
    ["--offsets-decoder"],
)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools


def same(java: JavaTools, file: Path, data: bytes, options: list[str], seed: int) -> str:
    """What both say of a file with these bytes; of traces, the lines that are about the failure."""
    file.write_bytes(data)
    arguments = [*options, "--files", str(file)]
    mine = ours("kafka-dump-log.sh", arguments)
    theirs = java.run(DUMP, arguments)
    told = "".join(line for line in theirs.err.splitlines(keepends=True) if not line.startswith("\t"))
    told = re.sub(r"FileChannelImpl@\w+", "FileChannelImpl@0", told)
    if "OutOfMemoryError" in mine.err:
        return mine.out  # the JVM of these tests has another heap than the tools have
    assert (mine.out, mine.err, mine.status) == (theirs.out, told, theirs.status), (seed, options, data.hex())
    return mine.out + mine.err


def log(rng: random.Random) -> bytes:
    """A few batches, packed and not."""
    data, offset = b"", 0
    for number in range(rng.randint(1, 4)):
        count = rng.randint(1, 4)
        entries = [
            (
                NOW + number * 1000 + i,
                rng.choice([None, b"k%d" % i]),
                rng.choice([b"v" * rng.randint(1, 40), None, b"\xff\xfe", rng.randbytes(rng.choice([9, 3000]))]),
                [("h", b"x")] * rng.randint(0, 2),
            )
            for i in range(count)
        ]
        data += build(
            entries, codec=rng.choice([Codec.NONE, *Codec]), base_offset=offset, producer_id=rng.choice([-1, 77]),
            producer_epoch=1, base_sequence=0,
        )  # fmt: skip
        offset += count
    return data


def put(kind: str, at: int, *numbers: int) -> Callable[[random.Random, bytearray, int, int], None]:
    """Damage that writes one of these numbers into a field of a batch."""

    def write(rng: random.Random, data: bytearray, start: int, length: int) -> None:
        struct.pack_into(kind, data, start + at, rng.choice(numbers))

    return write


def lengths(rng: random.Random, data: bytearray, start: int, length: int) -> None:
    near = (length - 5, length - 1, length + 1, length + 8)
    struct.pack_into(">i", data, start + 8, rng.choice((-1, 0, 13, 14, 20, 40, 48, 49, 50, 100_000, INT_MAX, *near)))


def payload(rng: random.Random, data: bytearray, start: int, length: int) -> None:
    for _ in range(rng.randint(1, 3)):
        data[start + 61 + rng.randrange(length - 49)] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])


def header(rng: random.Random, data: bytearray, start: int, length: int) -> None:
    data[start + rng.randrange(61)] = rng.randrange(256)


def cut(rng: random.Random, data: bytearray, start: int, length: int) -> None:
    del data[rng.randrange(len(data)) :]


def zeros(rng: random.Random, data: bytearray, start: int, length: int) -> None:
    begin = rng.randrange(len(data))
    end = min(len(data), begin + rng.choice([4, 20, 100, 5000]))
    data[begin:end] = bytes(end - begin)
    data += bytes(rng.choice([0, 0, 1, 200]))


DAMAGE = {
    "magic": put(">B", 16, 0, 1, 3, 127, 128, 255), "checksum": put(">I", 17, 0, 1, 0xFFFFFFFF),
    "attributes": put(">h", 21, *range(128), -1), "last offset": put(">i", 23, -1, 0, 1, 7, INT_MAX),
    "sequence": put(">i", 53, -2, INT_MAX, -INT_MAX), "count": put(">i", 57, -1, 0, 1, 2, 3, 5, 9, 1000, INT_MAX),
    "length": lengths, "payload": payload, "header": header, "cut": cut, "zeros": zeros,
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_batches_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path, kind: str) -> None:
    for seed in range(120):
        rng = random.Random(f"{kind} {seed}")
        data = bytearray(log(rng))
        start = rng.choice(positions(data)[:-1])
        (length,) = struct.unpack_from(">i", data, start + 8)
        DAMAGE[kind](rng, data, start, length)
        if rng.random() < 0.5 and start + 61 <= len(data):  # with a checksum that says nothing is wrong
            (length,) = struct.unpack_from(">i", data, start + 8)
            end = start + 12 + length
            if start + 61 <= end <= len(data):
                struct.pack_into(">I", data, start + 17, crc32c(bytes(data[start + 21 : end])))
        same(java, tmp_path / f"{0:020d}.log", bytes(data), rng.choice(OPTIONS), seed)


def test_an_index_with_a_position_that_its_log_cannot_have_is_told_as_kafka_tells_it(
    java: JavaTools, tmp_path: Path
) -> None:
    """A position below 0 ended the tool in Python's words."""
    data = b"".join(build([(NOW + at, None, b"v", ())], base_offset=at) for at in range(3))
    (tmp_path / f"{0:020d}.log").write_bytes(data)
    for at, position in enumerate((*positions(data), len(data), len(data) + 1, -1, -5, INT_MAX, -INT_MAX)):
        same(java, tmp_path / f"{0:020d}.index", struct.pack(">ii", 1, position), [], at)


def spoiled_index(rng: random.Random, index: bytes, entry: struct.Struct, fields: dict[str, list[int]]) -> bytes:
    """An index with other numbers or bytes, entries that changed places, zeros behind it, or cut short."""
    data, size = bytearray(index), entry.size
    for _ in range(rng.randint(1, 4)):
        first, second = (rng.randrange(len(data) // size) * size for _ in range(2))
        kind = rng.choice(["field", "field", "byte", "places", "zeros", "cut"])
        if kind == "field":
            values = list(entry.unpack_from(data, first))
            field = rng.randrange(2)
            values[field] = rng.choice(list(fields.values())[field])
            entry.pack_into(data, first, *values)
        elif kind == "byte":
            data[rng.randrange(len(data))] = rng.choice([0, 1, 255, rng.randrange(256)])
        elif kind == "places":
            data[first : first + size], data[second : second + size] = (
                data[second : second + size],
                data[first : first + size],
            )
        elif kind == "zeros":
            data += bytes(rng.choice([1, 3, size, 2 * size, 2000 * size]))
        elif len(data) > size:
            del data[len(data) - rng.choice([1, 3, size]) :]
        data += bytes(max(0, size - len(data)))
    return bytes(data)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_damaged_indexes_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path, kind: str) -> None:
    """Mismatches came in another order, and times were looked for where Kafka does not begin to read."""
    options: tuple[list[str], ...] = ([], [], ["--deep-iteration"], ["--verify-index-only"], ["--index-sanity-check"])
    offsets, times = struct.Struct(">ii"), struct.Struct(">qi")
    for seed in range(200):
        rng = random.Random(f"{kind} {seed}")
        base = rng.choice([0, 0, 100, 1 << 31])
        log_file, data, offset, ends = tmp_path / f"{base:020d}.log", b"", base, []
        for number in range(rng.randint(2, 6)):
            count = rng.randint(1, 3)
            values = [(NOW + number * 1000 + i, None, bytes(rng.randint(1, 30)), ()) for i in range(count)]
            data, offset = data + build(values, base_offset=offset), offset + count
            ends.append(offset - 1 - base)
        log_file.write_bytes(data)
        at = positions(data)[:-1]
        near = [-INT_MAX - 1, -5, -1, 0, 1, 2, 3, 5, 7, INT_MAX]
        index = b"".join(offsets.pack(*pair) for pair in zip(ends, at, strict=True))
        time_index = b"".join(times.pack(NOW + n * 1000 + rng.randint(0, 1), end) for n, end in enumerate(ends))
        if kind == "index" or rng.random() < 0.7:
            places = [*near, *at, len(data) - 1, len(data), len(data) + 1]
            index = spoiled_index(rng, index, offsets, {"offset": near, "position": places})
        if kind == "timeindex" and rng.random() < 0.6:
            stamps = [NOW - 1, NOW, NOW + 1000, NOW + 2000, NOW + 10**6, -1, 0]
            time_index = spoiled_index(rng, time_index, times, {"time": stamps, "offset": near})
        log_file.with_suffix(".index").write_bytes(index)
        same(
            java, log_file.with_suffix(f".{kind}"), index if kind == "index" else time_index, rng.choice(options), seed
        )


def message(offset: int, magic: int, attributes: int, key: bytes | None, value: bytes | None) -> bytes:
    """A message of a format before v2."""
    body = struct.pack(">bB", magic, attributes) + (struct.pack(">q", NOW + offset) if magic else b"")
    for one in (key, value):
        body += struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def test_messages_of_formats_before_v2_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        magic = rng.randrange(2)
        inner = b"".join(
            message(
                i, rng.choice([magic, magic, 0, 1]), rng.choice([0, 0, 8, 1]) if rng.random() < 0.1 else 0, b"k", b"v"
            )
            for i in range(rng.randrange(4))
        )
        inner = inner[: len(inner) - rng.choice([0, 0, 3])]
        codec = rng.choice([1, 2, 3])
        wrapped = message(11, magic, codec | rng.choice([0, 8]), None, compress(codec, inner))
        data = bytearray(message(5, magic, 0, b"k", b"v") + wrapped + message(12, magic, 8, None, None))
        if rng.random() < 0.5:
            data[rng.randrange(len(data))] = rng.randrange(256)
        same(java, tmp_path / f"{0:020d}.log", bytes(data), rng.choice(OPTIONS[:4]), seed)


def records() -> dict[str, list[tuple[bytes | None, bytes | None]]]:
    """Keys and values of Kafka's own topics, by the option that decodes them."""
    uuid = bytes(range(16))
    partition = PartitionRecord(partition_id=0, topic_id=uuid, replicas=[1], isr=[1], leader=1)
    values = [
        NoOpRecord(), FeatureLevelRecord(name="f", feature_level=1), partition,
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
    ]  # fmt: skip
    commit = OffsetCommitKey(group="g", topic="t", partition=0)
    return {
        "--cluster-metadata-decoder": [(None, pack_metadata(one)) for one in values],
        "--offsets-decoder": [
            (pack_versioned(commit, 1), pack_versioned(OffsetCommitValue(offset=1, metadata=""), 3)),
            (pack_versioned(GroupMetadataKey(group="g"), 2), None),
        ],
    }


def spoiled(rng: random.Random, data: bytes | None) -> bytes | None:
    """The bytes cut short, gone, longer or with others among them; none that make text no UTF-8."""
    if data is None or rng.random() < 0.1:
        return rng.choice([None, b"", b"\0\0"])
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data + bytes(rng.choice([0, 0, 1, 4])))
    changed[rng.choice([at for at in (0, 2, 3, 4, 5) if at < len(changed)])] = rng.choice([0, 1, 2, 3, 5, 127])
    return bytes(changed)


@pytest.mark.parametrize("decoder", ["--cluster-metadata-decoder", "--offsets-decoder"])
def test_damaged_records_of_kafkas_topics_are_told_as_kafka_tells_them(
    java: JavaTools, tmp_path: Path, decoder: str
) -> None:
    known = records()[decoder]
    for seed in range(200):
        rng = random.Random(seed)
        key, value = rng.choice(known)
        spoils_key = decoder == "--offsets-decoder" and rng.random() < 0.5
        if spoils_key:
            key = spoiled(rng, key)
        else:
            value = spoiled(rng, value)
        data = build([(NOW, key, value, ())])
        same(java, tmp_path / f"{0:020d}.log", data, [decoder], seed)


def test_damaged_control_records_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path) -> None:
    leader = b"\0\0\0\0\0\1\2\0\0\0\1\0\2\0\0\0\1\0\0"
    for seed in range(200):
        rng = random.Random(seed)
        kind = rng.randrange(8)
        key = control_key(kind, rng.choice([0, 0, 1, -1]))
        value = leader if kind == 2 else b"\0\0\0\0\0\5\0\0\0\0\0"
        if rng.random() < 0.3:
            key_or_none = spoiled(rng, key)
        else:
            key_or_none, value = key, spoiled(rng, value) or b""
        shown = None if rng.random() < 0.1 else value
        data = build([(NOW, key_or_none, shown, ())], control=True)
        same(java, tmp_path / f"{0:020d}.log", data, ["--deep-iteration"], seed)


def test_damaged_snapshots_of_producers_are_told_as_kafka_tells_them(java: JavaTools, tmp_path: Path) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        count = rng.randint(0, 3)
        entries = b"".join(
            struct.pack(
                ">qhiqiqiq", rng.choice([1, 77]), rng.choice([0, 3, -1]), rng.choice([-1, 7]), rng.choice([-1, 10]),
                rng.choice([0, 2]), NOW, rng.choice([-1, 4]), rng.choice([-1, 8]),
            )
            for _ in range(count)
        )  # fmt: skip
        body = struct.pack(">i", rng.choice([count] * 4 + [-1, 1, 100, INT_MAX])) + entries
        body = body[: rng.choice([len(body)] * 3 + [rng.randrange(len(body))])] + bytes(rng.choice([0, 0, 9, 60]))
        crc = crc32c(body) ^ rng.choice([0, 0, 1])
        data = struct.pack(">hI", rng.choice([1] * 6 + [0, 2, -1]), crc) + body
        same(java, tmp_path / f"{0:020d}.snapshot", data[: rng.choice([len(data)] * 9 + [1])], [], seed)


def test_decoder_classes_are_those_of_kafka(java: JavaTools, tmp_path: Path) -> None:
    """The default decoder leaves bytes, of which Java prints the name of an array: here they are shown."""
    data = build([(NOW, b"\0\0\0\1", b"\0\0\0\0\0\0\0\2", ()), (NOW, None, b"", ()), (NOW, b"\0\1", None, ())])
    api, other = "org.apache.kafka.tools.api.", "org.apache.kafka.common.serialization."
    names = [f"{api}{kind}Decoder" for kind in ("String", "Integer", "Long", "")]
    names += ["kafka.serializer.StringDecoder", "no.such.Decoder", "", f"{other}StringDeserializer"]
    file = tmp_path / f"{0:020d}.log"
    for seed, name in enumerate(names):
        same(java, file, data, ["--value-decoder-class", name], seed)
        same(java, file, data, ["--key-decoder-class", name], seed)
        same(java, file, data, ["--value-decoder-class", name, "--cluster-metadata-decoder"], seed)
    arguments = ["--value-decoder-class", f"{api}DefaultDecoder", "--files", str(file)]
    file.write_bytes(build([(NOW, b"k", b"shown", ())]))
    mine, theirs = ours("kafka-dump-log.sh", arguments), java.run(DUMP, arguments)
    assert mine.out == re.sub(r"\[B@\w+", "shown", theirs.out)
    assert (mine.err, mine.status) == (theirs.err, 0)
