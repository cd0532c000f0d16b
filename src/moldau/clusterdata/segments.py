"""Segments read batch by batch or record by record, checksums computed; damaged bytes are rows with the reason.

Files are read through a window and never mapped, so that a log that a running node cuts off ends early and harms
nobody. After damage, reading goes on at the next batch whose checksum is right. Read next: ``jobs``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

from moldau.clusterdata.columns import Column
from moldau.clusterdata.replica_check.folders import directory_of
from moldau.model import TopicPartition
from moldau.model.counted import counted
from moldau.model.named import NamedTuple
from moldau.storage.errors import BrokenFile
from moldau.storage.names import LOG, META, parse_folder, parse_offset_name
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, MIN_LENGTH, BatchHeader, read_header, records_of
from moldau.wire.compression import BatchError, decompress
from moldau.wire.crc import crc32c

WINDOW_BYTES = 4 << 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAGIC = 2
NO_BATCH = "no batch begins here"
CUT_SHORT = "a batch that is cut short, or is being written"
_CRC_FROM = 21
_MAGIC_AT = 16
_INT, _LONG = 1 << 31, 1 << 63
_WRONG = "the checksum is wrong"

PLACE = (
    Column("directory", "string", "The log directory."),
    Column("broker", "int", "The node of the directory's meta.properties; null when there is none to read."),
    Column("topic", "string", "The topic."),
    Column("partition", "int", "The number of the partition."),
    Column("segment", "bigint", "The offset in the segment's name."),
    Column("position", "bigint", "The byte of the segment at which the batch begins."),
    Column("size", "bigint", "The bytes of the batch, or of what is damaged."),
    Column("reason", "string", "What is wrong with it; null when nothing is."),
)
BATCH_COLUMNS = (
    *PLACE,
    Column("base_offset", "bigint", "The offset of its first record; null where no batch was found."),
    Column("last_offset", "bigint", "The offset of its last record."),
    Column("count", "int", "How many records it says it has."),
    Column("epoch", "int", "The leader epoch."),
    Column("magic", "int", "The format: 2, or that of old releases, of which the place alone is read."),
    Column("codec", "string", "none, gzip, snappy, lz4, zstd."),
    Column("crc", "bigint", "The checksum that it carries."),
    Column("crc_ok", "boolean", "Whether that is the checksum of its bytes."),
    Column("producer_id", "bigint", "-1 without an idempotent producer."),
    Column("producer_epoch", "int", "-1 without an idempotent producer."),
    Column("base_sequence", "int", "The sequence number of its first record."),
    Column("transactional", "boolean", "Whether it is part of a transaction."),
    Column("control", "boolean", "Whether its records are the cluster's own marks."),
    Column("max_timestamp", "bigint", "The greatest timestamp of its records, in ms."),
)
RECORD_COLUMNS = (
    *PLACE,
    Column("offset", "bigint", "The record's offset; null where nothing could be read."),
    Column("timestamp", "bigint", "Its timestamp, in ms."),
    Column("key", "binary", "Its key."),
    Column("value", "binary", "Its value."),
    Column("header_keys", "array<string>", "The keys of its headers."),
    Column("control", "boolean", "Whether it is a mark of the cluster's own."),
)

Row = tuple[object, ...]


class ListedSegment(NamedTuple):
    """A segment of one broker's replica. ``is_last``: its end may be under way. ``high_watermark`` is that of the
    directory's checkpoint."""

    path: str
    directory: str
    broker: int | None
    topic: str
    partition: int
    base: int
    is_last: bool
    high_watermark: int | None = None


class FoundBatch(NamedTuple):
    """A batch and its bytes, or (no header) ``size`` bytes that are none."""

    position: int
    size: int
    header: BatchHeader | None
    reason: str | None
    data: memoryview


