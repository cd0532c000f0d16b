"""What a batch that cannot be read costs who reads records with a command."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from moldau.admin.record_text import RecordToWrite, as_json, read_json, readable
from moldau.client.reading import Fetched, UnreadableBatch, visible
from moldau.model import Code, TopicPartition
from moldau.wire import batch
from moldau.wire.batch import Record
from moldau.wire.compression import Codec
from moldau.wire.crc import crc32c

PLACE = TopicPartition("orders", 3)


def fetched(data: bytes) -> Fetched:
    return Fetched(Code.NONE, memoryview(data), 3, 3, 3, 0, (), batch.positions(data)[:-1])


def broken() -> bytes:
    """Two batches, the second of which has a sound checksum and a payload that no codec unpacks."""
    sound = batch.build([(0, b"a", b"1", ())])
    second = bytearray(batch.build([(0, b"b", b"2", ()), (0, b"c", b"3", ())], codec=Codec.ZSTD))
    second[0:8] = (1).to_bytes(8, "big")
    second[61:65] = bytes(4)
    second[17:21] = crc32c(memoryview(second)[21:]).to_bytes(4, "big")
    return sound + bytes(second)


def test_a_batch_that_cannot_be_read_is_named_with_its_offsets() -> None:
    records = visible(fetched(broken()), 0)
    assert next(records).value == b"1"
    with pytest.raises(UnreadableBatch, match="of offsets 1 to 2 cannot be read: ") as raised:
        next(records)
    assert raised.value.next_offset == 3


def test_a_command_ends_at_it_in_one_line_that_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[bytes | None] = []

    def take(records: Iterator[batch.Record]) -> None:
        seen.extend(one.value for one in records)

    with pytest.raises(SystemExit) as raised:
        take(readable(PLACE, visible(fetched(broken()), 0)))
    assert raised.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "orders-3: the batch of offsets 1 to 2" in line
    assert "`moldau consume orders:3 --from 3`" in line


def test_a_record_without_a_timestamp_is_read_back() -> None:
    """Messages of v0 have none, which is -1 as in Kafka: it was refused as no number that a record can have."""
    line = json.dumps(as_json(TopicPartition("t", 0), Record(5, -1, b"k", b"v", []))).encode()
    assert read_json(line) == RecordToWrite(b"k", b"v", [], 0, None)
