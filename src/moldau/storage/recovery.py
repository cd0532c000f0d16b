"""What a start finds in a partition's folder: half-done swaps are finished or undone, a torn tail is cut, the rest
trusted.

Decides the log's end. After a clean stop only the tail of the last segment is looked at; after anything else every byte
from the recovery point on is read and checked, and nothing before it. Whatever is not the log itself (indexes, epochs,
producer snapshots) is made again when it is missing or broken. What was repaired or lost is named in
``Loaded.findings``. Rules for ``.deleted``, ``.cleaned`` and ``.swap``: Apache Kafka's LogLoader (KAFKA-6264,
KAFKA-12520).
"""

from __future__ import annotations

from moldau.replication.epochs import EpochTable
from moldau.storage.checkpoints import parse_epochs, parse_partition_metadata
from moldau.storage.errors import BrokenFile, CorruptLog
from moldau.storage.folder import Folder
from moldau.storage.index_file import last_entry
from moldau.storage.names import (
    CLEANED,
    DELETED,
    EPOCHS,
    INDEX,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    OffsetFile,
    offset_name,
    parse_offset_name,
)
from moldau.storage.producers import Producers
from moldau.storage.segment import FEW_ENTRIES, Segment
from moldau.terms import Code
from moldau.terms.named import NamedTuple
from moldau.terms.value import field, value
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, check, read_header

_SCAN_BYTES = 4 << 20
_SMALL = 8192


class Known(NamedTuple):
    """What the log directory's checkpoints say of a log before it is loaded."""

    clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


@value(frozen=False, kw_only=True)
class Loaded:
    """A log's parts as loaded. ``producers`` None: read them when first needed."""

    segments: list[Segment]
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    epochs: EpochTable = field(default_factory=EpochTable)
    epochs_changed: bool = False
    producers: Producers | None = None
    topic_id: bytes | None = None
    findings: list[str] = field(default_factory=list)


def load(folder: Folder, known: Known, interval: int) -> Loaded:
    """Load the log in ``folder``; OSError when the disk fails. ``interval``: bytes between index entries made again."""
    findings: list[str] = []
    names = folder.disk.list_dir(folder.path)
    if names == [PARTITION_METADATA] and not (known.recovery_point or known.log_start_offset):
        # Of ten thousand partitions most may never have had a record: nothing below would find anything.
        topic_id = _topic_id(folder, names, findings)
        return Loaded(segments=[Segment.unmade(folder)], topic_id=topic_id, findings=findings)
    names = _tidy(folder, names)
    segments = _segments(folder, names)
    loaded = Loaded(segments=segments, findings=findings, topic_id=_topic_id(folder, names, findings))
    stored = _stored_epochs(folder, names, findings)
    loaded.epochs = stored.copy() if stored is not None else _epochs_in(segments)
    end = _trusted_end(segments, known, findings) if known.clean else None
    if end is None:
        end = _recover(loaded, known, interval)
        drop_snapshots(folder, above=known.recovery_point)
    start = max(known.log_start_offset, segments[0].base_offset if segments else 0)
    if end < start:
        if any(segment.size for segment in segments):
            findings.append(f"{folder.path}: the log ends at {end}, below its start {start}; it begins again empty")
        while segments:
            segments.pop().remove()
        end = start
    if segments:
        segments[-1].created_ms = folder.disk.mtime_ms(segments[-1].path())
    else:
        segments.append(_first(folder, start))
    loaded.log_start_offset, loaded.log_end_offset = start, end
    loaded.recovery_point = end if known.clean and not findings else min(known.recovery_point, end)
    loaded.epochs.truncate_from_end(end)
    loaded.epochs.truncate_from_start(start)
    loaded.epochs_changed = loaded.epochs != (stored if stored is not None else EpochTable())
    for segment in segments:
        if segment.file is not None:
            segment.close()
    return loaded


def _first(folder: Folder, start: int) -> Segment:
    """A segment where there is none. Its file's name keeps the offset, unless that is where all logs begin."""
    if not start:
        return Segment.unmade(folder)
    segment = Segment(folder, start)
    segment.open(create=True)
    folder.names.touch()
    segment.created_ms = folder.disk.mtime_ms(segment.path())
    return segment


# -- files ----------------------------------------------------------------------------------------------------------


def _tidy(folder: Folder, names: list[str]) -> list[str]:
    """Finish or undo what compaction and deletion left half-done; the names that remain."""
    found = [(name, parsed) for name in names if (parsed := parse_offset_name(name)) is not None]
    if not any(parsed.state for _, parsed in found):
        return names
    cleaned_from = min((parsed.offset for _, parsed in found if parsed.state == CLEANED), default=None)
    swaps: list[tuple[str, OffsetFile]] = []
    for name, parsed in found:
        # A swap at or above a .cleaned file belongs to a replacement that was not complete (KAFKA-6264).
        undone = parsed.state == SWAP and cleaned_from is not None and parsed.offset >= cleaned_from
        if parsed.state in (DELETED, CLEANED) or undone:
            folder.disk.remove(folder.file(name))
        elif parsed.state == SWAP:
            swaps.append((name, parsed))
    _finish_swaps(folder, found, swaps)
    folder.names.touch()
    return folder.disk.list_dir(folder.path)