def segments(path: str, topics: Collection[str] = ()) -> list[ListedSegment]:
    """The segments in a folder and below, of all or of some topics. FileNotFoundError when there is no folder."""
    top = Path(path)
    if not top.is_dir():
        raise FileNotFoundError(2, "no such folder", path)
    folders: dict[Path, list[tuple[int, Path]]] = {}
    for file in top.rglob(f"*{LOG}"):
        name = parse_offset_name(file.name)
        partition = parse_folder(file.parent.name)
        if name is None or name.state or partition is None or (topics and partition.topic not in topics):
            continue
        if name.offset >= _LONG or partition.partition >= _INT:
            continue  # a name that no broker gives
        folders.setdefault(file.parent, []).append((name.offset, file))
    of: dict[Path, tuple[int | None, dict[TopicPartition, int]]] = {}
    found: list[ListedSegment] = []
    for folder, files in sorted(folders.items()):
        home = folder.parent
        if home not in of:
            of[home] = _home(home)
        broker, marks = of[home]
        named = parse_folder(folder.name)
        assert named is not None
        files.sort()
        for base, file in files:
            last = base == files[-1][0]
            found.append(ListedSegment(str(file), str(home), broker, *named, base, last, marks.get(named)))
    return found


def _home(path: Path) -> tuple[int | None, dict[TopicPartition, int]]:
    """The node of a log directory, and its high watermarks, as far as its files can be read."""
    if not (path / META).exists():
        return None, {}
    try:
        told = directory_of(path)
    except (BrokenFile, OSError, ValueError):
        return None, {}
    return told.broker, dict(told.high_watermarks)


class _Window:
    """Some bytes of a file, of which those before a place may be forgotten."""

    def __init__(self, file: IO[bytes], size: int, window_bytes: int) -> None:
        self._file = file
        self._size = size
        self._window_bytes = window_bytes
        self._at = 0
        self.data = b""

    def have(self, position: int, size: int) -> bool:
        """Whether the file has so many bytes there; they are in ``data`` then, from ``index(position)`` on."""
        if position + size <= self._at + len(self.data) and position >= self._at:
            return True
        if position + size > self._size:
            return False
        self.data = self.data[position - self._at :] if position >= self._at else b""
        self._at = position
        self._file.seek(position + len(self.data))
        self.data += self._file.read(max(size, self._window_bytes) - len(self.data))
        return len(self.data) >= size

    def index(self, position: int) -> int:
        """Where a byte of the file stands in ``data``."""
        return position - self._at

    def view(self, position: int, size: int) -> memoryview:
        """Bytes that are there."""
        at = self.index(position)
        return memoryview(self.data)[at : at + size]


