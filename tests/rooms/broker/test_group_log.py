"""Group records in batches, and back: sizes, transactions, and what cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from moldau.broker.group_log import Replay, batches_of
from moldau.groups.codec import pack
from moldau.groups.records import OffsetRecord, StoredOffset
from moldau.wire import batch
from moldau.wire.batch import ControlType, build, control_key


def record(offset: int) -> OffsetRecord:
    return OffsetRecord("g", "t", 0, StoredOffset(offset, -1, "", 0))


class OldLog:
    """As much of a log as a replay reads."""

    def __init__(self, *batches: bytes) -> None:
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.batches: list[tuple[int, bytes]] = []
        for data in batches:
            written = bytearray(data)
            batch.patch(written, 0, self.log_end_offset, 0)
            self.batches.append((self.log_end_offset, bytes(written)))
            self.log_end_offset = batch.read_header(written).next_offset

    def read(self, offset: int, max_bytes: int, *, up_to: int) -> bytes:
        return next((data for base, data in self.batches if base >= offset), b"")


def written(*records: OffsetRecord, **facts: Any) -> bytes:
    return build([(0, *pack(one), ()) for one in records], **facts)


def end(producer_id: int, kind: ControlType) -> bytes:
    return build([(0, control_key(kind), b"\x00" * 6, ())], producer_id=producer_id, control=True, transactional=True)


def replayed(*batches: bytes) -> Sequence[int]:
    log: Any = OldLog(*batches)
    records = [one for one in Replay(log, log.log_end_offset).records() if one is not None]
    return [one.value.offset for one in records if isinstance(one, OffsetRecord) and one.value is not None]


def test_appends_share_batches_up_to_a_size_and_are_never_split() -> None:
    appends = [(seq, (record(seq), record(seq))) for seq in range(10)]
    one = list(batches_of(appends, 0, 1 << 20))
    assert [seqs for _, seqs in one] == [list(range(10))]
    assert replayed(one[0][0]) == [offset for seq in range(10) for offset in (seq, seq)]
    assert [seqs for _, seqs in batches_of(appends, 0, 1)] == [[seq] for seq in range(10)]
    assert list(batches_of([], 0, 1)) == []


def test_a_log_is_read_in_order() -> None:
    assert replayed(written(record(1), record(2)), written(record(3))) == [1, 2, 3]


def test_offsets_of_transactions_count_from_their_commit_marker_on() -> None:
    assert replayed(
        written(record(1), producer_id=7, transactional=True),
        written(record(2), producer_id=8, transactional=True),
        written(record(3)),
        end(8, ControlType.ABORT),
        end(7, ControlType.COMMIT),
        written(record(4), producer_id=9, transactional=True),
    ) == [3, 1]


def test_what_cannot_be_read_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    broken = build([(0, b"\x00\x01\x00", b"", ()), (0, *pack(record(2)), ()), (0, b"\x00\x09new kind", b"", ())])
    mangled = bytearray(written(record(3)))
    mangled[-3] ^= 0x7F
    with caplog.at_level(logging.ERROR, "moldau.groups"):
        assert replayed(written(record(1)), broken, bytes(mangled), written(record(4))) == [1, 2, 4]
    assert "record 1 of a group log cannot be read" in caplog.text
    assert "the batch at offset 4 of a group log is left out: CORRUPT_MESSAGE" in caplog.text