def _finish_swaps(folder: Folder, found: list[tuple[str, OffsetFile]], swaps: list[tuple[str, OffsetFile]]) -> None:
    """The swapped-in segments are whole: delete what they replace, then give them their names."""
    for name, parsed in swaps:
        if parsed.kind != LOG:
            continue
        segment = Segment(folder, parsed.offset, folder.disk.size(folder.file(name)), SWAP)
        end = parsed.offset
        for _, header in segment.walk(0):
            end = header.next_offset
        segment.drop()
        for other, old in found:
            if not old.state and old.kind != SNAPSHOT and parsed.offset <= old.offset < max(end, parsed.offset + 1):
                folder.disk.remove(folder.file(other))
    for name, parsed in sorted(swaps, key=lambda swap: swap[1].kind == LOG):  # the log last: it makes the segment real
        folder.disk.rename(folder.file(name), folder.file(offset_name(parsed.offset, parsed.kind)))


def _segments(folder: Folder, names: list[str]) -> list[Segment]:
    """A segment for each .log file, in order; index files without one are removed."""
    logs = set()
    others = []
    for name in names:
        parsed = parse_offset_name(name)
        if parsed is not None and not parsed.state:
            if parsed.kind == LOG:
                logs.add(parsed.offset)
            elif parsed.kind in (INDEX, TIME_INDEX, TXN_INDEX):
                others.append((parsed.offset, name))
    for offset, name in others:
        if offset not in logs:
            folder.disk.remove(folder.file(name))
    size = folder.disk.size
    return [Segment(folder, base, size(folder.file(offset_name(base, LOG)))) for base in sorted(logs)]


def _topic_id(folder: Folder, names: list[str], findings: list[str]) -> bytes | None:
    if PARTITION_METADATA not in names:
        return None
    path = folder.file(PARTITION_METADATA)
    try:
        return parse_partition_metadata(folder.disk.read(path), path)
    except BrokenFile as error:
        findings.append(str(error))
        return None


def _stored_epochs(folder: Folder, names: list[str], findings: list[str]) -> EpochTable | None:
    """The epoch table as its file has it; None when the file is missing, empty or broken."""
    path = folder.file(EPOCHS)
    try:
        data = folder.disk.read(path) if EPOCHS in names else b""
        return EpochTable(parse_epochs(data, path)) if data else None
    except BrokenFile as error:
        findings.append(f"{error}; the epochs are read from the log again")
        return None


def _epochs_in(segments: list[Segment]) -> EpochTable:
    """The epoch table by the batches of the whole log."""
    table = EpochTable()
    try:
        for segment in segments:
            for _, header in segment.walk(0):
                if header.leader_epoch > table.latest:
                    table.assign(header.leader_epoch, header.base_offset)
    except CorruptLog:
        pass  # a torn tail: what follows decides where the log ends
    return table


# -- the end of the log ---------------------------------------------------------------------------------------------


def _trusted_end(segments: list[Segment], known: Known, findings: list[str]) -> int | None:
    """The end after a clean stop, from the last batches alone; None when they do not end where the file does."""
    if not segments:
        return known.log_start_offset
    last = segments[-1]
    if not last.size:
        return last.base_offset
    end = last.base_offset
    try:
        for _, header in last.walk(_tail(last)):
            end = header.next_offset
    except CorruptLog as error:
        findings.append(f"{error}, in spite of a clean stop")
        return None
    return end


def _tail(segment: Segment) -> int:
    """A batch start near the end, from the last entry of the index file alone: the whole index may be megabytes."""
    if segment.size <= _SMALL:
        return 0
    try:
        entry = last_entry(segment.folder.disk, segment.path(INDEX))
        if entry is not None and 0 < entry[1] < segment.size:
            _, header = next(segment.walk(entry[1]))
            if header.last_offset == segment.base_offset + entry[0]:
                return entry[1]
    except (FileNotFoundError, BrokenFile, CorruptLog):
        pass
    positions = segment.rebuild_index().positions
    return positions[-1] if positions else 0


def _recover(loaded: Loaded, known: Known, interval: int) -> int:
    """Read and check everything from the recovery point on, cut at the first batch that is not sound; the log's end."""
    segments, recovery_point = loaded.segments, known.recovery_point
    loaded.epochs.truncate_from_end(recovery_point)
    end = segments[0].base_offset if segments else 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if following is not None and following <= recovery_point:
            end = following
            continue
        torn = _recover_segment(loaded, segment, recovery_point, interval)
        end = max(segment.base_offset, torn.end)
        if torn.reason:
            where = f"{segment.path()}: {torn.lost} bytes from byte {segment.size} on are cut: {torn.reason}"
            loaded.findings.append(where + (", though they were flushed" if end < recovery_point else ""))
        lost = following is not None and max(end, known.log_start_offset) < following
        if lost and not torn.reason:
            # A segment begins where the one before it ended, so this one lost its tail, at a batch boundary by chance.
            loaded.findings.append(f"{segment.path()} ends at offset {end}, though it went on to {following}")
        if torn.reason or lost:
            for later in reversed(segments[number + 1 :]):
                loaded.findings.append(f"{later.path()}: removed, it follows the cut")
                segments.pop().remove()
            break
        segment.seal()  # else the next clean start would not know its largest timestamp
    return end


