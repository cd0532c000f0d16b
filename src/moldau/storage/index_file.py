"""Lookups in the index files of a segment that is not written any more: binary searches by ``pread``, nothing is kept.

An index read whole takes megabytes and milliseconds; a lookup needs twenty entries. Whatever these functions return is
held against the log by the caller. FileNotFoundError or BrokenFile when a file cannot answer; the index can then be
made again from the log. Who asks: ``lookups.py``. Format: ``index.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Protocol

from moldau.ports import File
from moldau.storage.errors import BrokenFile

LARGEST = 256 << 20
_OFFSETS = Struct(">ii")
_TIMES = Struct(">qi")


class IndexFiles(Protocol):
    """Where index files are: what is none there is a BrokenFile."""

    def open(self, path: str, *, create: bool = False) -> File: ...


class Entries:
    """The entries of one open index file, without the zeros that Apache Kafka leaves at the end of one in use."""

    __slots__ = ("_entry", "_file", "_path", "count")

    def __init__(self, file: File, entry: Struct, path: str) -> None:
        self._file, self._entry, self._path = file, entry, path
        size = file.size()
        if size % entry.size:
            raise BrokenFile(f"{path}: an index is a whole number of entries")
        self.count = size // entry.size
        if self.count and not any(self.at(self.count - 1)):
            used, unused = 0, self.count - 1
            while used < unused:
                middle = (used + unused) // 2
                if any(self.at(middle)):
                    used = middle + 1
                else:
                    unused = middle
            self.count = used

    def at(self, number: int) -> tuple[int, int]:
        """The entry of that number; BrokenFile when it cannot be one."""
        data = self._file.pread(self._entry.size, number * self._entry.size)
        if len(data) < self._entry.size:
            raise BrokenFile(f"{self._path}: entry {number} cannot be read")
        first, second = self._entry.unpack(data)
        if first < 0 or second < 0:
            raise BrokenFile(f"{self._path}: entry {number} is negative")
        return first, second

    def up_to(self, value: int, column: int = 0) -> int:
        """How many entries hold at most ``value`` in ``column``; BrokenFile when those looked at do not rise."""
        low, high = 0, self.count
        floor, ceiling = -1, None
        while low < high:
            middle = (low + high) // 2
            found = self.at(middle)[column]
            if found < floor or (ceiling is not None and found > ceiling):
                raise BrokenFile(f"{self._path}: entry {middle} is not between its neighbours")
            if found <= value:
                low, floor = middle + 1, found
            else:
                high, ceiling = middle, found
        return low


@contextmanager
def _entries(files: IndexFiles, path: str, entry: Struct) -> Iterator[Entries]:
    file = files.open(path)
    try:
        yield Entries(file, entry, path)
    finally:
        file.close()


def position_before(files: IndexFiles, path: str, offset: int) -> int:
    """As ``Index.position_before``, from the ``.index`` file."""
    with _entries(files, path, _OFFSETS) as entries:
        number = entries.up_to(offset)
        return entries.at(number - 1)[1] if number else 0


def entry_under(files: IndexFiles, path: str, position: int, offset: int) -> tuple[int, int] | None:
    """The last entry (relative offset, position) whose batch begins at or before ``position`` and ends before
    ``offset``."""
    with _entries(files, path, _OFFSETS) as entries:
        number = min(entries.up_to(position, 1), entries.up_to(offset - 1))
        return entries.at(number - 1) if number else None


def last_entry(files: IndexFiles, path: str) -> tuple[int, int] | None:
    """The last (relative offset, position) of an ``.index`` file, None of an empty one."""
    with _entries(files, path, _OFFSETS) as entries:
        return entries.at(entries.count - 1) if entries.count else None


def offset_before(files: IndexFiles, path: str, timestamp: int) -> int:
    """As ``Index.offset_before``, from the ``.timeindex`` file."""
    with _entries(files, path, _TIMES) as entries:
        number = entries.up_to(timestamp)
        return entries.at(number - 1)[1] if number else 0


def last_time(files: IndexFiles, path: str) -> tuple[int, int] | None:
    """The last (timestamp, relative offset) of a ``.timeindex`` file, None of an empty one."""
    with _entries(files, path, _TIMES) as entries:
        return entries.at(entries.count - 1) if entries.count else None


def read(files: IndexFiles, path: str) -> bytes:
    """The whole file; BrokenFile when it is larger than any index."""
    file = files.open(path)
    try:
        size = file.size()
        if size > LARGEST:
            raise BrokenFile(f"{path}: {size} bytes are more than an index has")
        return file.pread(size, 0)
    finally:
        file.close()


def write(files: IndexFiles, path: str, data: bytes, at: int, *, cut: bool) -> None:
    """Have ``data`` in the file from ``at`` on, as its end if it is ``cut``; whatever else stood there gives way."""
    file = files.open(path, create=True)
    try:
        if cut:
            file.truncate(at)
        if data:
            file.pwrite((data,), at)
    finally:
        file.close()
