"""Messages of v0 and v1, as another client packs them, come out as batches of v2 with the same records."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from moldau.client.reading import Fetched, read_partition
from moldau.model import Code
from moldau.wire import batch
from moldau.wire.compression import BatchError
from moldau.wire.message_sets import as_batches
from moldau.wire.messages.k01_fetch import FetchResponse

Entry = tuple[int, bytes | None, bytes | None]
ENTRIES: list[Entry] = [
    (1000, b"k", b"v" * 100), (1001, None, b""), (999, b"", None), (1002, b"x", b"y"),
]  # fmt: skip


def message_set(magic: int, entries: list[Entry], base_offset: int = 0, codec: int = 0) -> bytes:
    """A set of messages by kafka-python; its wrapper, when it is packed, has the offset that a broker would give it."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 28)
    inner = 0 if codec and magic else base_offset
    for number, (timestamp, key, value) in enumerate(entries):
        assert builder.append(inner + number, timestamp, key, value) is not None
    data = builder.build()
    if codec:
        data[:8] = (base_offset + len(entries) - 1).to_bytes(8, "big")
    return bytes(data)


def read(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = []
    for at, header in batch.headers(data):
        assert batch.check(data, at, header) is Code.NONE
        found += [(each.offset, each.timestamp, each.key, each.value) for each in batch.records(data, at)]
    return found


def answer(records: bytes, offset: int = 0) -> Fetched | int:
    part = FetchResponse.PartitionData(partition_index=0, records=records, high_watermark=100, log_start_offset=0)
    return read_partition(part, offset)


def with_attributes(data: bytes, attributes: int, timestamp: int | None = None) -> bytes:
    """Every message of a set with these attributes, of v1 with this time, and a checksum that is right."""
    out, at = bytearray(data), 0
    while at < len(out):
        after = at + 12 + int.from_bytes(out[at + 8 : at + 12], "big")
        out[at + 17] |= attributes
        if timestamp is not None:
            out[at + 18 : at + 26] = timestamp.to_bytes(8, "big")
        out[at + 12 : at + 16] = zlib.crc32(out[at + 16 : after]).to_bytes(4, "big")
        at = after
    return bytes(out)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_every_message_is_the_record_that_was_packed(magic: int, codec: int) -> None:
    data = message_set(magic, ENTRIES, 40, codec)
    wanted = [(40 + n, time if magic else -1, key, value) for n, (time, key, value) in enumerate(ENTRIES)]
    assert read(as_batches(data)) == wanted


def test_offsets_that_compaction_left_out_are_left_out() -> None:
    data = b"".join(message_set(1, ENTRIES[:1], offset) for offset in (3, 4, 9))
    found = as_batches(data)
    assert [each[0] for each in read(found)] == [3, 4, 9]
    assert [header.base_offset for _, header in batch.headers(found)] == [3, 9]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_time_that_the_broker_gave_is_every_records(codec: int) -> None:
    found = as_batches(with_attributes(message_set(1, ENTRIES, 0, codec), 0x08, 5000))
    assert [each[1] for each in read(found)] == [5000] * 4
    assert [header.is_log_append_time for _, header in batch.headers(found)] == [True]


def test_what_cannot_be_unpacked_is_named() -> None:
    with pytest.raises(BatchError, match="offset 43 is packed with lz4 in format 0"):
        as_batches(with_attributes(message_set(0, ENTRIES, 40, 1), 0x03))
    with pytest.raises(BatchError, match="the message at offset 0 is packed and has no value"):
        as_batches(with_attributes(message_set(1, [(1, b"k", None)]), 0x01))
    with pytest.raises(BatchError, match="broken gzip payload"):
        as_batches(with_attributes(message_set(1, ENTRIES[:1]), 0x01))


@pytest.mark.parametrize("at", range(12, 60, 3))
def test_a_flipped_bit_is_named(at: int) -> None:
    data = bytearray(message_set(1, ENTRIES[:1]))
    data[at] ^= 0x40
    if at == 12 + 4:  # the format: not an old message any more
        assert as_batches(bytes(data)) == b""
    else:
        with pytest.raises(BatchError, match="the message at offset 0 is corrupt"):
            as_batches(bytes(data))


def test_offsets_that_no_log_has_are_named() -> None:
    """The offset of a message stands outside its checksum."""
    entries = message_set(1, [(1, None, b"a"), (2, None, b"b")], codec=1)
    with pytest.raises(BatchError, match="cannot be made a record"):
        as_batches((-(1 << 63)).to_bytes(8, "big", signed=True) + entries[8:])


def test_an_answer_is_given_as_far_as_it_is_whole_and_asked_on_behind_a_change_of_format() -> None:
    old, new = message_set(1, ENTRIES, 10), batch.build([(7, b"n", b"new", ())], base_offset=14)
    found = answer(old + new + old[:30], 10)
    assert isinstance(found, Fetched)
    assert (found.next_offset, [each[0] for each in read(bytes(found.records))]) == (14, [10, 11, 12, 13])
    assert found.batches == [0]
    found = answer(new + message_set(0, ENTRIES, 15) + new, 14)
    assert isinstance(found, Fetched)
    assert [each[0] for each in read(bytes(found.records))] == [14, 15, 16, 17, 18]
    assert found.next_offset == 19


def test_a_message_that_did_not_fit_is_asked_for_with_its_size() -> None:
    data = message_set(0, ENTRIES[:1])
    assert answer(data[:50]) == len(data)
    with pytest.raises(BatchError, match="claims a size of 3 bytes"):
        answer(data[:8] + (3).to_bytes(4, "big") + data[12:])


def walked(data: bytes, last: int, enough: int) -> list[tuple[int, list[tuple[int, int, bytes | None, bytes | None]]]]:
    """What a reader is given, answer by answer, that is sent all of ``data`` again and again, from offset 40 on."""
    found, offset = [], 40
    while offset <= last:
        records = as_batches(data, offset, enough)
        found.append((len(records), read(records)))
        offset = found[-1][1][-1][0] + 1
    return found


@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (1, 1), (1, 2), (1, 3)])
def test_packed_messages_come_a_few_at_a_time_each_once(magic: int, codec: int) -> None:
    """Also of one message that packs more than is given at once."""
    entries: list[Entry] = [(n, b"%d" % n, bytes(1000)) for n in range(100)]
    data = message_set(magic, entries, 40, codec) + message_set(magic, entries, 140, codec)
    answers = walked(data, 239, 20_000)
    assert [each[0] for _, some in answers for each in some] == list(range(40, 240))
    assert [each[2] for _, some in answers for each in some] == [b"%d" % n for n in range(100)] * 2
    assert max(size for size, _ in answers) < 25_000
    assert len(answers) < 15


def test_no_more_than_one_packed_message_and_what_is_given_is_held_at_once() -> None:
    entries: list[Entry] = [(1, None, bytes(100_000))] * 10
    data = b"".join(message_set(1, entries, offset, 1) for offset in range(0, 400, 10))
    assert len(data) < 100_000
    tracemalloc.start()
    try:
        found = as_batches(data, 5, 2_000_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [each[0] for each in read(found)] == list(range(5, 25))
    assert most < 10_000_000, "of forty that pack a million bytes each"


def test_messages_that_are_all_before_what_was_asked_for_are_refused_and_not_asked_for_for_ever() -> None:
    with pytest.raises(BatchError, match="that came for offset 44, none is of it or of a later one"):
        answer(message_set(0, ENTRIES, 40, 1), 44)
    with pytest.raises(BatchError, match="that came for offset 41"):
        answer(message_set(1, ENTRIES[:1], 40), 41)
