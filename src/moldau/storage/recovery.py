"""What a start makes of a partition's folder: a torn tail is cut, the rest is trusted.

Decides the log's end. After a clean stop only the tail of the last segment is looked at; after anything else every byte
from the recovery point on is read and checked, and nothing before it. Whatever is not the log itself (indexes, epochs,
producer snapshots) is made again when it is missing or broken. What was repaired or lost is named in
``Loaded.findings``. Read next: ``folder_contents.py``.
"""

from __future__ import annotations

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.replication.epochs import EpochTable
from moldau.storage.aborted import read_marker
from moldau.storage.errors import BrokenFile, CorruptLog, OldFormat
from moldau.storage.folder import Folder
from moldau.storage.folder_contents import (
    epochs_by_batches,
    is_compacted,
    is_filled,
    segments_of,
    stored_epochs,
    tidy,
    topic_id_in,
    was_being_compacted,
)
from moldau.storage.index_file import last_entry
from moldau.storage.loaded import CheckpointedLog, Loaded
from moldau.storage.names import (
    EPOCHS,
    INDEX,
    PARTITION_METADATA,
    RESTARTED,
    TIME_INDEX,
    offset_name,
    parse_offset_name,
)
from moldau.storage.old_formats import old_message, refuse_old_formats
from moldau.storage.producer_state import drop_snapshots, load_producers, newest_snapshot, recall_now
from moldau.storage.producers import Producers
from moldau.storage.segment import Segment
from moldau.storage.segment_file import FEW_ENTRIES, UNBOUNDED
from moldau.storage.transactions import aborted_on_disk
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, check, read_header

_SCAN_BYTES = 4 << 20
_SMALL = 8192
_MAX_RELATIVE = 0x7FFFFFFF
_NO_ENTRY_YET = 1 << 20
"""A segment up to this size may have an index without entries: its batches may be few."""


def load(folder: Folder, known: CheckpointedLog, interval: int) -> Loaded:
    """Load the log in ``folder``; OSError when the disk fails. ``interval``: bytes between index entries made again."""
    findings: list[str] = []
    refuse_old_formats(folder, names := folder.disk.list_dir(folder.path))
    if RESTARTED in names:  # what the checkpoints have of it is of another log
        known = known._replace(log_start_offset=None, recovery_point=known.recovery_point and 0)
    elif not names:
        known = known._replace(log_start_offset=None)
    if names == [PARTITION_METADATA] and not (known.recovery_point or known.log_start_offset):
        # Of ten thousand partitions most may never have had a record: nothing below would find anything.
        topic_id = topic_id_in(folder, names, findings)
        return Loaded(segments=[Segment.unmade(folder)], topic_id=topic_id, findings=findings)
    settled = not any((parsed := parse_offset_name(name)) is not None and parsed.state for name in names)
    if not settled:
        known = known._replace(compacted=known.compacted or was_being_compacted(names))
        names = tidy(folder, names, findings)
    segments = segments_of(folder, names, findings, known, settled=settled)
    loaded = Loaded(segments=segments, findings=findings, topic_id=topic_id_in(folder, names, findings))
    loaded.restarted, loaded.compacted = RESTARTED in names, known.compacted
    stored = stored_epochs(folder, names, findings)
    loaded.epochs = stored.copy() if stored is not None else epochs_by_batches(segments)
    found = _trusted_end(segments, known, findings) if known.clean else None
    if found is None:
        found = _recover(loaded, known, interval)
        if loaded.producers is not None:
            recall_now(loaded.producers, segments)
    else:
        _make_missing_indexes(folder, names, loaded, interval)
        loaded.producers = load_producers(folder, segments, found.offset, findings)
    end = found.offset
    if known.clean and end < (known.recovery_point or 0):
        left = known.recovery_point
        findings.append(f"{folder.path}: the log ends at {end}, below {left}, though that was there at a clean stop")
        loaded.lost = True
    start, end = _bounds(folder, loaded, known, end)
    if segments:
        segments[-1].created_ms = folder.disk.mtime_ms(segments[-1].path())
    else:
        segments.append(_first(folder, start))
    loaded.log_start_offset, loaded.log_end_offset = start, end
    loaded.recovery_point = end if known.clean and not findings else min(known.recovery_point or 0, end)
    _settle_epochs(loaded, found.epoch, folder.file(EPOCHS))
    loaded.epochs_changed = loaded.epochs != (stored if stored is not None else EpochTable())
    loaded.aborted = aborted_on_disk(folder, names, segments, end)
    for segment in segments:
        if segment.file is not None:
            segment.close()
    return loaded


