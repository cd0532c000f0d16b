"""Record batches against laws and against three foreign readers and writers. Read next: src/moldau/wire/batch.py."""

from __future__ import annotations

import datetime
import io
import random

import aiokafka.record.default_records as aio
import kafka.record.default_records as kpy
import kio.records.readers as kio_readers
import kio.records.schema as kio_schema
import kio.records.writers as kio_writers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from moldau.model import Code
from moldau.wire import batch
from moldau.wire.compression import BatchError, Codec
from moldau.wire.varints import varint, varint_at
from tests.examples import examples

NOW = 1_790_000_000_000

nullable = st.none() | st.binary(max_size=40)
header = st.tuples(st.text(max_size=8), nullable)
entry = st.tuples(st.integers(NOW - 5_000, NOW + 5_000), nullable, nullable, st.lists(header, max_size=3))
entries = st.lists(entry, min_size=1, max_size=60)
codecs = st.sampled_from(Codec)

SAMPLE: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (NOW, None, b"", []),
    (NOW + 70, b"k", None, [("h", b"1"), ("nil", None), ("", b"")]),
    (NOW - 9_000_000, b"key" * 30, b"v" * 9_000, []),
    (NOW + 2**33, b"", b"x", [("é" * 70, b"y" * 200)]),
]


def fields(records):
    return [(r.timestamp, r.key, r.value, r.headers) for r in records]


