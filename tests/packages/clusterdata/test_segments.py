"""Segments as rows: every byte is in one, damaged or not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.clusterdata.columns import arrow_batches
from moldau.clusterdata.segments import (
    BATCH_COLUMNS,
    RECORD_COLUMNS,
    ListedSegment,
    batch_rows,
    record_rows,
    scan,
    segments,
)
from tests.packages.clusterdata.naive import batch_of, fields, replica

NAMES = [one.name for one in BATCH_COLUMNS]
OF_RECORDS = [one.name for one in RECORD_COLUMNS]


def rows_of(segment: ListedSegment, until: int | None = None) -> list[dict[str, object]]:
    return [dict(zip(NAMES, row, strict=True)) for row in batch_rows(segment, until)]


def records_of(segment: ListedSegment, until: int | None = None) -> list[dict[str, object]]:
    return [dict(zip(OF_RECORDS, row, strict=True)) for row in record_rows(segment, until)]


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    made, base = [], 0
    for epoch in sorted(draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))):
        values = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
        made.append(batch_of(base, values, epoch, draw(st.sampled_from([0, 1, 2, 3, 4]))))
        base += len(values) + draw(st.integers(0, 2))
    return made


@settings(deadline=None, max_examples=60)
@given(logs(), st.integers(100, 5000))
def test_the_batches_of_a_log_are_those_that_a_naive_reader_finds(log: list[bytes], window: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        replica(Path(folder) / "d", 7, "orders-0", log)
        (segment,) = segments(folder)
        rows = rows_of(segment)
        found = list(scan(segment.path, window_bytes=window))
    expected = [fields(one) for one in log]
    assert [(r["base_offset"], r["last_offset"], r["epoch"], r["crc"], r["crc_ok"]) for r in rows] == expected
    assert [(r["broker"], r["topic"], r["partition"], r["reason"]) for r in rows] == [(7, "orders", 0, None)] * len(log)
    assert [bytes(one.data) for one in found] == log


@settings(deadline=None, max_examples=150)
@given(logs(), st.data())
def test_a_damaged_log_loses_no_byte_and_no_other_batch(log: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(b"".join(log))
    at = data.draw(st.integers(0, len(whole) - 1))
    size = data.draw(st.integers(1, 30))
    put = data.draw(st.binary(min_size=size, max_size=size))[: len(whole) - at]
    whole[at : at + len(put)] = put
    cut = data.draw(st.integers(0, 80))
    whole = whole[: max(len(whole) - cut, 1)]
    window = data.draw(st.integers(61, 3000))
    with tempfile.TemporaryDirectory() as folder:
        path = replica(Path(folder) / "d", 7, "orders-0", [])
        path.write_bytes(whole)
        found = list(scan(str(path), window_bytes=window))
        (segment,) = segments(folder)
        rows = rows_of(segment)
        told = records_of(segment)
    place = 0
    for one in found:  # every byte is in one row
        assert one.position == place
        assert one.size > 0
        place += one.size
    assert place == len(whole)
    assert [(r["position"], r["size"]) for r in rows] == [(one.position, one.size) for one in found]
    start = 0
    for made in log:
        if start + len(made) <= len(whole) and bytes(whole[start : start + len(made)]) == made:
            (row,) = [r for r in rows if r["position"] == start]
            assert (row["base_offset"], row["last_offset"], row["epoch"], row["crc"], row["crc_ok"]) == fields(made)
        start += len(made)
    assert {r["position"] for r in told} <= {one.position for one in found}
    assert list(arrow_batches(BATCH_COLUMNS, ([r[name] for name in NAMES] for r in rows)))


def test_a_length_that_ends_where_the_next_batch_ends_hides_no_sound_one(tmp_path: Path) -> None:
    log = [batch_of(0, [b"a"]), batch_of(1, [b"b"]), batch_of(2, [b"c"])]
    data = bytearray(b"".join(log))
    data[8:12] = (len(log[0]) + len(log[1]) - 12).to_bytes(4, "big")
    path = replica(tmp_path, 1, "orders-0", log)
    path.write_bytes(data)
    (segment,) = segments(str(tmp_path))
    assert [(row["position"], row["base_offset"]) for row in rows_of(segment)] == [
        (0, None), (len(log[0]), 1), (len(log[0]) + len(log[1]), 2),
    ]  # fmt: skip


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    log = [batch_of(0, [b"a"]), batch_of(1, [b"b"]), batch_of(2, [b"c"])]
    path = replica(tmp_path, 1, "orders-0", log)
    data = bytearray(b"".join(log))
    data[len(log[0]) + 65] ^= 1
    path.write_bytes(data + b"\0" * 20)
    (segment,) = segments(str(tmp_path))
    said = [(row["base_offset"], row["reason"]) for row in rows_of(segment)]
    assert said == [
        (0, None), (1, "the checksum is wrong"), (2, None), (None, "a batch that is cut short, or is being written"),
    ]  # fmt: skip
    assert [(row["offset"], row["value"]) for row in records_of(segment)] == [
        (0, b"a"),
        (None, None),
        (2, b"c"),
        (None, None),
    ]


def test_nothing_from_an_offset_on_is_told_not_even_of_a_batch_under_way(tmp_path: Path) -> None:
    log = [batch_of(0, [b"a", b"b"]), batch_of(2, [b"c"])]
    path = replica(tmp_path, 1, "orders-0", log, high=2)
    path.write_bytes(b"".join(log)[:-3])
    (segment,) = segments(str(tmp_path))
    assert segment.high_watermark == 2
    assert [row["base_offset"] for row in rows_of(segment, 2)] == [0]
    assert [row["offset"] for row in records_of(segment, 1)] == [0]


def test_a_damaged_batch_before_the_end_that_is_wanted_is_told_wherever_it_says_that_it_is(tmp_path: Path) -> None:
    made = [batch_of(base, [b"a", b"b"]) for base in range(0, 8, 2)]
    bent = bytearray(made[1])
    bent[:8] = (1 << 40).to_bytes(8, "big")
    bent[-1] ^= 1
    replica(tmp_path / "d", 7, "orders-0", [made[0], bytes(bent), *made[2:]])
    (segment,) = segments(str(tmp_path))
    assert [one["position"] for one in rows_of(segment, 6)] == [0, len(made[0]), 2 * len(made[0])]
    assert [one["reason"] is None for one in records_of(segment, 6)] == [True, True, False, True, True]
    assert [one["offset"] for one in records_of(segment, 6)] == [0, 1, None, 4, 5]


def test_files_of_old_names_other_topics_and_deleted_segments_are_left_out(tmp_path: Path) -> None:
    replica(tmp_path, 1, "orders-0", [batch_of(0, [b"a"])])
    replica(tmp_path, 1, "other-0", [batch_of(0, [b"a"])])
    (tmp_path / "orders-0" / "00000000000000000009.log.deleted").write_bytes(b"x")
    (tmp_path / "orders-0" / "99999999999999999999.log").write_bytes(b"x")
    (tmp_path / "orders-0" / "notes.log").write_bytes(b"x")
    assert [(one.topic, one.base) for one in segments(str(tmp_path), ("orders",))] == [("orders", 0)]
    with pytest.raises(FileNotFoundError):
        segments(str(tmp_path / "nothing"))


def test_a_segment_that_is_gone_is_a_row_that_says_so(tmp_path: Path) -> None:
    path = replica(tmp_path, 1, "orders-0", [batch_of(0, [b"a"])])
    (segment,) = segments(str(tmp_path))
    path.unlink()
    assert [row["reason"] for row in rows_of(segment)] == ["it cannot be read: No such file or directory"]
