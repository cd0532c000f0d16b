"""The files of one segment: a run of batches in ``<base offset>.log`` with its two indexes.

Decides where a batch stands in the file and when an index entry is due. Opens its file on first use; the shared
``OpenFiles`` may close it again, and the index goes with it. Read next: ``segment.py`` (appends and reads),
``lookups.py`` and ``checked_reads.py`` (what a read needs of it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Self, TypeVar

from moldau.model import Code
from moldau.ports import File
from moldau.storage import index_file
from moldau.storage.errors import BrokenFile, CorruptLog
from moldau.storage.folder import Folder
from moldau.storage.index import ENTRY_BYTES, TIME_ENTRY_BYTES, Index
from moldau.storage.names import INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX, offset_name
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, MIN_LENGTH, BatchHeader, check, read_header

T = TypeVar("T")
_WALK_BYTES = 8192
REMEMBERED = 512
"""So many exact positions of batches are kept in memory."""
FEW_ENTRIES = 64
"""So many index entries may be lost: a start finds them again in the log. More are synced with the next flush."""
NO_BOUND = 0x7FFFFFFF
UNBOUNDED = 1 << 63


class SegmentFile:
    """A segment file and what is known of it. ``size`` is the end of the last whole batch: nothing beyond is ever read.

    ``first_timestamp`` is the first batch's largest timestamp (rolling goes by it), None until known. ``checked_from``:
    bytes from here on were checked (appended or recovered) by this process; older bytes are checked when first read.
    ``damage`` says what was found to be wrong in the file, "" while nothing was. ``unread``: the largest timestamp is
    in the index files, and was not read from there yet. ``kept_index`` is there for a segment that is written;
    lookups in others read the few entries that they need (``lookups.py``).
    """

    __slots__ = (
        "base_offset", "below", "bytes_since_entry", "checked_from", "cold_end", "cold_start", "created_ms", "damage",
        "entries", "file", "first_timestamp", "folder", "gone", "index_synced", "kept_index", "lent_from",
        "lent_times", "max_timestamp", "max_timestamp_offset", "pinned", "positions", "recent", "saving", "size",
        "suffix", "unread",
    )  # fmt: skip

    def __init__(self, folder: Folder, base_offset: int, size: int = 0, suffix: str = "") -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.below = UNBOUNDED
        """Where the next segment begins: what stands here at or above it does not belong here."""
        self.size = size
        self.suffix = suffix
        self.entries = 0
        self.index_synced = 0
        """Index entries in all, as far as known, and how many of them are durable."""
        self.file: File | None = None
        self.recent = False
        self.pinned = self.saving = 0
        """Users of the file off the loop, and writes of the index that are under way there."""
        self.gone = False
        """It is in use no more: nothing is to be written under its name."""
        self.created_ms = 0
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.unread = bool(size)
        self.damage = ""
        self.bytes_since_entry = 0
        self.kept_index: Index | None = None
        if not size:
            self.reset_index()
        self.positions: dict[int, int] = {}
        """Exact positions of a few offsets: batches just appended, and where readers stopped."""
        self.checked_from = size
        self.cold_start = self.cold_end = 0
        self.lent_from, self.lent_times = -1, 0
        """The batch that the newest read began with, and how often one began with the same as the one before."""

    def __repr__(self) -> str:
        wrong = f", damaged: {self.damage}" if self.damage else ""
        return f"Segment({self.path()}, {self.size} bytes{wrong})"

    @classmethod
    def unmade(cls, folder: Folder) -> Self:
        """The first segment of a log without records: its files are made with the first batch."""
        segment = cls(folder, 0)
        segment.index.shrunk = False
        return segment

    @property
    def is_last(self) -> bool:
        """Whether no segment begins after this one."""
        return self.below == UNBOUNDED

    def path(self, kind: str = LOG) -> str:
        return self.folder.file(offset_name(self.base_offset, kind) + self.suffix)

    def there(self, call: Callable[[str], T], kind: str = LOG) -> T:
        """What ``call`` returns of the path of a file. A worker may be at giving a compacted segment its name
        (``swap.py``): a file that is not there under the one has the other by then, and what it replaced has gone.
        """
        path = self.path(kind)
        try:
            return call(path)
        except FileNotFoundError:
            if not path.endswith(SWAP):
                raise
            return call(path.removesuffix(SWAP))

    def open(self, *, create: bool = False) -> File:
        """The open file; a new one is counted against the limit of the log directory's open files."""
        file = self.file
        if file is None:
            self.folder.demand_own()
            try:
                file = self.file = self.folder.dir.files.with_room(
                    lambda: self.there(lambda path: self.folder.disk.open(path, create=create))
                )
            except FileNotFoundError:
                if create or not self.folder.disk.is_dir(self.folder.dir.path):
                    raise
                self.damage = "the file is gone"  # this one alone: the directory is there
                raise CorruptLog(self.path(), 0, self.damage) from None
            self.folder.dir.files.opened(self)
        self.recent = True
        return file

    def close_file(self) -> None:
        """Give back the file, and the index's memory once it is on disk: here nothing is written, for it is another
        file's user, of another log perhaps, who has this one closed."""
        file, self.file = self.file, None
        if file is not None and not self.pinned:  # whoever pinned it is using the file, and closes it (``flush.py``)
            file.close()
        if self.kept_index is not None and self.kept_index.is_dirty:
            self.folder.dir.unsaved[self] = None
        else:
            self.kept_index = None

    def close(self) -> None:
        """Save the index and close; OSError when the index cannot be written."""
        self.save_index()
        self.folder.dir.files.closed(self)
        self.close_file()

    def remove(self) -> None:
        """Close and delete the files, now."""
        self.drop()
        self.remove_files()

    def remove_files(self) -> None:
        """Delete the files of a segment that is in use no more, on any thread."""
        # The log last: a crash leaves a segment without index, not the reverse.
        for kind in (INDEX, TIME_INDEX, TXN_INDEX, LOG):
            self.folder.remove(self.path(kind))

    def drop(self) -> None:
        """Close without saving: the files are about to be renamed or removed."""
        self.gone = True
        self.kept_index = Index()
        self.folder.dir.files.closed(self)
        self.close_file()

    # -- index ------------------------------------------------------------------------------------------------------

    @property
    def index(self) -> Index:
        """Both indexes to be written to: from memory, the files, or the log if those are missing or broken."""
        index = self.kept_index
        if index is None:
            try:
                index = self._load_index()
            except (FileNotFoundError, BrokenFile):
                index = self.rebuild_index()
            self.kept_index = index
            self.entries = len(index.offsets)
        return index

    def _load_index(self) -> Index:
        read = partial(index_file.read, self.folder)
        path = self.path(INDEX)
        index = Index.parse(self.there(read, INDEX), self.there(read, TIME_INDEX), path)
        if index.positions and index.positions[-1] >= self.size:
            raise BrokenFile(f"{path} points beyond the log")
        return index

    def rebuild_index(self, interval: int = 4096) -> Index:
        """Make the indexes again from the batch headers of the whole log file; CorruptLog where it does not parse.

        The files stay as they are then: before and beyond that place they may be right.
        """
        if self.damage:
            raise CorruptLog(self.path(), 0, self.damage)  # known since the last attempt, which read the whole file
        index = self.reset_index()
        try:
            for position, header in self.walk(0):
                self.note(position, header, interval)
        except CorruptLog as error:
            self.keep_damaged(error.position, error.reason)
            raise
        index.append_time(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.entries = len(index.offsets)
        return index

    def reset_index(self) -> Index:
        """Empty indexes, in memory and (at the next save) on disk: everything is going to be noted again."""
        index = self.kept_index = Index()
        index.shrunk = True
        self.max_timestamp = self.max_timestamp_offset = -1
        self.unread = False
        self.bytes_since_entry = 0
        return index

    def keep_damaged(self, position: int, reason: str) -> None:
        """The batch at ``position`` is not sound, and the file stays: so do its index files, right beyond or not."""
        self.damage, self.unread = f"byte {position}: {reason}", True
        self.kept_index = None

    def note(self, position: int, header: BatchHeader, interval: int) -> None:
        """Take account of the batch at ``position`` in largest timestamp and indexes."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        if self.bytes_since_entry > interval:
            index = self.index
            index.append(header.last_offset - self.base_offset, position)
            index.append_time(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += header.length + LENGTH_OVERHEAD

    def save_index(self) -> None:
        """Write index entries that are only in memory, and make both files right and present, as Kafka expects them.

        Not synced: see ``unsynced_entries``.
        """
        index = self.kept_index
        if index is None:
            return
        count, times = len(index.offsets), len(index.times)
        if index.saved < count or index.shrunk:
            self._write_index(INDEX, index.offset_bytes(index.saved), index.saved * ENTRY_BYTES, index.shrunk)
        if index.times_saved < times or index.shrunk:
            self._write_index(
                TIME_INDEX, index.time_bytes(index.times_saved), index.times_saved * TIME_ENTRY_BYTES, index.shrunk
            )
        index.saved, index.times_saved, index.shrunk = count, times, False

    def _write_index(self, kind: str, data: bytes, at: int, cut: bool) -> None:
        index_file.write(self.folder, self.path(kind), data, at, cut=cut)
        if at == 0:
            self.folder.names.touch()

    @property
    def unsynced_entries(self) -> int:
        """Index entries that a power cut could lose or tear."""
        return self.entries - self.index_synced

    def seal(self) -> None:
        """No more batches will come: the last time entry holds the largest timestamp, as retention will ask for it."""
        self.index.append_time(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.positions.clear()

    def begin_timestamp(self) -> int | None:
        """The first batch's largest timestamp, -1 when it has none; None while the segment is empty."""
        if self.first_timestamp is None and self.size:
            self.first_timestamp = next(self.walk(0))[1].max_timestamp
        return self.first_timestamp

    def index_full(self, max_bytes: int) -> bool:
        """Whether either index has grown to ``segment.index.bytes``."""
        index = self.kept_index
        return index is not None and (
            (len(index.offsets) + 1) * ENTRY_BYTES > max_bytes or (len(index.times) + 1) * TIME_ENTRY_BYTES > max_bytes
        )

    def _forget(self) -> None:
        """Drop the older half of the remembered positions: they are only a short cut."""
        kept = list(self.positions.items())[-REMEMBERED // 2 :]
        self.positions = dict(kept)

    # -- reading ----------------------------------------------------------------------------------------------------

    def walk(self, position: int, end: int | None = None, step: int = _WALK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a batch start on; CorruptLog at the first that cannot be one."""
        if end is None:
            end = self.size
        if position >= end:
            return
        file = self.open()
        expected = self.base_offset if position == 0 else -1
        chunk, start = b"", position
        while position < end:
            if position + HEADER_SIZE > start + len(chunk):
                chunk, start = file.pread(min(step, end - position), position), position
                if len(chunk) < HEADER_SIZE:
                    raise CorruptLog(self.path(), position, f"{len(chunk)} bytes are too few for a batch")
            header = read_header(chunk, position - start)
            reason = self.unsound(header, position, end, expected)
            if reason:
                raise CorruptLog(self.path(), position, reason)
            yield position, header
            expected = header.next_offset
            position += header.length + LENGTH_OVERHEAD

    def unsound(self, header: BatchHeader, position: int, end: int, expected: int) -> str:
        if header.magic != 2:
            return f"a batch of format {header.magic} where format 2 is expected"
        if header.length < MIN_LENGTH or position + header.length + LENGTH_OVERHEAD > end:
            return f"a batch of {header.length + LENGTH_OVERHEAD} bytes with {end - position} left"
        if header.base_offset < max(expected, self.base_offset) or header.last_offset_delta < 0:
            return f"a batch at offset {header.base_offset} where {max(expected, self.base_offset)} or more is expected"
        if header.last_offset - self.base_offset > NO_BOUND or header.last_offset >= self.below:
            return f"a batch at offset {header.base_offset} that the segment from {self.base_offset} on cannot hold"
        return ""

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """All bytes of the batch that ``walk`` found, checksum checked."""
        data = self.open().pread(header.length + LENGTH_OVERHEAD, position)
        if check(data, 0, header) is not Code.NONE:
            raise CorruptLog(self.path(), position, "the checksum of the batch is wrong")
        return data

    def remember(self, offset: int, position: int) -> None:
        """A reader comes to ``offset``, whose batch is at ``position``."""
        self.positions[offset] = position
        if len(self.positions) > REMEMBERED:
            self._forget()
