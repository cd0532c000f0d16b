"""Bytes on disk, written out by hand from Kafka's formats: what we write is that, and what is that we read."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from moldau.model import TopicPartition, uuid_bytes
from moldau.replication.epochs import EpochTable
from moldau.storage.checkpoints import (
    MetaProperties,
    format_clean_shutdown,
    format_epochs,
    format_meta,
    format_offsets,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_epochs,
    parse_meta,
    parse_offsets,
    parse_partition_metadata,
)
from moldau.storage.errors import BrokenFile
from moldau.storage.index import Index
from moldau.storage.names import OffsetFile, doomed_folder, offset_name, parse_folder, parse_offset_name
from moldau.storage.producers import Producers
from moldau.wire.batch import BatchHeader, build, read_header
from tests.packages.storage.faulty_disk import FaultyDisk
from tests.packages.storage.test_log import P, batch

ID = uuid_bytes("oYc3ba5JRYKYtZWqQ5kHbw")


def test_an_offset_index_is_pairs_of_relative_offset_and_position() -> None:
    index = Index()
    index.append(3, 4100)
    index.append(70_000, 8300)
    wanted = bytes.fromhex("00000003 00001004 00011170 0000206c".replace(" ", ""))
    assert index.offset_bytes() == wanted
    assert index.offset_bytes(1) == wanted[8:]
    again = Index.parse(wanted + bytes(64), b"", "x")  # Kafka reserves the whole file and cuts it later
    assert (list(again.offsets), list(again.positions), again.shrunk) == ([3, 70_000], [4100, 8300], True)


def test_a_time_index_is_pairs_of_timestamp_and_relative_offset() -> None:
    index = Index()
    for timestamp, offset in ((1_000_000_000_000, 3), (999, 5), (1_000_000_000_000, 6), (1_000_000_000_001, 9)):
        index.append_time(timestamp, offset)
    wanted = bytes.fromhex("000000e8d4a51000 00000003 000000e8d4a51001 00000009".replace(" ", ""))
    assert index.time_bytes() == wanted
    again = Index.parse(b"", wanted, "x")
    assert (list(again.times), list(again.time_offsets)) == ([10**12, 10**12 + 1], [3, 9])


@pytest.mark.parametrize("broken", [b"1234567", struct.pack(">iiii", 5, 100, 5, 200), struct.pack(">iiii", 5, 9, 6, 8)])
def test_an_index_that_cannot_be_one_is_not_believed(broken: bytes) -> None:
    with pytest.raises(BrokenFile):
        Index.parse(broken, b"", "x")


def test_index_entries_name_the_last_offset_of_the_batch_at_their_position() -> None:
    """As Kafka's DumpLogSegments demands of them."""
    from moldau.storage import LogConfig, LogDirs

    disk = FaultyDisk()
    dirs = LogDirs(disk, ["/d"])
    config = LogConfig(index_interval_bytes=600)
    dirs.load(lambda _: config)
    log = dirs.create(P, ID, config)
    for number in range(20):
        log.append_leader(batch(3, timestamp=10 * number), 0, 0)
    dirs.close()
    data = disk.read("/d/t-0/00000000000000000000.log")
    entries = list(struct.iter_unpack(">ii", disk.read("/d/t-0/00000000000000000000.index")))
    assert len(entries) > 3
    for offset, position in entries:
        assert read_header(data, position).last_offset == offset
    gaps = [later - sooner for (_, sooner), (_, later) in itertools.pairwise(entries)]
    assert all(600 < gap <= 600 + 2 * len(batch(3)) for gap in gaps)
    times = list(struct.iter_unpack(">qi", disk.read("/d/t-0/00000000000000000000.timeindex")))
    assert times[-1] == (192, 59)  # the largest timestamp, and the last offset of its batch


def test_checkpoints_are_lines_of_text() -> None:
    offsets = {TopicPartition("a.b-c", 0): 12, TopicPartition("t", 41): 9_000_000_000}
    text = b"0\n3\na.b-c 0 12\nt 41 9000000000\n"
    assert format_offsets(offsets) == text + b"#crc32c 0 %d\n" % crc32c(text)
    assert parse_offsets(format_offsets(offsets), "x") == offsets
    assert parse_offsets(b"0\n2\na.b-c 0 12\nt 41 9000000000\n", "x") == offsets, "as Apache Kafka writes it"
    assert format_epochs([(0, 0), (3, 170)]) == b"0\n2\n0 0\n3 170\n"
    assert EpochTable(parse_epochs(b"0\n2\n0 0\n3 170\n", "x")).entries() == [(0, 0), (3, 170)]


