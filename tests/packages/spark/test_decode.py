"""The Arrow decoder gives what the record reader gives, for every codec and any cut, and refuses what is corrupt."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model import TopicPartition
from moldau.spark import frames
from moldau.spark.decode import Decoder, next_offset
from moldau.spark.feed import Aborted
from moldau.spark.rows import ALL_COLUMNS
from moldau.wire.batch import ControlType, build, control_key, headers, positions, records
from moldau.wire.compression import BatchError, Codec

SOURCE = TopicPartition("orders", 3)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

maybe_bytes = st.none() | st.binary(max_size=300)
header = st.tuples(st.text(max_size=8), maybe_bytes)
entry = st.tuples(st.integers(-(1 << 45), 1 << 45), maybe_bytes, maybe_bytes, st.lists(header, max_size=4))
batch = st.tuples(st.lists(entry, min_size=1, max_size=20), st.sampled_from(Codec))


def log_of(batches: list[tuple[list, Codec]], gap: int = 0) -> bytes:
    parts, offset = [], 0
    for entries, codec in batches:
        parts.append(build(entries, codec=codec, base_offset=offset))
        offset += len(entries) + gap
    return b"".join(parts)


def rows_of(data: bytes, start: int = 0, end: int = 1 << 60, **how: Any) -> list[dict]:
    decoder = Decoder(SOURCE, ALL_COLUMNS)._replace(**how)
    return [row for each in decoder.decode(data, start, end) for row in each.to_pylist()]


def whole(data: bytes, **how: Any) -> None:
    """Decode all there is; whatever comes out is sound Arrow."""
    for each in Decoder(SOURCE, ALL_COLUMNS)._replace(**how).decode(data, 0, 1 << 60):
        each.validate(full=True)


def expected(data: bytes) -> list[tuple]:
    return [
        (each.offset, each.timestamp, each.key, each.value, each.headers or None)
        for pos, _ in headers(data)
        for each in records(data, pos)
    ]


def seen(rows: list[dict]) -> list[tuple]:
    return [
        (
            row["offset"],
            (row["timestamp"] - EPOCH) // datetime.timedelta(milliseconds=1),
            row["key"],
            row["value"],
            None if row["headers"] is None else [(each["key"], each["value"]) for each in row["headers"]],
        )
        for row in rows
    ]


@settings(max_examples=30)
@given(st.lists(batch, min_size=1, max_size=5), st.integers(0, 3))
def test_every_field_of_every_record_is_what_the_record_reader_says(batches, gap):
    data = log_of(batches, gap)
    assert seen(rows_of(data)) == expected(data)


@settings(max_examples=30)
@given(st.lists(batch, min_size=1, max_size=4), st.integers(0, 60), st.integers(0, 60))
def test_only_offsets_of_the_asked_range_come_out(batches, start, end):
    data = log_of(batches)
    assert seen(rows_of(data, start, end)) == [each for each in expected(data) if start <= each[0] < end]


@settings(max_examples=30)
@given(st.lists(batch, min_size=1, max_size=3), st.integers(1, 2000))
def test_bounded_batches_hold_the_same_rows_and_are_bounded(batches, target):
    data = log_of(batches)
    decoder = Decoder(SOURCE, ALL_COLUMNS, target_bytes=target)
    found = list(decoder.decode(data, 0, 1 << 60))
    assert seen([row for each in found for row in each.to_pylist()]) == expected(data)
    assert all(each.schema == decoder.schema for each in found)
    assert all(each.num_rows == 1 or weight(each) <= 2 * target for each in found)


def weight(rows: pa.RecordBatch) -> int:
    return sum(64 + len(row["key"] or b"") + len(row["value"] or b"") for row in rows.to_pylist())


@settings(max_examples=30)
@given(st.lists(batch, min_size=1, max_size=2), st.data())
def test_a_flipped_bit_is_refused_by_name_or_harmless_never_a_crash(batches, data):
    log = bytearray(log_of(batches))
    at = data.draw(st.integers(0, len(log) - 1))
    log[at] ^= 1 << data.draw(st.integers(0, 7))
    for crcs in (True, False):
        with contextlib.suppress(BatchError):
            whole(bytes(log), check_crcs=crcs)


@settings(max_examples=30)
@given(batch, st.data())
def test_garbled_records_behind_a_switched_off_checksum_never_crash(one, data):
    log = bytearray(build(one[0]))
    for _ in range(data.draw(st.integers(1, 4))):
        log[data.draw(st.integers(61, len(log) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BatchError):
        whole(bytes(log), check_crcs=False)


@pytest.mark.parametrize("place", [66, 67], ids=["length", "headers"])
@pytest.mark.parametrize("varint", [b"\x80" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01"], ids=["1<<62", "max"])
def test_a_length_or_count_too_large_to_add_to_is_corrupt(place, varint):
    """Twice the count, and a position and the length, would wrap around to less than nothing."""
    log = bytearray(build([(1, None, bytes(30), ())]))
    assert log[66] == 60  # the value's length, before the value and the number of headers
    log[66] = 0
    log[place : place + len(varint)] = varint
    with pytest.raises(BatchError, match="beyond its record|more headers than it has bytes"):
        rows_of(bytes(log), check_crcs=False)


def test_a_flipped_bit_in_a_value_is_caught_by_the_checksum():
    log = bytearray(build([(1, b"k", b"value", ())]))
    log[-3] ^= 1
    with pytest.raises(BatchError, match=r"orders-3, read from offset 0: the batch at offset 0 is corrupt"):
        rows_of(bytes(log))


def test_a_corrupt_batch_behind_the_range_is_for_whoever_reads_there():
    log = bytearray(build([(1, b"k", b"one", ())]) + build([(1, b"k", b"two", ())], base_offset=1))
    log[-3] ^= 1
    assert [row["value"] for row in rows_of(bytes(log), 0, 1)] == [b"one"]
    with pytest.raises(BatchError, match="the batch at offset 1 is corrupt"):
        rows_of(bytes(log), 0, 2)


def test_a_partial_last_batch_is_left_alone():
    whole, partial = build([(1, b"k", b"v", ())]), build([(1, b"k", b"w", ())], base_offset=1)
    for cut in range(len(partial)):
        data = whole + partial[:cut]
        assert [row["value"] for row in rows_of(data)] == [b"v"]
        assert next_offset(data, 0) == 1
    assert next_offset(b"", 17) == 17


def test_log_append_time_is_the_batch_time_of_every_record():
    data = bytearray(build([(5, None, b"a", ()), (9, None, b"b", ())]))
    data[22] |= 8
    rows = rows_of(bytes(data), check_crcs=False)
    assert [row["timestampType"] for row in rows] == [1, 1]
    assert {row["timestamp"] for row in rows} == {EPOCH + datetime.timedelta(milliseconds=9)}


def transaction(kind: int, offset: int, producer: int) -> bytes:
    marker = [(1, control_key(kind), b"\0\0\0\0\0\0", ())]
    return build(marker, base_offset=offset, producer_id=producer, producer_epoch=0, control=True, transactional=True)


def test_control_batches_and_aborted_transactions_are_left_out():
    def of(producer: int, offset: int, value: bytes) -> bytes:
        return build(
            [(1, None, value, ())], base_offset=offset, producer_id=producer, producer_epoch=0, transactional=True
        )

    data = b"".join([
        of(1, 0, b"aborted"),
        of(2, 1, b"kept"),
        build([(1, None, b"plain", ())], base_offset=2),
        transaction(ControlType.ABORT, 3, 1),
        of(1, 4, b"second try"),
        transaction(ControlType.COMMIT, 5, 1),
        transaction(ControlType.COMMIT, 6, 2),
    ])  # fmt: skip
    decoder = Decoder(SOURCE, ("value",))

    def values(aborted: list[Aborted]) -> list[bytes]:
        return [row["value"] for each in decoder.decode(data, 0, 99, aborted) for row in each.to_pylist()]

    assert values([Aborted(1, 0)]) == [b"kept", b"plain", b"second try"]
    assert values([]) == [b"aborted", b"kept", b"plain", b"second try"]


def test_only_the_chosen_columns_are_made():
    rows = rows_of(build([(1, b"k", b"v", [("h", b"1")])]), columns=("partition", "offset"))
    assert rows == [{"partition": 3, "offset": 0}]


def test_the_schema_is_the_one_that_spark_derives():
    from pyspark.sql.pandas.types import to_arrow_schema

    from moldau.spark.rows import schema

    assert to_arrow_schema(schema(ALL_COLUMNS), timezone="UTC") == Decoder(SOURCE, ALL_COLUMNS).schema


LONG = [bytes([n]) * (13 + n) for n in range(20)]


@pytest.mark.parametrize(
    "values",
    [LONG, [None, *LONG, None], [None] * 20, [*LONG, b"123456789012"], [b"short", None, *LONG], [b""] * 9],
    ids=["long", "long and null", "null", "one of twelve bytes", "mixed", "empty"],
)
def test_values_are_given_whole_whatever_their_lengths(values):
    data = build([(1000, value, value, [("h", value)]) for value in values])
    whole(data)
    assert [(row["key"], row["value"], row["headers"][0]["value"]) for row in rows_of(data)] == [
        (value, value, value) for value in values
    ]


@pytest.mark.parametrize("way", [frames._walk_all, frames._walk_each])
def test_records_too_long_for_a_length_of_two_bytes_are_found_among_others(way):
    sizes = [10, 100, 8_100, 8_200, 5, 70_000, 3_000_000, 1]
    data = build([(1000, b"k", bytes(size), ()) for size in sizes]) + build([(1000, b"k", b"v", ())])
    body, end = way(frames.find_batches(data, check_crcs=True, end=1 << 62))
    assert body.size == end.size == len(sizes) + 1
    assert [row["value"] for row in rows_of(data)] == [*map(bytes, sizes), b"v"]


@settings(max_examples=30)
@given(st.lists(batch, min_size=1, max_size=6))
def test_both_ways_through_the_records_find_the_same_places(batches):
    data = log_of([(entries, Codec.NONE) for entries, _ in batches])
    found = frames.find_batches(data, check_crcs=True, end=1 << 62)
    together, alone = frames._walk_all(found), frames._walk_each(found)
    assert together[0].tolist() == alone[0].tolist()
    assert together[1].tolist() == alone[1].tolist()


@settings(max_examples=30)
@given(st.lists(batch, min_size=1, max_size=6), st.integers(0, 200))
def test_a_buffer_that_was_walked_before_is_read_the_same(batches, cut):
    data = log_of(batches)
    data = data[: len(data) - min(cut, len(data))]
    *starts, _ = positions(data)
    assert starts == [at for at, _ in headers(data)]
    decoder = Decoder(SOURCE, ALL_COLUMNS)
    again = [row for each in decoder.decode(data, 0, 1 << 60, (), starts) for row in each.to_pylist()]
    assert again == rows_of(data)


def test_a_timestamp_too_large_for_spark_stays_in_the_far_future():
    rows = next(Decoder(SOURCE, ("timestamp",)).decode(build([(1 << 62, None, b"v", ()), (1, None, b"v", ())]), 0, 9))
    far, near = rows.column("timestamp").cast(pa.int64()).to_pylist()
    assert far > 1 << 62
    assert near == 1000


@pytest.mark.parametrize("ms", [(1 << 63) // 1000, -((1 << 63) // 1000), 1 << 53, (1 << 53) + 1])
def test_the_largest_timestamps_that_spark_has_are_given_to_the_millisecond(ms: int) -> None:
    rows = next(Decoder(SOURCE, ("timestamp",)).decode(build([(ms, None, b"v", ())]), 0, 9))
    assert rows.column("timestamp").cast(pa.int64()).to_pylist() == [ms * 1000]
