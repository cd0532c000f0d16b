"""The JSON lines of one node's state changes, over all files of its log: each line once, in order, from where a reader
was.

Files are rotated by their node (``state-change.jsonl.1`` is the newest of those that are full), by others' programs,
or copied and cut; a node that is killed leaves a line without an end. A file is known by its first bytes, whatever it
is called now. Holds one file open and a part of it in memory; reads when it is asked, so that who is slow only lags.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from hashlib import sha256
from typing import IO

from moldau.clusterdata.state_changes.sources import UNPACKING, opened
from moldau.model.named import NamedTuple
from moldau.publishing.records import LINE_BYTES_MAX, FileLine, LineRange, PublishedRecord, read_line

NAME = "state-change.jsonl"
READ_BYTES = 256 << 10
LINES_MAX = 4_096
"""So many lines are read at once: a record of one takes much more memory than an empty line."""
HEAD_BYTES = 4_096
LOOKS = 5
"""So often files are looked for again that were renamed meanwhile."""
_FILE = re.compile(re.escape(NAME) + r"(?:[.-](\d[\d.-]*?))?(?:\.gz)?")


class CutFile(Exception):
    """What was read stands in the file no more: it was cut, or begun anew. Where to go on is to be found again."""


class Start(Enum):
    """Where reading goes on."""

    NO_FILE = auto()
    """Nowhere: no file has a line yet."""
    BEGIN = auto()
    """At the beginning of the oldest file: nothing was published."""
    AFTER = auto()
    """Behind the newest line that was published and still stands where it stood."""
    LOST = auto()
    """The file of the newest line is gone; what followed in it may be lost."""


class _Known(NamedTuple):
    """A file and the first bytes by which it is known."""

    path: str
    id: str


def names_of(folder: str) -> list[str]:
    """The paths of a log's files, the oldest first. Numbers tell the order where all have one; else the times of last
    changes do. What bears such a name and is no file (a folder, a pipe that nobody writes to) is none of them."""
    found: list[tuple[str, str | None]] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        found = [
            (name, match[1])
            for name in os.listdir(folder)
            if (match := _FILE.fullmatch(name)) is not None and os.path.isfile(os.path.join(folder, name))
        ]
    rolled = [(name, part) for name, part in found if part is not None]
    if all(part.isdigit() and len(part) < 6 for _, part in rolled):
        rolled.sort(key=lambda one: -int(one[1]))
    else:
        rolled.sort(key=lambda one: (_changed_ns(os.path.join(folder, one[0])), one[0]))
    return [os.path.join(folder, name) for name, _ in (*rolled, *(one for one in found if one[1] is None))]


def _nodes_of(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    """Which files have these names now."""
    found = []
    for path in paths:
        with suppress(FileNotFoundError):
            one = os.stat(path)
            found.append((path, one.st_dev, one.st_ino))
    return found


def _bytes_at(file: IO[bytes], at: int, most: int) -> bytes:
    """What stands there now: a buffered file would give what stood there. Of a packed one that is damaged as much as
    can be unpacked."""
    if not isinstance(file, gzip.GzipFile):
        return os.pread(file.fileno(), most, at)
    try:
        file.seek(at)
        return file.read(most)
    except UNPACKING:
        return b""


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:  # renamed a moment ago: the next look finds it
        return 0


def _identity(head: bytes) -> str | None:
    """By what a file is known that begins so; None while it has no whole line."""
    end = head.find(b"\n") + 1
    if not end and len(head) < HEAD_BYTES:
        return None
    return sha256(head[: end or HEAD_BYTES]).hexdigest()[:16]


class LogFollower:
    """Reads one folder's log; ``go_on`` says from where, before the first ``read``."""

    def __init__(self, folder: str, node: int) -> None:
        self.folder, self.node = folder, node
        self._file: IO[bytes] | None = None
        self._id = ""
        self._at = 0
        self._older: frozenset[str] = frozenset()
        self._searched: tuple[LineRange, int] | None = None
        """A line that has no end yet, and how far it was searched for one."""

    @property
    def place(self) -> LineRange:
        """Where the next line begins."""
        return LineRange(self._id, self._at, self._at)

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def go_on(self, newest_first: Iterable[PublishedRecord]) -> Start:
        """Go where what is published ends: behind the newest record whose line stands in the files. A file that lost
        its end, as when a machine went down, has lines again where others stood: these are read. CutFile when files
        were renamed meanwhile."""
        self.close()
        chain = self._chain()
        paths = {one.id: one.path for one in chain}
        newest = None
        for one in newest_first:
            if newest is None:
                newest = one.place.file
            if one.place.file in paths and self._stands(paths[one.place.file], one):
                self._open(chain, one.place.file, one.place.end)
                return Start.AFTER if newest in paths else Start.LOST
        if not chain:
            return Start.NO_FILE
        self._open(chain, chain[0].id, 0)
        return Start.BEGIN if newest is None else Start.LOST

    def read(self) -> list[FileLine]:
        """The next lines, none when there are no more now. CutFile when the file is not what it was."""
        while True:
            lines = self._lines()
            if lines:
                return lines
            following, chain = self._following()
            if following is None:
                return []
            lines = self._lines() or self._rest()  # what came before the node went on to the next file
            if lines:
                return lines
            self._open(chain, following, 0)

    def left_bytes(self) -> int:
        """About how many bytes of the files are not read yet. CutFile when files are renamed meanwhile."""
        chain = self._chain()
        at = max((n for n, one in enumerate(chain) if one.id == self._id), default=-1)
        left = 0
        for number, one in enumerate(chain):
            if number >= at and one.id not in self._older:
                with suppress(OSError):
                    left += os.stat(one.path).st_size - (self._at if number == at else 0)
        return left

    # ---- the files

    def _chain(self) -> list[_Known]:
        """The files that have a line, the oldest first; CutFile when they never keep their names while one looks."""
        for _ in range(LOOKS):
            names = names_of(self.folder)
            before = _nodes_of(names)
            found = []
            for path in names:
                with suppress(FileNotFoundError), opened(path) as file:
                    id = _identity(_bytes_at(file, 0, HEAD_BYTES))
                    if id is not None:
                        found.append(_Known(path, id))
            if _nodes_of(names_of(self.folder)) == before:
                return found
        raise CutFile

    def _open(self, chain: list[_Known], id: str, at: int) -> None:
        """Open the newest file of that identity; CutFile when it has another name by now."""
        self.close()
        number = max(n for n, one in enumerate(chain) if one.id == id)
        self._file = _opened_as(chain[number].path, id)
        self._id, self._at = id, at
        self._older = frozenset(one.id for one in chain[:number])

    def _following(self) -> tuple[str | None, list[_Known]]:
        """The file to read next, when lines are written to another one than this by now."""
        assert self._file is not None, "it was said where to go on"
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(os.path.join(self.folder, NAME)), os.fstat(self._file.fileno())):
                return None, []
        chain = self._chain()
        ids = [one.id for one in chain]
        if self._id in ids:
            behind = ids[len(ids) - ids[::-1].index(self._id) :]
        else:  # it was removed or moved away
            behind = [id for id in ids if id not in self._older]
        return (behind[0] if behind else None), chain

    # ---- lines

    def _data(self, at: int, most: int) -> bytes:
        """Bytes of the open file; CutFile when it is another one, or shorter than it was."""
        file = self._file
        assert file is not None, "it was said where to go on"
        data = _bytes_at(file, at, most)
        if not isinstance(file, gzip.GzipFile) and (
            os.fstat(file.fileno()).st_size < at or _identity(_bytes_at(file, 0, HEAD_BYTES)) != self._id
        ):
            raise CutFile
        return data

    def _lines(self) -> list[FileLine]:
        """Whole lines from here on."""
        data = self._data(self._at, READ_BYTES)
        lines: list[FileLine] = []
        begin = 0
        while len(lines) < LINES_MAX and (end := data.find(b"\n", begin) + 1):
            lines.append(self._line(data[begin : end - 1], end - begin))
            begin = end
        if not lines and len(data) == READ_BYTES:
            return self._long_line(data)
        return lines

    def _line(self, text: bytes, size: int) -> FileLine:
        place = LineRange(self._id, self._at, self._at + size)
        self._at = place.end
        return FileLine(place, text[:LINE_BYTES_MAX])

    def _long_line(self, head: bytes) -> list[FileLine]:
        """One that is no entry, however it came about; none while it has no end."""
        at = self._at + len(head)
        if self._searched is not None and self._searched[0] == self.place:
            at = max(at, self._searched[1])
        while data := self._data(at, READ_BYTES):
            end = data.find(b"\n") + 1
            if end:
                return [self._line(head, at + end - self._at)]
            at += len(data)
        self._searched = self.place, at
        return []

    def _rest(self) -> list[FileLine]:
        """What stands behind the last whole line of a file that nobody writes to any more: a line that was cut off."""
        size, head = 0, b""
        while data := self._data(self._at + size, READ_BYTES):
            head = head or data
            size += len(data)
        return [self._line(head, size)] if size else []

    def _stands(self, path: str, published: PublishedRecord) -> bool:
        """Whether a file still has the line of a record where it stood; CutFile when the file has another name now."""
        name, start, end = published.place
        size = min(end - start, LINE_BYTES_MAX + 1)
        with _opened_as(path, name) as file:
            before = _bytes_at(file, start - 1, 1) if start else b"\n"
            data = _bytes_at(file, start, size)
        if before != b"\n" or len(data) < size:
            return False
        if not size:
            return True
        line = FileLine(published.place, data.removesuffix(b"\n")[:LINE_BYTES_MAX])
        return read_line(self.node, line)[1] == published.value


def _opened_as(path: str, id: str) -> IO[bytes]:
    """The file, if it is the one that is known so; else CutFile."""
    try:
        file = opened(path)
    except FileNotFoundError:
        raise CutFile from None
    if _identity(_bytes_at(file, 0, HEAD_BYTES)) != id:
        file.close()
        raise CutFile
    return file