@pytest.mark.parametrize(
    "text", [b"0", b"1\n0\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"0\n1\nt x 1\n", b"\xff\xfe", b"0\nx\n"]
)
def test_a_broken_checkpoint_is_named(text: bytes) -> None:
    with pytest.raises(BrokenFile, match="somewhere"):
        parse_offsets(text, "somewhere")


def test_small_files_are_as_kafka_writes_them() -> None:
    assert format_partition_metadata(ID) == b"version: 0\ntopic_id: oYc3ba5JRYKYtZWqQ5kHbw"
    assert parse_partition_metadata(b"version: 0\ntopic_id: oYc3ba5JRYKYtZWqQ5kHbw", "x") == ID
    for broken in (b"", b"version: 0\n", b"version: 1\ntopic_id: oYc3ba5JRYKYtZWqQ5kHbw", b"version: 0\ntopic_id: x"):
        with pytest.raises(BrokenFile):
            parse_partition_metadata(broken, "x")
    written = (
        b"#\n#Sat Nov 21 07:50:00 UTC 2026\nnode.id=1\ndirectory.id=oYc3ba5JRYKYtZWqQ5kHbw\nversion=1\ncluster.id=c-1\n"
    )
    meta = MetaProperties("c-1", 1, ID)
    assert parse_meta(written, "x") == meta
    assert parse_meta(format_meta(meta), "x") == meta
    old = MetaProperties("c-1", 0, None, 0)
    assert parse_meta(b"version=0\nbroker.id=0\ncluster.id=c-1\n", "x") == old
    assert parse_meta(format_meta(old), "x") == old
    assert format_clean_shutdown(7) == b'{"version":0,"brokerEpoch":7}'
    assert parse_clean_shutdown(b'{"version":0,"brokerEpoch":7}') == 7
    assert parse_clean_shutdown(b"") == -1  # before KIP-966 the file was empty


@pytest.mark.parametrize("version", ["2", "7", "-1"])
def test_meta_properties_of_a_version_that_nobody_knows_is_refused(version: str) -> None:
    """A newer release may mean something else by the same words. Apache Kafka 4.3.1 does not start on it either."""
    data = f"version={version}\nnode.id=1\ncluster.id=c-1\n".encode()
    with pytest.raises(BrokenFile, match=f"x: version {version} is not known, 0 or 1 is expected"):
        parse_meta(data, "x")


def test_names_of_files_and_folders() -> None:
    assert offset_name(42, ".log") == "00000000000000000042.log"
    assert parse_offset_name("00000000000000000042.timeindex.swap") == OffsetFile(42, ".timeindex", ".swap")
    for other in ("leader-epoch-checkpoint", "partition.metadata", "42.log", "00000000000000000042.tmp"):
        assert parse_offset_name(other) is None
    assert parse_folder("a-b-12") == TopicPartition("a-b", 12)
    for other in ("a", "a-", "-1", "a-1.f00-delete", "a-x", "a-1-stray"):
        assert parse_folder(other) is None
    name = doomed_folder(TopicPartition("t" * 249, 1), "ab" * 16, "-delete")
    assert len(name) == 255
    assert name.endswith("-1." + "ab" * 16 + "-delete")
    assert parse_folder(name) is None


def header(producer_id: int, epoch: int, sequence: int, count: int = 1, **more: Any) -> BatchHeader:
    return read_header(build([(5, None, b"", [])] * count, producer_id=producer_id, producer_epoch=epoch,
                             base_sequence=sequence, **more))  # fmt: skip


def test_a_producer_snapshot_is_kafkas_version_1() -> None:
    producers = Producers()
    producers.record(header(7, 2, 10, 3), 100, 5)
    entry = struct.pack(">qhiqiqiq", 7, 2, 12, 102, 2, 5, -1, -1)
    body = struct.pack(">i", 1) + entry
    wanted = struct.pack(">hI", 1, crc32c(body)) + body
    assert len(entry) == 46
    assert producers.snapshot() == wanted
    again = Producers.parse(wanted, 103, "x")
    assert again.snapshot() == wanted
    for broken in (wanted[:-1], b"", wanted[:8] + b"\x01" + wanted[9:], b"\x00\x02" + wanted[2:]):
        with pytest.raises(BrokenFile):
            Producers.parse(broken, 103, "x")


def test_an_empty_checkpoint_has_no_entries() -> None:
    """Kafka makes its checkpoints empty, and fills them when there is something to say."""
    assert parse_offsets(b"", "x") == {}
    assert parse_epochs(b"", "x") == []


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parsers_in_another_way(data: bytes) -> None:
    for parse in (
        lambda: Producers.parse(data, 0, "x"), lambda: parse_offsets(data, "x"),
        lambda: parse_epochs(data, "x"),
        lambda: parse_meta(data, "x"), lambda: parse_partition_metadata(data, "x"),
        lambda: Index.parse(data, data, "x"),
    ):  # fmt: skip
        try:
            parse()
        except BrokenFile:
            continue
    parse_clean_shutdown(data)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 2**20)), max_size=50), st.integers(0, 50))
def test_an_index_survives_its_bytes(steps: list[tuple[int, int]], start: int) -> None:
    index = Index()
    offset = position = 0
    for step, size in steps:
        offset, position = offset + step, position + size
        index.append(offset, position)
        index.append_time(10**12 + 2**31 * offset, offset)
    again = Index.parse(index.offset_bytes(), index.time_bytes(), "x")
    for name in ("offsets", "positions", "times", "time_offsets"):
        assert getattr(again, name) == getattr(index, name)
    assert (again.saved, again.times_saved, again.shrunk) == (len(steps), len(steps), False)
    start = min(start, len(steps))
    assert index.offset_bytes(start) == index.offset_bytes()[8 * start :]
    assert index.time_bytes(start) == index.time_bytes()[12 * start :]
