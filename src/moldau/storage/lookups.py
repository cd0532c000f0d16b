"""What the indexes of a segment say: from memory while it is written, else from the few entries that count.

An index that is missing, or says what cannot be, is made again from the log. Nothing an index says is believed before
it was held against the log. Read next: ``index_file.py`` (the files), ``segment.py`` (who asks).
"""

from __future__ import annotations

from moldau.storage import index_file
from moldau.storage.errors import BrokenFile, CorruptLog
from moldau.storage.index import FOLLOWING_MAX
from moldau.storage.names import INDEX, TIME_INDEX
from moldau.storage.segment_file import SegmentFile


def read_largest_timestamp(segment: SegmentFile) -> None:
    """Have ``max_timestamp`` be that of all records; CorruptLog when neither indexes nor log can tell."""
    if segment.damage:
        raise CorruptLog(segment.path(), 0, segment.damage)
    try:
        largest, offset = _by_the_ends(segment)
        if largest < 0 and (segment.begin_timestamp() or -1) >= 0:
            raise BrokenFile(f"{segment.path(TIME_INDEX)} has no entry")
    except (FileNotFoundError, BrokenFile):
        segment.rebuild_index()
    else:
        segment.max_timestamp, segment.max_timestamp_offset, segment.unread = largest, offset, False


def _by_the_ends(segment: SegmentFile) -> tuple[int, int]:
    """The largest timestamp and its offset by the last time entry, held against the batches after the last index entry.

    BrokenFile when either file lost its end, points beyond the log, or to no batch: then only the whole log can tell.
    """
    files, index_path, times_path = segment.folder, segment.path(INDEX), segment.path(TIME_INDEX)
    newest = segment.there(lambda path: index_file.last_time(files, path), TIME_INDEX)
    entry = segment.there(lambda path: index_file.last_entry(files, path), INDEX)
    timestamp, offset = (newest[0], segment.base_offset + newest[1]) if newest is not None else (-1, -1)
    position = entry[1] if entry is not None else 0
    if position >= segment.size:
        raise BrokenFile(f"{index_path} points beyond the log")
    try:
        for number, (_, header) in enumerate(segment.walk(position)):
            if number >= FOLLOWING_MAX:
                raise BrokenFile(f"{index_path}: entries are missing at the end")
            if header.max_timestamp > timestamp:
                raise BrokenFile(f"{times_path}: the largest timestamp is missing")
    except CorruptLog as error:
        raise BrokenFile(f"{index_path} points to no batch, or the log is damaged: {error}") from error
    return timestamp, offset


def offset_before(segment: SegmentFile, timestamp: int) -> int:
    """An offset of the segment before which every record in it is older than ``timestamp``."""
    if segment.kept_index is None:
        try:
            found = segment.there(lambda path: index_file.offset_before(segment.folder, path, timestamp), TIME_INDEX)
            return segment.base_offset + found
        except (FileNotFoundError, BrokenFile):
            segment.rebuild_index()
    return segment.base_offset + segment.index.offset_before(timestamp)


def position_before(segment: SegmentFile, offset: int) -> int:
    """A batch start at or before the batch that holds ``offset``."""
    if segment.kept_index is None:
        try:
            files, within = segment.folder, offset - segment.base_offset
            position = segment.there(lambda path: index_file.position_before(files, path, within), INDEX)
            if position >= segment.size > 0:
                raise BrokenFile(f"{segment.path(INDEX)} points beyond the log")
            return position
        except (FileNotFoundError, BrokenFile):
            try:
                segment.rebuild_index()
            except CorruptLog:
                return 0  # the log says where: what is before that place can be read from the beginning
    return segment.index.position_before(offset - segment.base_offset)


def entry_under(segment: SegmentFile, position: int, offset: int) -> int:
    """As ``Index.entry_under``; -1 also when the index file has no answer that agrees with the log."""
    if segment.kept_index is not None:
        return segment.kept_index.entry_under(position, offset)
    try:
        entry = segment.there(lambda path: index_file.entry_under(segment.folder, path, position, offset), INDEX)
        if entry is not None:
            header = next(segment.walk(entry[1]))[1]
            if header.last_offset - segment.base_offset == entry[0]:
                return entry[1]
    except (FileNotFoundError, BrokenFile, CorruptLog, StopIteration):
        pass
    return -1