def _bounds(folder: Folder, loaded: Loaded, known: CheckpointedLog, end: int) -> tuple[int, int]:
    """Where the log begins and ends. Its batches end at ``end``; where that is below its start, it is emptied."""
    segments = loaded.segments
    start = max(known.log_start_offset or 0, segments[0].base_offset if segments else 0)
    if end < start and any(segment.size for segment in segments) and start > max(known.recovery_point or 0, end):
        # Nothing says that this log ever reached so far: the line is damaged, or a power cut took the records that the
        # log had before it. What is on disk stays. Were it removed, the empty log would be taken for a whole one.
        loaded.findings.append(f"{folder.path}: the log ends at {end}, below its start {start}, which is not believed")
        start = segments[0].base_offset
    if end < start:
        if any(segment.size for segment in segments):
            loaded.findings.append(
                f"{folder.path}: the log ends at {end}, below its start {start}; it begins again empty"
            )
        while segments:
            segments.pop().remove()
        loaded.producers = Producers(start)
        end = start
    return start, end


def _settle_epochs(loaded: Loaded, last: int, path: str) -> None:
    """Have the epoch table end and begin where the log does; ``last`` is the epoch of its last batch, -1: unknown."""
    end, start = loaded.log_end_offset, loaded.log_start_offset
    loaded.epochs.truncate_from_end(end)
    offset = end - 1
    if last < 0:  # the last segment is empty, as one is that was just begun
        offset, last = _last_batch(loaded.segments)
    latest = loaded.epochs.epoch_at(offset)
    if last >= 0 and start <= offset < end and latest != last:
        # A follower that names an epoch that nobody had is told to diverge for ever.
        loaded.findings.append(f"{path}: the last epoch is {latest}, that of the last batch {last}; it is made again")
        loaded.epochs = epochs_by_batches(loaded.segments)
    loaded.epochs.truncate_from_start(start)


def _last_batch(segments: list[Segment]) -> tuple[int, int]:
    """Where the last batch of all begins, and its epoch; -1 and -1 when there is none that can be read. What compaction
    took after it may have been of a later epoch."""
    segment = next((one for one in reversed(segments) if one.size), None)
    found = -1, -1
    if segment is not None and not segment.damage:
        try:
            for _, header in segment.walk(_tail(segment)):
                found = header.base_offset, header.leader_epoch
        except CorruptLog:  # whoever reads it tells
            return -1, -1
    return found


def _first(folder: Folder, start: int) -> Segment:
    """A segment where there is none. Its file's name keeps the offset, unless that is where all logs begin."""
    if not start:
        return Segment.unmade(folder)
    segment = Segment(folder, start)
    segment.open(create=True)
    folder.names.touch()
    segment.created_ms = folder.disk.mtime_ms(segment.path())
    return segment


def _make_missing_indexes(folder: Folder, names: list[str], loaded: Loaded, interval: int) -> None:
    """Make the indexes of segments that have none, here where it holds up nobody; a few entries may be missing in
    others."""
    there = set(names)
    for segment in loaded.segments:
        paths = [offset_name(segment.base_offset, kind) for kind in (INDEX, TIME_INDEX)]
        missing = not there.issuperset(paths)
        if not missing and segment.size > _NO_ENTRY_YET:
            missing = not is_filled(folder, paths[0])
        if segment.size and missing:
            try:
                segment.rebuild_index(interval)
                segment.close()
            except CorruptLog as error:
                loaded.findings.append(f"{error}, in spite of a clean stop")


# -- the end of the log ---------------------------------------------------------------------------------------------


class _End(NamedTuple):
    """The log's end, and the leader epoch of the batch before it, -1 when that was not looked at."""

    offset: int
    epoch: int = -1


def _trusted_end(segments: list[Segment], known: CheckpointedLog, findings: list[str]) -> _End | None:
    """The end after a clean stop, from the last batches alone; None when they do not end where the file does."""
    if not segments:
        return _End(known.log_start_offset or 0)
    last = segments[-1]
    end, epoch = last.base_offset, -1
    try:
        for _, header in last.walk(_tail(last)):
            end, epoch = header.next_offset, header.leader_epoch
    except CorruptLog as error:
        findings.append(f"{error}, in spite of a clean stop")
        return None
    return _End(end, epoch)


