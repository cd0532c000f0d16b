"""Replicas out of the log directories of their brokers: every byte is read and every checksum computed.

Nothing is locked or changed; a node may be running, since nothing above the high watermark in its checkpoint is looked
at. Of a compacted log only what no replica has compacted yet is compared: below, each has batches of its own.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from struct import Struct

from moldau.clusterdata.replica_check.comparing import ComparedBatch, ReplicaFinding, ReplicaVerdict, compare
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.storage.checkpoints import parse_meta, parse_offsets
from moldau.storage.errors import BrokenFile
from moldau.storage.names import CLEANED_TO, HIGH_WATERMARKS, LOG, META, parse_folder, parse_offset_name
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, headers, read_header
from moldau.wire.crc import crc32c

WINDOW_BYTES = 4 << 20
HEADERS_BYTES, NEAR_BYTES = 256 << 10, 32 << 10
"""How much is read at once to look at lengths alone, while batches are no larger than the second."""
_CRC_FROM = 21
_COMPARED = Struct(">qiibI2xi")
"""Base offset, length, epoch, format, checksum and the last offset's distance: what is compared, and no more is made of
a header."""


class Directory(NamedTuple):
    """A log directory: whose it is, and what its checkpoints say."""

    path: str
    broker: int
    high_watermarks: Mapping[TopicPartition, int]
    cleaned_to: Mapping[TopicPartition, int]


class ReplicaFolder(NamedTuple):
    """A partition's folder in one of them."""

    broker: int
    path: str
    high_watermark: int | None
    cleaned_to: int


class ReadPace:
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
    """The log directories that paths are, or that lie below them, each once. FileNotFoundError or BrokenFile names a
    bad one."""
    found: dict[Path, Directory] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise FileNotFoundError(2, "No such directory", str(path))
        metas = [path / META] if (path / META).exists() else sorted(path.rglob(META))
        if not metas:
            raise FileNotFoundError(2, f"no {META} in it or below, so it is no log directory", str(path))
        found |= {meta.parent.resolve(): directory_of(meta.parent) for meta in metas}
    return list(found.values())


def directory_of(path: Path) -> Directory:
    """A log directory by its files; BrokenFile or OSError names a bad one."""
    meta = parse_meta((path / META).read_bytes(), str(path / META))

    def offsets(name: str) -> Mapping[TopicPartition, int]:
        file = path / name
        return parse_offsets(file.read_bytes(), str(file)) if file.exists() else {}

    return Directory(str(path), meta.node_id, offsets(HIGH_WATERMARKS), offsets(CLEANED_TO))


def replicas_in(found: Sequence[Directory]) -> dict[TopicPartition, list[ReplicaFolder]]:
    """The replicas of each partition, in the order of brokers. BrokenFile names two folders of which one must be a
    copy: a broker has a partition in one of its directories."""
    replicas: dict[TopicPartition, list[ReplicaFolder]] = {}
    for one in sorted(found, key=lambda one: one.broker):
        for folder in sorted(Path(one.path).iterdir()):
            partition = parse_folder(folder.name) if folder.is_dir() else None
            if partition is not None:
                known = one.high_watermarks.get(partition)
                others = replicas.get(partition, ())
                if twice := next((other.path for other in others if other.broker == one.broker), None):
                    raise BrokenFile(f"{folder}: broker {one.broker} has {partition} in {twice}, too")
                replicas.setdefault(partition, []).append(
                    ReplicaFolder(one.broker, str(folder), known, one.cleaned_to.get(partition, 0))
                )
    return replicas


def verify(replicas: Sequence[ReplicaFolder], pace: ReadPace) -> list[ReplicaFinding]:
    """Compare the replicas of a partition up to the highest of their high watermarks.

    Where no checkpoint names one, up to the smallest end of their logs, which is said of each. What lies between the
    high watermark and that end is not compared, and that is said, too: the checkpoint may be an old one.
    """
    segments = {replica.broker: _segments(replica.path) for replica in replicas}
    start = max((files[0][0] for files in segments.values() if files), default=0)
    start = max(start, *(_first_offset(files, start) for files in segments.values()), *(r.cleaned_to for r in replicas))
    known = max((one.high_watermark for one in replicas if one.high_watermark is not None), default=None)
    ends = {id: _end(files) for id, files in segments.items()}
    least, most = min(ends.values()), max(ends.values())
    walks = {id: _walk(files, start, pace) for id, files in segments.items()}
    begun = {id: min(end, start) for id, end in ends.items()}
    found = compare(walks, least if known is None else known, begun=begun)
    if known is None:
        return [_unsure(one, ends[one.replica], (least, most), nothing=least <= start < most) for one in found]
    if least > known:
        return [_told(one, f"all logs go on to {least}, beyond the high watermark in the checkpoint") for one in found]
    return found


