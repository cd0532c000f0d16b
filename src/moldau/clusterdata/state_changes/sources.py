"""One log as entries in the order of time: its files, rolled and packed ones too, read in blocks.

An entry is a line that begins with a time and the lines without one that follow it (a stack trace). Its key is the 23
bytes of its time, which are compared as they are. Where a clock went back, entries keep their order: their key is then
the greatest so far. Blocks are cut by one ``split``, and looked at closely only when some line is unusual.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import zlib
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import IO

BLOCK_BYTES = 1 << 17
ENTRY_BYTES_MAX = 1 << 24
"""A stack that is longer is passed on in pieces, which keep their order."""

NEAR_BYTES = 1 << 16
"""How far into a file, from its beginning or its end, a time is looked for."""
EARLIEST = b"0000-00-00 00:00:00,000"
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_TIME = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
_BEGIN = re.compile(rb"(?m)^(?:[^\n\[]{0,80}\| )?\[?(" + _TIME + rb")")
"""A line that begins with a time; in what ``docker compose logs`` wrote the name of a container goes before it."""
_KEY = itemgetter(slice(0, 23))

Keep = Callable[[bytes], object]
Damaged = Callable[[OSError], object]
UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile)
"""What reading a packed file raises that is damaged."""


class LogSource:
    """One log: ``paths`` are its files, the oldest first. ``keep`` says of an entry whether it is wanted. ``damaged``
    is told of packed files that cannot be unpacked to their end, which are read up to there; without it they are an
    OSError. ``beheaded``: what stands before the first time of the log is left out."""

    def __init__(
        self,
        paths: Sequence[str],
        keep: Keep | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
        damaged: Damaged | None = None,
        beheaded: bool = False,
    ) -> None:
        self._damaged, self._beheaded = damaged, beheaded
        self.entries: list[bytes] = []
        """Entries that were read and not yet taken, without the newline at their end."""
        self.keys: list[bytes] = []
        self.at_end = False
        self.last = EARLIEST
        """The key of the last entry that was read, kept or not."""
        self._blocks = self._read(paths, block_bytes)
        self._keep = keep

    def more(self) -> None:
        """Read another block, or find the end."""
        block = next(self._blocks, None)
        if block is None:
            self.at_end = True
            return
        entries, keys = _cut(block, self.last)
        self.last = keys[-1]
        if self._beheaded:  # nothing stands without a time but at the beginning
            if not begins_with_time(entries[0]):
                del entries[0], keys[0]
            self._beheaded = not entries  # it may be longer than a block
        if self._keep is not None:
            wanted = [at for at, entry in enumerate(entries) if self._keep(entry)]
            if len(wanted) < len(entries):
                entries, keys = [entries[at] for at in wanted], [keys[at] for at in wanted]
        self.entries += entries
        self.keys += keys

    def take(self, before: bytes | None) -> tuple[list[bytes], list[bytes]]:
        """Entries and keys, those before a time, or all; they are not here any more."""
        end = len(self.keys) if before is None else bisect_left(self.keys, before)
        if end == len(self.keys):
            taken = self.entries, self.keys
            self.entries, self.keys = [], []
            return taken
        taken = self.entries[:end], self.keys[:end]
        del self.entries[:end], self.keys[:end]
        return taken

    def _read(self, paths: Sequence[str], block_bytes: int) -> Iterator[bytes]:
        """The bytes of all files in blocks of whole entries, without the newline at the end of each block."""
        rest = b""
        for path in paths:
            for data in pieces(path, block_bytes, self._damaged):
                rest += data
                end = _whole(rest)
                if end:
                    yield rest[: end - 1]
                    rest = rest[end:]
            if rest and not rest.endswith(b"\n"):
                rest += b"\n"
        if rest:
            yield rest[:-1]


def pieces(path: str, most: int, damaged: Damaged | None = None) -> Iterator[bytes]:
    """A file in pieces of so many bytes; of a packed one that is damaged what can be unpacked."""
    at = 0
    try:
        with opened(path) as file:
            while data := some_bytes(file, path, most):
                at += len(data)
                yield data
    except OSError as error:
        if damaged is None or error.errno != errno.EIO:
            raise
        with opened(path) as file:
            file.seek(at)
            with suppress(*UNPACKING):
                while data := file.read1(most):  # type: ignore[attr-defined]  # a buffered file and a packed one have it
                    at += len(data)
                    yield data
        damaged(OSError(errno.EIO, f"{error.strerror}; it is read up to byte {at} of what was packed", path))


def lines_of(path: str, damaged: Damaged) -> Generator[bytes, None, None]:
    """The lines of a file, as far as it can be unpacked."""
    with opened(path) as file:
        try:
            yield from file
        except UNPACKING as error:
            damaged(OSError(errno.EIO, f"it cannot be unpacked: {error}", path))


def some_bytes(file: IO[bytes], path: str, most: int) -> bytes:
    """Some bytes of a file, none at its end; OSError names a packed file that is damaged, or was not packed to its
    end."""
    try:
        return file.read(most)
    except UNPACKING as error:
        raise OSError(errno.EIO, f"it cannot be unpacked: {error}", path) from None


def _whole(data: bytes) -> int:
    """Where the last entry begins; 0 when the first may not be whole."""
    at = len(data)
    while (at := data.rfind(b"\n", 0, at)) > 0:
        if _BEGIN.match(data, at + 1, at + 140):
            return at + 1
        if len(data) - at > 1 << 16 and len(data) < ENTRY_BYTES_MAX:
            break  # a long stack: wait for its end
    if len(data) >= ENTRY_BYTES_MAX:
        return data.rfind(b"\n") + 1 or 0
    return 0


def _cut(block: bytes, last: bytes) -> tuple[list[bytes], list[bytes]]:
    """The entries of a block, and a key for each that is at least ``last``, and that of the entry before."""
    entries = block.split(b"\n[")
    if not block.startswith(b"["):
        return _cut_closely(block, last)
    entries[0] = entries[0][1:]
    keys = list(map(_KEY, entries))
    joined = b"".join(keys)
    if joined.translate(_DIGITS) != EARLIEST * len(keys):
        return _cut_closely(block, last)
    if keys[0] < last or keys != sorted(keys):
        keys = list(accumulate(keys, max, initial=last))[1:]
    return [b"[" + entry for entry in entries], keys


def _cut_closely(block: bytes, last: bytes) -> tuple[list[bytes], list[bytes]]:
    """Entries and keys of any text: what stands before the first time belongs to the entry before."""
    found = list(_BEGIN.finditer(block))
    starts = [match.start() for match in found]
    keys = [match[1] for match in found]
    if not starts or starts[0] > 0:
        starts.insert(0, 0)
        keys.insert(0, last if last != EARLIEST or not keys else keys[0])
    entries = [block[start : end - 1] for start, end in zip(starts, [*starts[1:], len(block) + 1], strict=True)]
    return entries, list(accumulate(keys, max, initial=last))[1:]


def begins_with_time(entry: bytes) -> bool:
    """Whether an entry is one, and not what stands before the first time of a log."""
    return _BEGIN.match(entry) is not None


def has_time(text: bytes) -> bool:
    """Whether any line begins with a time."""
    return _BEGIN.search(text) is not None


def opened(path: str) -> IO[bytes]:
    """A file for reading, unpacked if it is packed by gzip, whatever its name."""
    file = open(path, "rb")  # noqa: SIM115  # closed by the caller
    try:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
    except BaseException:
        file.close()
        raise
    return _Packed(file) if packed else file  # type: ignore[return-value]


class _Packed(gzip.GzipFile):
    """A packed file that closes the file below it, too."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file)
        self._below = file

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._below.close()


def first_time(path: str) -> bytes:
    """The first time that a file names, near its beginning; the earliest of all when it names none, or is a pipe, whose
    beginning would be gone."""
    if not Path(path).is_file():
        return EARLIEST
    found = _BEGIN.search(next(pieces(path, NEAR_BYTES, lambda _: None), b""))
    return found[1] if found else EARLIEST


def last_time(path: str) -> bytes:
    """The last time that a file names, near its end; the earliest of all when it names none there, or is a pipe. A
    packed file is unpacked for that, as far as it can be."""
    if not Path(path).is_file():
        return EARLIEST
    with opened(path) as file:
        packed = isinstance(file, _Packed)
        if not packed:
            file.seek(max(os.fstat(file.fileno()).st_size - NEAR_BYTES, 0))
            tail = file.read()
    if packed:
        tail = b""
        for data in pieces(path, NEAR_BYTES, lambda _: None):
            tail = (tail + data)[-NEAR_BYTES:]
    found = _BEGIN.findall(tail)
    return found[-1] if found else EARLIEST