@given(entries, codecs, st.integers(0, 2**62))
def test_what_was_built_is_read_back(records, codec, base_offset):
    data = batch.build(records, codec=codec, base_offset=base_offset)
    head = batch.read_header(data)
    assert batch.check(data, 0, head) is Code.NONE
    assert head.size == len(data)
    assert head.codec == codec
    assert head.count == len(records)
    assert head.next_offset == base_offset + len(records)
    assert head.max_timestamp == max(r[0] for r in records)
    found = list(batch.records(data))
    assert fields(found) == records
    assert [r.offset for r in found] == list(range(base_offset, base_offset + len(records)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_int64_survives_as_a_varint(value):
    assert varint_at(varint(value), 0, 70) == (value, len(varint(value)))


@given(entries, st.integers(0, 2**40), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.booleans())
def test_an_uncompressed_batch_is_byte_for_byte_what_kafka_python_writes(records, pid, epoch, sequence, transactional):
    theirs = kpy.DefaultRecordBatchBuilder(2, 0, transactional, pid, epoch, sequence, 1 << 30)
    for i, (timestamp, key, value, headers) in enumerate(records):
        theirs.append(i, timestamp, key, value, headers)
    ours = batch.build(
        records,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        leader_epoch=-1,
    )
    assert bytes(theirs.build()) == ours[:12] + bytes(theirs.build())[12:16] + ours[16:]


@given(entries)
def test_an_uncompressed_batch_is_byte_for_byte_what_kio_writes(records):
    seconds = [
        (NOW // 1000 * 1000 + t // 1000, k, v, h) for t, k, v, h in records
    ]  # kio keeps whole seconds on reading
    whole = [(t // 1000 * 1000, k, v, h) for t, k, v, h in seconds]
    out = io.BytesIO()
    kio_writers.write_batch(
        out,
        kio_schema.NewRecordBatch(
            producer_id=i64(-1), producer_epoch=i16(-1), base_sequence=i32(-1), attributes=i16(0), records=tuple(
                kio_schema.Record(
                    attributes=i8(0), offset=i64(i),
                    timestamp=TZAwareMicros.parse(datetime.datetime.fromtimestamp(t / 1000, datetime.UTC)),
                    key=k, value=v,
                    headers=tuple(kio_schema.RecordHeader(key=a.encode(), value=b) for a, b in h),
                )
                for i, (t, k, v, h) in enumerate(whole)
            ),
        ),
    )  # fmt: skip
    ours = batch.build(whole, leader_epoch=0)
    assert out.getvalue() == ours
    read, size = kio_readers.read_batch(ours, 0)
    assert size == len(ours)
    assert [(r.key, r.value) for r in read.records] == [(k, v) for _, k, v, _ in whole]


READERS = [
    (reader, codec)
    for reader in (kpy.DefaultRecordBatch, aio.DefaultRecordBatch, aio._DefaultRecordBatchPy)
    for codec in Codec
    if (reader, codec) != (kpy.DefaultRecordBatch, Codec.SNAPPY)  # kafka-python wants a wheel of its own for snappy
]
WRITERS = [
    (writer, codec)
    for writer in (kpy.DefaultRecordBatchBuilder, aio._DefaultRecordBatchBuilderPy)
    for codec in Codec
    if (writer, codec) != (kpy.DefaultRecordBatchBuilder, Codec.SNAPPY)
]


@pytest.mark.parametrize(("reader", "codec"), READERS)
def test_other_clients_read_every_codec(reader, codec):
    theirs = reader(batch.build(SAMPLE, codec=codec, base_offset=11))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == [
        (11 + i, *record) for i, record in enumerate(SAMPLE)
    ]


@pytest.mark.parametrize(("writer", "codec"), WRITERS)
def test_what_other_clients_write_in_every_codec_is_read(writer, codec):
    theirs = writer(2, int(codec), False, -1, -1, -1, 1 << 20)
    sample = [(NOW + i, b"k%d" % i, b"value" * 50, [("h", b"x")]) for i in range(200)]
    for i, (timestamp, key, value, headers) in enumerate(sample):
        theirs.append(i, timestamp, key, value, headers)
    data = bytes(theirs.build())
    head = batch.read_header(data)
    assert batch.check(data, 0, head) is Code.NONE
    assert head.codec == codec
    assert fields(batch.records(data)) == sample


def test_headers_walk_whole_batches_and_stop_at_a_partial_one():
    first, second, third = (batch.build(SAMPLE[:n], base_offset=n * 10) for n in (1, 2, 3))
    joined = first + second + third
    assert [(pos, h.base_offset) for pos, h in batch.headers(joined)] == [
        (0, 10), (len(first), 20), (len(first) + len(second), 30),
    ]  # fmt: skip
    for cut in range(len(joined)):
        ends = [pos + h.size for pos, h in batch.headers(joined[:cut])]
        assert ends == [e for e in (len(first), len(first) + len(second)) if e <= cut]
    assert [pos for pos, _ in batch.headers(joined, len(first))] == [len(first), len(first) + len(second)]


def test_headers_stop_at_zeros_and_at_lengths_no_batch_has():
    good = batch.build(SAMPLE)
    assert [pos for pos, _ in batch.headers(good + bytes(500))] == [0]
    for length in (-1, -12, 0, 48, 2**31 - 1, -(2**31)):
        bad = bytearray(good)
        bad[8:12] = length.to_bytes(4, "big", signed=True)
        assert list(batch.headers(bad)) == []
        assert batch.check(bad, 0, batch.read_header(bad)) is Code.CORRUPT_MESSAGE


def test_a_leader_may_patch_offset_and_epoch_without_a_new_checksum():
    data = bytearray(b"before" + batch.build(SAMPLE, codec=Codec.LZ4))
    batch.patch(data, 6, 2**40, 77)
    head = batch.read_header(data, 6)
    assert (head.base_offset, head.leader_epoch) == (2**40, 77)
    assert batch.check(data, 6, head) is Code.NONE
    assert [r.offset for r in batch.records(data, 6)] == [2**40 + i for i in range(len(SAMPLE))]


@given(entries, codecs, st.randoms())
def test_any_changed_bit_under_the_checksum_is_noticed(records, codec, chance):
    data = bytearray(batch.build(records, codec=codec))
    bit = chance.randrange(16 * 8, len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    assert batch.check(data, 0, batch.read_header(data)) is Code.CORRUPT_MESSAGE


def attempt(data):
    """Read all that can be read; anything but BatchError is a crash."""
    try:
        return list(batch.records(data))
    except BatchError:
        return None


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_cut_at_any_byte_is_refused_by_the_named_error(codec):
    whole = batch.build([(NOW + i, b"k", b"value %d" % i, [("h", None)]) for i in range(20)], codec=codec)
    for cut in range(len(whole)):
        assert attempt(whole[:cut]) is None
        if cut >= batch.HEADER_SIZE:  # the same, with a length that claims the cut is all there is
            short = bytearray(whole[:cut])
            short[8:12] = (cut - 12).to_bytes(4, "big")
            assert attempt(short) is None


@pytest.mark.parametrize("codec", Codec)
def test_flipped_bits_never_crash_a_reader(codec):
    chance = random.Random(codec)
    whole = batch.build(SAMPLE * 3, codec=codec)
    for _ in range(1_500):
        bad = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(bad))
            bad[at] ^= 1 << chance.randrange(8)
        attempt(bad)


@settings(max_examples=examples(300))
@given(st.binary(max_size=200), codecs, st.integers(-1, 40))
def test_arbitrary_bytes_under_a_sound_header_never_crash_a_reader(payload, codec, count):
    data = bytearray(batch.build([(0, None, b"", [])])[: batch.HEADER_SIZE]) + payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[22] = codec
    data[57:61] = count.to_bytes(4, "big", signed=True)
    attempt(data)


def forge(payload, count):
    data = bytearray(batch.build([(0, None, b"", [])])[: batch.HEADER_SIZE]) + payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[57:61] = count.to_bytes(4, "big", signed=True)
    return bytes(data)


@pytest.mark.parametrize(
    ("payload", "count", "says"),
    [
        (bytes(8), 2**31 - 1, "claims 2147483647 records"),
        (bytes(8), -1, "claims -1 records"),
        (b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x00", 1, "1 bytes follow"),
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1, "a record of 7 bytes"),
        (b"\x0c\x00\x00\x00\x01\x80\x80\x01\x00", 1, "a field of 8192 bytes"),
        (b"\x0c\x00\x00\x00\x01\x01\x20", 1, "claims 16 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, "header without a key"),
        (b"\xff\xff\xff\xff\xff\xff\x00", 1, "varint is too long"),
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, "end 1 bytes before"),
    ],
)
def test_a_malformed_record_is_named(payload, count, says):
    with pytest.raises(BatchError, match=says):
        list(batch.records(forge(payload, count)))


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        (b"\x0c\x00\x00\x00\x03\x01\x00", (None, [])),
        (b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01", (None, [("\ufffd", None)])),
    ],
)
def test_what_apache_kafka_reads_as_null_or_as_text_is_read_as_that(payload, wanted):
    (record,) = batch.records(forge(payload, 1))
    assert (record.key, record.headers) == wanted


def test_a_timestamp_beyond_an_int64_wraps_around():
    data = bytearray(batch.build([(0, None, b"a", []), (1, None, b"b", [])]))
    data[27:35] = (2**63 - 1).to_bytes(8, "big")
    assert [record.timestamp for record in batch.records(data)] == [2**63 - 1, -(2**63)]
    again = batch.build([(r.timestamp, r.key, r.value, r.headers) for r in batch.records(data)])
    assert [record.timestamp for record in batch.records(again)] == [2**63 - 1, -(2**63)]


def test_an_old_message_format_is_refused():
    old = bytearray(batch.build(SAMPLE))
    old[16] = 1
    assert batch.check(old, 0, batch.read_header(old)) is Code.CORRUPT_MESSAGE
    with pytest.raises(BatchError, match="format 1"):
        batch.records(old)


def test_a_batch_without_records_is_not_built():
    with pytest.raises(ValueError, match="at least one"):
        batch.build([])


def test_log_append_time_stands_for_every_record():
    data = bytearray(batch.build(SAMPLE))
    data[22] |= 0x08
    head = batch.read_header(data)
    assert head.is_log_append_time
    assert {r.timestamp for r in batch.records(data)} == {head.max_timestamp}


def test_control_batches_say_what_they_are_to_us_and_to_others():
    data = batch.build(
        [(NOW, batch.control_key(batch.ControlType.COMMIT), bytes(6), [])], control=True, transactional=True
    )
    head = batch.read_header(data)
    assert head.is_control
    assert head.is_transactional
    (record,) = batch.records(data)
    assert batch.control_type(record.key) == batch.ControlType.COMMIT
    (theirs,) = kpy.DefaultRecordBatch(data)
    assert theirs.commit
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(BatchError):
            batch.control_type(key)


def test_sequences_wrap_after_the_largest_int32():
    data = batch.build([(NOW, None, b"", [])] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert batch.read_header(data).last_sequence == 0
    assert batch.read_header(batch.build(SAMPLE)).last_sequence == -1


def test_delete_horizon_is_read_only_where_its_bit_stands():
    data = bytearray(batch.build(SAMPLE))
    assert batch.read_header(data).delete_horizon_ms is None
    data[22] |= 0x40
    assert batch.read_header(data).delete_horizon_ms == NOW


@given(entries)
def test_a_builder_knows_its_size_before_it_is_closed(records):
    builder = batch.Builder()
    for i, record in enumerate(records):
        assert builder.append(*record) == i
        assert builder.size == len(builder.finish())
    assert builder.finish(base_sequence=4, producer_id=1, producer_epoch=2) == batch.build(
        records, base_sequence=4, producer_id=1, producer_epoch=2
    )


def test_the_table_of_short_lengths_is_what_varint_gives() -> None:
    assert list(batch._POSITIVE) == [varint(value) for value in range(len(batch._POSITIVE))]