def _unsure(finding: ReplicaFinding, end: int, ends: tuple[int, int], *, nothing: bool) -> ReplicaFinding:
    """The finding where nobody knows the high watermark; ``nothing`` could be compared although there are records."""
    least, most = ends
    if nothing and end == least and finding.verdict is ReplicaVerdict.OK:
        text = f"it ends there and another at {most}, and the high watermark is not known: nothing was compared"
        return finding._replace(verdict=ReplicaVerdict.LAGGING, offset=end, detail=text)
    return _told(finding, UNKNOWN_END if least == most else f"{UNKNOWN_END} (the longest log ends at {most})")


def _told(finding: ReplicaFinding, detail: str) -> ReplicaFinding:
    return finding if finding.detail else finding._replace(detail=detail)


UNKNOWN_END = "no checkpoint names the high watermark: compared up to where the shortest log ends"


def _end(files: Sequence[tuple[int, str]]) -> int:
    """The offset after the last whole batch of a log, by the lengths of batches alone."""
    if not files:
        return 0
    end, path = files[-1]
    with open(path, "rb", buffering=0) as file:
        size, at, length, window, held_from = os.fstat(file.fileno()).st_size, 0, 0, b"", 0
        while at + HEADER_SIZE <= size:
            if at + HEADER_SIZE > held_from + len(window):  # one read for many small batches; of large ones a header
                wished = HEADERS_BYTES if length < NEAR_BYTES else HEADER_SIZE
                window, held_from = os.pread(file.fileno(), wished, at), at
                if len(window) < HEADER_SIZE:
                    break  # it was cut meanwhile
            base, length, _, _, _, last = _COMPARED.unpack_from(window, at - held_from)
            at += LENGTH_OVERHEAD + length
            if length < HEADER_SIZE - LENGTH_OVERHEAD or at > size:
                break
            end = max(end, base + last + 1)
    return end


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


def _walk(files: Sequence[tuple[int, str]], start: int, pace: ReadPace) -> Iterator[ComparedBatch]:
    """Every batch that ends at or after ``start``, its checksum computed, as far as the log goes while it is read."""
    for number, (base, path) in enumerate(files):
        following = files[number + 1][0] if number + 1 < len(files) else None
        if following is not None and following <= start:
            continue
        with open(path, "rb", buffering=0) as file:
            whole = yield from _batches(file, (base, following), start, pace)
        if not whole:
            return


def _batches(
    file: io.FileIO, between: tuple[int, int | None], start: int, pace: ReadPace
) -> Generator[ComparedBatch, None, bool]:
    """The batches of a segment; returns whether it was read as long as it was when it was opened.

    Read and not mapped: a follower may cut its log meanwhile, and bytes of a map that are gone end the process.
    """
    expected, following = between
    size, done, held = os.fstat(file.fileno()).st_size, 0, 0
    view = memoryview(bytearray(min(size, WINDOW_BYTES)))
    while done < size:
        held += _fill(file, view[held : held + size - done - held])
        end = 0
        while end + HEADER_SIZE <= held:
            base, length, epoch, magic, crc, last = _COMPARED.unpack_from(view, end)
            position, after = end, end + LENGTH_OVERHEAD + length
            if length < HEADER_SIZE - LENGTH_OVERHEAD or after > held:
                break
            end, last = after, base + last
            expected = last + 1
            if last < start:
                continue
            pace.read(after - position)
            sound = magic == 2 and crc32c(view[position + _CRC_FROM : after]) == crc
            yield ComparedBatch(base, last, epoch, after - position, crc, sound)
        if end:
            view[: held - end] = view[end:held]
            held, done = held - end, done + end
        elif held == len(view) and (larger := _larger(view, size - done)) is not None:
            view = larger
        else:
            break
    if done == size:
        return True
    if os.fstat(file.fileno()).st_size < size:
        return False
    if following is not None:  # of the last segment the end may be under way
        yield ComparedBatch(expected, following - 1, -1, size - done, 0, sound=False)
    return True


def _fill(file: io.FileIO, room: memoryview) -> int:
    """Read until the room is full or the file ends; how many bytes came."""
    got = 0
    while got < len(room) and (count := file.readinto(room[got:])):
        got += count
    return got


def _larger(view: memoryview, left: int) -> memoryview | None:
    """A window with the same bytes, large enough for the batch that begins in it; None where the file has no such."""
    if len(view) < HEADER_SIZE:
        return None
    needed = read_header(view, 0).length + LENGTH_OVERHEAD
    if not len(view) < needed <= left:
        return None
    larger = memoryview(bytearray(needed))
    larger[: len(view)] = view
    return larger
