"""Replicas out of the log directories of their brokers: every byte is read and every checksum computed.

Nothing is locked or changed; a node may be running, since nothing above the high watermark in its checkpoint is looked
at. Of a compacted log only what no replica has compacted yet is compared: below, each has batches of its own.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from moldau.clusterdata.replica_check.comparing import Batch, Finding, compare
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.storage.checkpoints import parse_meta, parse_offsets
from moldau.storage.names import CLEANED_TO, HIGH_WATERMARKS, LOG, META, parse_folder, parse_offset_name
from moldau.wire.batch import LENGTH_OVERHEAD, headers
from moldau.wire.crc import crc32c

_CRC_FROM = 21


class Directory(NamedTuple):
    """A log directory: whose it is, and what its checkpoints say."""

    path: str
    broker: int
    high_watermarks: Mapping[TopicPartition, int]
    cleaned_to: Mapping[TopicPartition, int]


class Replica(NamedTuple):
    """A partition's folder in one of them."""

    broker: int
    path: str
    high_watermark: int | None
    cleaned_to: int


class Pace:
    """Holds reading to so many bytes a second; none is no limit."""

    def __init__(self, bytes_per_s: float | None) -> None:
        self._rate = bytes_per_s
        self._began = time.monotonic()
        self._read = 0
        self.total = 0

    def read(self, size: int) -> None:
        """Wait until that much may be read more."""
        self.total += size
        if self._rate is None:
            return
        self._read += size
        ahead = self._read / self._rate - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)


def directories(paths: Sequence[str]) -> list[Directory]:
    """The log directories that paths are, or that lie below them. FileNotFoundError or BrokenFile names a bad one."""
    found = []
    for path in map(Path, paths):
        if not path.is_dir():
            raise FileNotFoundError(2, "No such directory", str(path))
        metas = [path / META] if (path / META).exists() else sorted(path.rglob(META))
        if not metas:
            raise FileNotFoundError(2, f"no {META} in it or below, so it is no log directory", str(path))
        found += [directory_of(meta.parent) for meta in metas]
    return found


def directory_of(path: Path) -> Directory:
    """A log directory by its files; BrokenFile or OSError names a bad one."""
    meta = parse_meta((path / META).read_bytes(), str(path / META))

    def offsets(name: str) -> Mapping[TopicPartition, int]:
        file = path / name
        return parse_offsets(file.read_bytes(), str(file)) if file.exists() else {}

    return Directory(str(path), meta.node_id, offsets(HIGH_WATERMARKS), offsets(CLEANED_TO))


def replicas_in(found: Sequence[Directory]) -> dict[TopicPartition, list[Replica]]:
    """The replicas of each partition, in the order of brokers."""
    replicas: dict[TopicPartition, list[Replica]] = {}
    for one in sorted(found, key=lambda one: one.broker):
        for folder in sorted(Path(one.path).iterdir()):
            partition = parse_folder(folder.name) if folder.is_dir() else None
            if partition is not None:
                known = one.high_watermarks.get(partition)
                replicas.setdefault(partition, []).append(
                    Replica(one.broker, str(folder), known, one.cleaned_to.get(partition, 0))
                )
    return replicas


def verify(replicas: Sequence[Replica], pace: Pace) -> list[Finding]:
    """Compare the replicas of a partition up to the highest of their high watermarks."""
    segments = {replica.broker: _segments(replica.path) for replica in replicas}
    start = max((files[0][0] for files in segments.values() if files), default=0)
    start = max(start, *(_first_offset(files, start) for files in segments.values()), *(r.cleaned_to for r in replicas))
    known = [replica.high_watermark for replica in replicas if replica.high_watermark is not None]
    walks = {id: _walk(files, start, pace) for id, files in segments.items()}
    return compare(walks, max(known, default=0))


def _segments(path: str) -> list[tuple[int, str]]:
    found = []
    for file in Path(path).iterdir():
        parsed = parse_offset_name(file.name)
        if parsed is not None and parsed.kind == LOG and not parsed.state:
            found.append((parsed.offset, str(file)))
    return sorted(found)


def _first_offset(files: Sequence[tuple[int, str]], least: int) -> int:
    """Where the first batch of a log begins: at a segment's name, or later after a compaction."""
    for _, path in files[:1]:
        with open(path, "rb") as file:
            for _, header in headers(file.read(1 << 16)):
                return header.base_offset
    return least


def _walk(files: Sequence[tuple[int, str]], start: int, pace: Pace) -> Iterator[Batch]:
    """Every batch that ends at or after ``start``, its checksum computed."""
    for number, (base, path) in enumerate(files):
        following = files[number + 1][0] if number + 1 < len(files) else None
        if following is not None and following <= start:
            continue
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        if data is None:
            continue
        yield from _batches(data, (base, following), start, pace)
        data.close()


def _batches(data: mmap.mmap, between: tuple[int, int | None], start: int, pace: Pace) -> Iterator[Batch]:
    expected, following = between
    if hasattr(mmap, "MADV_SEQUENTIAL"):
        data.madvise(mmap.MADV_SEQUENTIAL)
    with memoryview(data) as view:
        end = 0
        for position, header in headers(view):
            end = position + LENGTH_OVERHEAD + header.length
            expected = header.next_offset
            if header.last_offset < start:
                continue
            pace.read(header.size)
            with view[position + _CRC_FROM : end] as covered:
                sound = header.magic == 2 and crc32c(covered) == header.crc
            yield Batch(header.base_offset, header.last_offset, header.leader_epoch, header.size, header.crc, sound)
        if end < len(view) and following is not None:  # of the last segment the end may be under way
            yield Batch(expected, following - 1, -1, len(view) - end, 0, sound=False)
