"""Which old segments go: by age, by size, or because the log's start has passed them (DeleteRecords, KIP-107).

Decides from the log's configuration and the caller's clock. Nothing at or above the high watermark goes. The files are
renamed (on any thread: ``taken.py``) and removed by ``LogDirs.deletion_pass`` after file.delete.delay.ms. A crash
between leaves segments below the log's start, which retention takes again. Read next: ``compaction.py``.
"""

from __future__ import annotations

from bisect import bisect_right

from moldau.storage.folder import ONE_FILE, LogDir
from moldau.storage.log_state import LogState
from moldau.storage.names import DELETE_FOLDER
from moldau.storage.segment import Segment
from moldau.storage.taken import TakenSegments


def retain(log: LogState, now_ms: int, at_most: int | None = None) -> int:
    """Move the log's start over the oldest segments that may go, and take away those (``at_most`` so many) that end at
    or below the start on the disk; how many bytes. A crash in between must not leave a log that seems to have lost
    records. OSError; CorruptLog when the age of a segment cannot be told: it stays, and so do those after it.
    """
    try:
        count = removable(log, now_ms)
        if count:
            if count == len(log.segments):  # everything has expired: a fresh segment keeps the log's end
                log.roll(now_ms=now_ms)
            start = log.segments[count].base_offset
            if start > log.log_start_offset:
                log.log_start_offset = start
                log.epochs_changed |= log.epochs.truncate_from_start(start)
    finally:
        freed = take_passed(log, now_ms, at_most)
    return freed


def passed(log: LogState) -> int:
    """How many of the oldest segments end at or below the log's start."""
    return bisect_right(log.bases, log.log_start_offset, 1) - 1


def take_passed(log: LogState, now_ms: int, at_most: int | None = None) -> int:
    """Take away segments that lie below the log's start, as it is on the disk; how many bytes. OSError."""
    count = passed(log) if at_most is None else min(passed(log), at_most)
    if log.awaits_file:  # a crash must find a file that says where the log ends
        count = min(count, len(log.segments) - 2)
    while count > 0 and not log.dir.starts.may_go(log.partition, log.bases[count]):
        count -= 1
    if count <= 0:
        return 0
    gone = log.segments[:count]
    log.replace_segments(0, count, [])
    taken = TakenSegments(log, gone, now_ms + log.config.file_delete_delay_ms)
    log.taken.append(taken)
    if log.dir.renames_later:
        log.dir.taken.append(taken)
    else:
        taken.run()
        taken.end()
        if taken.error is not None:
            raise taken.error
    return sum(segment.size for segment in gone)


def removable(log: LogState, now_ms: int) -> int:
    """How many of the oldest segments may go now. All of them, when even the active one has expired."""
    config = log.config
    segments = log.segments
    by_age = config.retention_ms if config.delete else -1
    spare = log.size - config.retention_bytes if config.delete and config.retention_bytes >= 0 else -1
    for number, segment in enumerate(segments):
        last = number + 1 == len(segments)
        after = log.log_end_offset if last else segments[number + 1].base_offset
        if after > log.high_watermark or (last and (not segment.size or log.awaits_file)):
            return number
        passed = not last and after <= log.log_start_offset
        old = by_age >= 0 and now_ms - age_stamp(segment) > by_age
        surplus = spare >= segment.size  # of the active one, too, where retention.bytes is 0, as in Apache Kafka
        if not (passed or old or surplus):
            return number
        spare -= segment.size
    return len(segments)


def age_stamp(segment: Segment) -> int:
    """The newest record's timestamp, or when the file was last written if its records have none."""
    newest = segment.largest_timestamp()
    return newest if newest >= 0 else segment.there(segment.folder.disk.mtime_ms)


class Deletion:
    """Files and folders of one directory to remove, in a form that a worker thread can run; an error is kept.

    ``left`` are those that could not be removed for a reason of their own, and why: the next start tries again.
    """

    __slots__ = ("dir", "error", "left", "paths")

    def __init__(self, dir: LogDir, paths: list[str]) -> None:
        self.dir = dir
        self.paths = paths
        self.left: list[str] = []
        self.error: OSError | None = None

    def run(self) -> None:
        """Remove them."""
        disk = self.dir.disk
        for path in self.paths:
            try:
                if path.endswith(DELETE_FOLDER) or disk.is_dir(path):
                    disk.remove_tree(path)
                else:
                    disk.remove(path)
            except OSError as error:
                if error.errno not in ONE_FILE:
                    self.error = error
                    break
                self.left.append(f"{path} cannot be removed: {error.strerror}")