class _Torn(NamedTuple):
    end: int
    lost: int = 0
    reason: str = ""


def _recover_segment(loaded: Loaded, segment: Segment, recovery_point: int, interval: int) -> _Torn:
    """Check one segment from the recovery point (or its start) and make its index again from there."""
    start, end = 0, segment.base_offset
    if segment.base_offset < recovery_point:
        try:
            start, end = _resume(segment, recovery_point, interval)
        except CorruptLog:
            start = 0  # index and log do not agree, or the log ends before the recovery point: all is read
    if not start:
        segment.reset_index()
        end = segment.base_offset
    return _scan(loaded, segment, start, end, interval)


def _resume(segment: Segment, recovery_point: int, interval: int) -> tuple[int, int]:
    """Where the first batch not known to be durable begins, and its least offset; (0, ...) when that is the beginning.

    The last index entries below the recovery point may not have been durable with it (``Segment.unsynced_entries``):
    they are made again from the headers there. CorruptLog when the log does not reach the recovery point.
    """
    index = segment.index
    index.truncate(recovery_point - segment.base_offset)
    after, end, known = 0, segment.base_offset, len(index.offsets) - 2 * FEW_ENTRIES
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
                return position, end
            segment.note(position, header, interval)
            after, end = position + header.length + LENGTH_OVERHEAD, header.next_offset
    except CorruptLog:
        if end < recovery_point:  # a torn tail just behind it is no reason to doubt what is before
            raise
    if end < recovery_point:
        raise CorruptLog(segment.path(), segment.size, f"the log ends at {end}, below {recovery_point}")
    return after, end


def _scan(loaded: Loaded, segment: Segment, position: int, end: int, interval: int) -> _Torn:
    """Check batch by batch from ``position`` to the end of the file, and cut the file where a batch is not sound."""
    epochs = loaded.epochs
    file = segment.open()
    size = segment.size
    start, chunk, reason = position, b"", ""
    epoch = epochs.epoch_at(end - 1) if position else -1
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
        if header is None:
            reason = "the last batch is cut short"
        elif check(chunk, position - start, header) is not Code.NONE:
            reason = "length, format or checksum of a batch is wrong"
        elif header.base_offset < end or header.last_offset_delta < 0:
            reason = f"a batch at offset {header.base_offset} where {end} or more is expected"
        elif header.leader_epoch < epoch:
            reason = f"leader epoch {header.leader_epoch} follows {epoch}: bytes of a tail that was cut before"
        if reason or header is None:
            break
        segment.note(position, header, interval)
        epoch = header.leader_epoch
        if epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
        position += header.length + LENGTH_OVERHEAD
        end = header.next_offset
    if position < size:
        file.truncate(position)
        segment.size = position
    segment.checked_from = min(segment.checked_from, position)
    return _Torn(end, size - position, reason)


# -- producers ------------------------------------------------------------------------------------------------------


def drop_snapshots(folder: Folder, above: int) -> None:
    """Remove snapshots above offset ``above``: they may describe a log that was cut and written again."""
    for name in folder.disk.list_dir(folder.path):
        parsed = parse_offset_name(name)
        if parsed is not None and parsed.kind == SNAPSHOT and parsed.offset > above:
            folder.disk.remove(folder.file(name))
            folder.names.touch()


def load_producers(folder: Folder, segments: list[Segment], end: int) -> Producers:
    """The producers' state at offset ``end``: the newest readable snapshot, then the batch headers after it."""
    offsets = []
    for name in folder.disk.list_dir(folder.path):
        parsed = parse_offset_name(name)
        if parsed is not None and parsed.kind == SNAPSHOT and not parsed.state and parsed.offset <= end:
            offsets.append(parsed.offset)
    producers = Producers(segments[0].base_offset)
    for offset in sorted(offsets, reverse=True):
        path = folder.file(offset_name(offset, SNAPSHOT))
        try:
            producers = Producers.parse(folder.disk.read(path), offset, path)
            break
        except BrokenFile:
            folder.disk.remove(path)
    begin = producers.end_offset
    for number, segment in enumerate(segments):
        if begin >= end or (number + 1 < len(segments) and segments[number + 1].base_offset <= begin):
            continue
        for _, header in segment.walk(segment.locate(begin)):
            if header.producer_id >= 0 and header.base_offset >= begin:
                producers.record(header, header.base_offset, header.max_timestamp)
    producers.end_offset = end
    return producers