def _tail(segment: Segment) -> int:
    """A batch start near the end, from the last entry of the index file alone: the whole index may be megabytes."""
    if segment.size <= _SMALL:
        return 0
    try:
        entry = last_entry(segment.folder, segment.path(INDEX))
        if entry is not None and 0 < entry[1] < segment.size:
            _, header = next(segment.walk(entry[1]))
            if header.last_offset == segment.base_offset + entry[0]:
                return entry[1]
    except (FileNotFoundError, BrokenFile, CorruptLog):
        pass
    positions = segment.rebuild_index().positions
    return positions[-1] if positions else 0


def _recover(loaded: Loaded, known: CheckpointedLog, interval: int) -> _End:
    """Read and check everything from the recovery point on, cut at the first batch that is not sound; the log's end.

    When the recovery point is not known, only the last segment is cut: what is before may be durable and compacted.
    There a gap tells nothing, and a batch that is not sound is named, and never served. Nor does a gap tell anything
    of a log that was compacted, by a broker of Apache Kafka perhaps, which compacts above its recovery point too.
    """
    segments, recovery_point = loaded.segments, known.recovery_point or 0
    loaded.epochs.truncate_from_end(recovery_point)
    end = segments[0].base_offset if segments else 0
    scan = _Scan(loaded, interval, recovery_point, cuts=known.recovery_point is not None)
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        lost_before = segment.damage and following is not None  # and known to be: what follows is kept
        if following is not None and (following <= recovery_point or lost_before):
            end = following
            continue
        torn = scan.segment(segment, following is None)
        end = max(segment.base_offset, torn.end)
        if torn.reason:
            where = f"{segment.path()}: {torn.lost} bytes from byte {segment.size} on are cut: {torn.reason}"
            loaded.findings.append(where + (", though they were flushed" if end < recovery_point else ""))
        lost = scan.cuts and following is not None and max(end, known.log_start_offset or 0) < following
        lost = lost and not (not torn.reason and (known.compacted or is_compacted(segments)))
        if lost and not torn.reason:
            # A segment begins where the one before it ended, so this one lost its tail, at a batch boundary by chance.
            loaded.findings.append(f"{segment.path()} ends at offset {end}, though it went on to {following}")
        if torn.reason or lost:
            for later in reversed(segments[number + 1 :]):
                loaded.findings.append(f"{later.path()}: removed, it follows the cut")
                segments.pop().remove()
            segment.below = UNBOUNDED  # it is the last one now, and takes what is appended
            break
        if not segment.damage:
            segment.seal()  # else the next clean start would not know its largest timestamp
    scan.end(end)
    return _End(end, scan.epoch)


class _Torn(NamedTuple):
    end: int
    lost: int = 0
    reason: str = ""


def _resume(segment: Segment, recovery_point: int, interval: int) -> tuple[int, _End]:
    """Where the first batch not known to be durable begins, and its least offset and epoch; (0, ...) when that is the
    beginning.

    The last index entries below the recovery point may not have been durable with it (``Segment.unsynced_entries``):
    they are made again from the headers there. CorruptLog when the log does not reach the recovery point.
    """
    index = segment.index
    index.truncate(recovery_point - segment.base_offset)
    after, known = 0, len(index.offsets) - 2 * FEW_ENTRIES
    end, epoch = segment.base_offset, -1
    if known <= 0:
        segment.reset_index()
    else:
        index.truncate(index.offsets[known])
        after = index.positions[-1]
        segment.unread = False
        segment.max_timestamp = index.times[-1] if index.times else -1
        segment.max_timestamp_offset = segment.base_offset + (index.time_offsets[-1] if index.times else 0)
    segment.bytes_since_entry = 0
    try:
        for position, header in segment.walk(after):
            if header.last_offset >= recovery_point:
                return position, _End(end, epoch)
            segment.note(position, header, interval)
            after = position + header.length + LENGTH_OVERHEAD
            end, epoch = header.next_offset, header.leader_epoch
    except CorruptLog:
        if end < recovery_point:  # a torn tail just behind it is no reason to doubt what is before
            raise
    if end < recovery_point:
        raise CorruptLog(segment.path(), segment.size, f"the log ends at {end}, below {recovery_point}")
    return after, _End(end, epoch)