def scan(path: str, *, checksums: bool = True, window_bytes: int = WINDOW_BYTES) -> Iterator[FoundBatch]:
    """Everything in a segment, in its order: each byte is of one ``FoundBatch``. OSError when it cannot be opened."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        window = _Window(file, size, window_bytes)
        at, expected = 0, -1
        while at < size:
            found = _batch(window, at, size, expected, checksums)
            if found is not None and found.reason is _WRONG:  # a wrong length may end where another batch ends
                end = at + found.size
                after = _next_sound(window, at + 1, end)
                found = None if after < end else _batch(window, at, size, expected, checksums)
            if found is None:
                after = _next_sound(window, at + 1, size)
                reason = CUT_SHORT if after == size and _cut_short(window, at, size) else NO_BATCH
                yield FoundBatch(at, after - at, None, reason, memoryview(b""))
                at = after
                continue
            yield found
            at += found.size
            assert found.header is not None
            if found.reason is None:
                expected = found.header.next_offset


def _batch(window: _Window, at: int, size: int, expected: int, checksums: bool) -> FoundBatch | None:
    """The batch at a place; None when none is, or its length cannot be believed."""
    if not window.have(at, HEADER_SIZE):
        return None
    header = read_header(window.data, window.index(at))
    whole = header.length + LENGTH_OVERHEAD
    if header.length < MIN_LENGTH or not window.have(at, whole):
        return None
    data = window.view(at, whole)
    reason = None
    if header.magic != MAGIC:
        if header.magic not in (0, 1):
            return None
        reason = f"a batch of format {header.magic}: only its place is read"
    elif checksums and crc32c(data[_CRC_FROM:]) != header.crc:
        reason = _WRONG
    elif header.last_offset_delta < 0:
        reason = f"it ends {counted(-header.last_offset_delta, 'offset')} before it begins"
    elif header.base_offset < expected:
        reason = f"offset {header.base_offset} comes after offset {expected - 1}"
    if reason is _WRONG and at + whole < size:  # the length may be what is wrong
        following = at + whole
        if not window.have(following, HEADER_SIZE):
            return None
        if not _likely(read_header(window.data, window.index(following)), following, size):
            return None
        if not window.have(at, whole):
            return None
        data = window.view(at, whole)
    return FoundBatch(at, whole, header, reason, data)


def _cut_short(window: _Window, at: int, size: int) -> bool:
    """Whether what begins there could be a batch, if the file went on."""
    if size - at < HEADER_SIZE:
        return True
    if not window.have(at, HEADER_SIZE):
        return True
    header = read_header(window.data, window.index(at))
    return header.magic == MAGIC and header.length + LENGTH_OVERHEAD > size - at


def _likely(header: BatchHeader, at: int, size: int) -> bool:
    """Whether it could be the header of a batch that ends in the file."""
    return (
        header.magic == MAGIC
        and header.length >= MIN_LENGTH
        and at + header.length + LENGTH_OVERHEAD <= size
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
        and header.leader_epoch >= -1
    )


def _next_sound(window: _Window, at: int, size: int) -> int:
    """Where the next batch with a right checksum begins that ends at ``size`` or before; ``size`` if there is none."""
    while at < size and window.have(at, HEADER_SIZE):
        index = window.index(at)
        magic = window.data.find(MAGIC, index + _MAGIC_AT)
        if magic < 0:
            at += len(window.data) - index - _MAGIC_AT
            continue
        at += magic - _MAGIC_AT - index
        if not window.have(at, HEADER_SIZE):
            break
        header = read_header(window.data, window.index(at))
        whole = header.length + LENGTH_OVERHEAD
        sound = _likely(header, at, size) and window.have(at, whole)
        if sound and crc32c(window.view(at, whole)[_CRC_FROM:]) == header.crc:
            return at
        at += 1
    return size


def batch_rows(of: ListedSegment, until: int | None = None, *, checksums: bool = True) -> Iterator[Row]:
    """A row of ``BATCH_COLUMNS`` for each batch and each damaged place, of batches those that begin before ``until``.
    A segment that cannot be read is one row."""
    place = (of.directory, of.broker, of.topic, of.partition, of.base)
    nothing = (None,) * (len(BATCH_COLUMNS) - len(PLACE))
    for found in _wanted(of, until, checksums):
        header = found.header
        if header is None:
            yield (*place, found.position, found.size, found.reason, *nothing)
            continue
        if header.magic != MAGIC:
            yield (*place, found.position, found.size, found.reason, header.base_offset, None, None, None, header.magic,
                   *nothing[5:])  # fmt: skip
            continue
        codec = header.codec
        yield (
            *place, found.position, found.size, found.reason, header.base_offset, header.last_offset, header.count,
            header.leader_epoch, header.magic, CODECS[codec] if codec < len(CODECS) else str(codec), header.crc,
            None if not checksums else found.reason is not _WRONG, header.producer_id, header.producer_epoch,
            header.base_sequence, header.is_transactional, header.is_control, header.max_timestamp,
        )  # fmt: skip


def record_rows(of: ListedSegment, until: int | None = None) -> Iterator[Row]:
    """A row of ``RECORD_COLUMNS`` for each record before ``until``, and for each damaged place."""
    place = (of.directory, of.broker, of.topic, of.partition, of.base)
    for found in _wanted(of, until, True):
        header = found.header
        here = (*place, found.position, found.size)
        if header is None or found.reason is not None:
            yield (*here, found.reason, None, None, None, None, None, None)
            continue
        try:
            data = decompress(header.codec, found.data[HEADER_SIZE:])
            for record in records_of(header, data):
                if until is None or record.offset < until:
                    keys = [name for name, _ in record.headers]
                    yield (*here, None, record.offset, record.timestamp, record.key, record.value, keys,
                           header.is_control)  # fmt: skip
        except BatchError as error:
            yield (*here, str(error), None, None, None, None, None, None)


def _wanted(of: ListedSegment, until: int | None, checksums: bool) -> Iterator[FoundBatch]:
    expected = of.base
    try:
        for found in scan(of.path, checksums=checksums):
            header = found.header
            if header is not None:
                is_sound = found.reason is None
                at = header.base_offset if is_sound else min(header.base_offset, expected)  # what is wrong may be that
                if until is not None and at >= until:
                    continue
                if is_sound:
                    expected = max(expected, header.next_offset)
            elif until is not None and of.is_last and expected >= until:
                continue  # what comes after all that is wanted
            yield found
    except OSError as error:
        yield FoundBatch(0, 0, None, f"it cannot be read: {error.strerror or error}", memoryview(b""))