class _Scan:
    """One recovery: checks segments batch by batch, and makes indexes, epochs and producers' state again."""

    def __init__(self, loaded: Loaded, interval: int, recovery_point: int, *, cuts: bool) -> None:
        self.cuts = cuts
        self._loaded = loaded
        self._interval = interval
        self._recovery_point = recovery_point
        self._producers: Producers | None = None
        self._began = False
        self.epoch = -1
        """The leader epoch of the last sound batch that was looked at."""

    def end(self, end: int) -> None:
        """The log ends here: so does the producers' state."""
        if not self._began:
            self._producers = Producers(end)
        if self._producers is not None:
            self._producers.end_offset = end
        self._loaded.producers = self._producers

    def _begin(self, offset: int) -> None:
        """Nothing below ``offset`` is doubted: take the producers' state there from the newest snapshot.

        Not from the log before it, which is not read (``truncation.restore_in_slices`` does so later, in steps).
        """
        self._began = True
        segments = self._loaded.segments
        folder = segments[0].folder
        drop_snapshots(folder, above=self._recovery_point)  # they may describe a log that was written again
        producers = newest_snapshot(folder, segments[0].base_offset, offset)
        if producers.end_offset >= offset:
            self._producers = producers

    def segment(self, segment: Segment, last: bool) -> _Torn:
        """Check one segment from the recovery point (or its start) and make its index again from there."""
        start, found = 0, _End(segment.base_offset)
        if segment.base_offset < self._recovery_point:
            try:
                start, found = _resume(segment, self._recovery_point, self._interval)
            except CorruptLog:
                start = 0  # index and log do not agree, or the log ends before the recovery point: all is read
        if not start:
            segment.reset_index()
            found = _End(segment.base_offset)
        segment.damage = ""
        if not self._began:
            self._begin(found.offset)
        return self._scan(segment, start, found, cut=self.cuts or last)

    def _scan(self, segment: Segment, position: int, before: _End, *, cut: bool) -> _Torn:
        """Check batch by batch from ``position``, which comes after ``before``, to the end of the file; where a batch
        is not sound, cut the file, or note the damage."""
        epochs, producers = self._loaded.epochs, self._producers
        file = segment.open()
        size = segment.size
        start, chunk, reason = position, b"", ""
        end, epoch = before
        while position < size:
            header = None
            for _ in range(2):  # a batch larger than a chunk is read whole the second time
                at = position - start
                if at + HEADER_SIZE <= len(chunk):
                    header = read_header(chunk, at)
                    if at + header.length + LENGTH_OVERHEAD <= len(chunk):
                        break
                wanted = max(_SCAN_BYTES, header.length + LENGTH_OVERHEAD if header is not None else 0)
                chunk, start = file.pread(min(wanted, size - position), position), position
            reason = _doubt(chunk, position - start, header, (end, epoch), segment)
            if reason or header is None:
                break
            segment.note(position, header, self._interval)
            epoch = header.leader_epoch
            if epoch > epochs.latest:
                epochs.assign(epoch, header.base_offset)
            if producers is not None and header.producer_id >= 0:
                inside = chunk[at + HEADER_SIZE : at + header.length + LENGTH_OVERHEAD] if header.is_control else b""
                marker = read_marker(header, inside) if header.is_control else None
                producers.record(header, header.base_offset, header.max_timestamp, marker=marker)
            position += header.length + LENGTH_OVERHEAD
            end = header.next_offset
        if position < size and (old := old_message(file, position)) is not None:
            segment.keep_damaged(position, reason)
            raise OldFormat(segment.path(), position, *old)
        if position < size and not cut:
            self._loaded.findings.append(f"{segment.path()} is corrupt at byte {position}: {reason}; it is kept")
            return _Torn(end)
        self.epoch = epoch
        if position < size:
            file.truncate(position)
            segment.size = position
        segment.checked_from = min(segment.checked_from, position)
        return _Torn(end, size - position, reason)


def _doubt(chunk: bytes, at: int, header: BatchHeader | None, after: tuple[int, int], segment: Segment) -> str:
    """Why what stands at ``at`` cannot be the batch that follows an offset and epoch, in a segment; "" when it can."""
    end, epoch = after
    if header is None:
        return "the last batch is cut short"
    if check(chunk, at, header) is not Code.NONE:
        return "length, format or checksum of a batch is wrong"
    if header.base_offset < end or header.last_offset_delta < 0:
        return f"a batch at offset {header.base_offset} where {end} or more is expected"
    if header.last_offset - segment.base_offset > _MAX_RELATIVE or header.last_offset >= segment.below:
        return f"a batch at offset {header.base_offset} that the segment from {segment.base_offset} on cannot hold"
    if header.leader_epoch < epoch:
        return f"leader epoch {header.leader_epoch} follows {epoch}: bytes of a tail that was cut before"
    return ""
