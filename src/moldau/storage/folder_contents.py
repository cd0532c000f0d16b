"""What lies in a partition's folder as a start finds it: its segments, its topic id, its leader epochs.

Finishes or undoes what compaction and deletion left half-done, and tells segments that are gone. Decides nothing about
where the log ends. Rules for ``.deleted``, ``.cleaned`` and ``.swap``: Apache Kafka's LogLoader (KAFKA-6264,
KAFKA-12520). Read next: ``recovery.py``.
"""

from __future__ import annotations

from itertools import pairwise

from moldau.replication.epochs import EpochTable
from moldau.storage.checkpoints import parse_epochs, parse_partition_metadata
from moldau.storage.errors import BrokenFile, CorruptLog, LostRecords
from moldau.storage.folder import NO_FILE, Folder
from moldau.storage.loaded import CheckpointedLog
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
from moldau.storage.restarted import check_start
from moldau.storage.segment import Segment


def tidy(folder: Folder, names: list[str], findings: list[str]) -> list[str]:
    """Finish or undo what compaction and deletion left half-done; the names that remain."""
    found = [(name, parsed) for name in names if (parsed := parse_offset_name(name)) is not None]
    cleaned_from = min((parsed.offset for _, parsed in found if parsed.state == CLEANED), default=None)
    swaps: list[tuple[str, OffsetFile]] = []
    for name, parsed in found:
        # A swap at or above a .cleaned file belongs to a replacement that was not complete (KAFKA-6264).
        undone = parsed.state == SWAP and cleaned_from is not None and parsed.offset >= cleaned_from
        if parsed.state in (DELETED, CLEANED) or undone:
            folder.remove(folder.file(name))
        elif parsed.state == SWAP:
            swaps.append((name, parsed))
    _finish_swaps(folder, found, swaps, findings)
    folder.names.touch()
    return folder.disk.list_dir(folder.path)


def _finish_swaps(
    folder: Folder, found: list[tuple[str, OffsetFile]], swaps: list[tuple[str, OffsetFile]], findings: list[str]
) -> None:
    """The swapped-in segments are whole: delete what they replace, then give them their names.

    One that does not parse is dropped while what it would replace is there: of that, the segment at the same offset is
    the first to go. Afterwards it is all there is, and stays as far as it is sound.
    """
    live = {old.offset for _, old in found if not old.state and old.kind == LOG}
    dropped = set()
    for name, parsed in swaps:
        if parsed.kind != LOG:
            continue
        segment = Segment(folder, parsed.offset, folder.disk.size(folder.file(name)), SWAP)
        end = parsed.offset
        try:
            for _, header in segment.walk(0):
                end = header.next_offset
        except CorruptLog as error:
            if parsed.offset in live:
                findings.append(f"{error}; what it should have replaced is kept instead")
                dropped.add(parsed.offset)
            else:
                findings.append(f"{error}; what it replaced is gone")
        segment.drop()
        for other, old in found if parsed.offset not in dropped else ():
            if not old.state and old.kind != SNAPSHOT and parsed.offset <= old.offset < max(end, parsed.offset + 1):
                folder.remove(folder.file(other))
    for name, parsed in sorted(swaps, key=lambda swap: swap[1].kind == LOG):  # the log last: it makes the segment real
        if parsed.offset in dropped:
            folder.remove(folder.file(name))
        else:
            folder.disk.rename(folder.file(name), folder.file(offset_name(parsed.offset, parsed.kind)))


def segments_of(
    folder: Folder, names: list[str], findings: list[str], known: CheckpointedLog, *, settled: bool
) -> list[Segment]:
    """A segment for each .log file, in order. Index files without one are removed.

    Unless they tell that a segment was lost: when nothing was under way as the process ended (``settled``), an index
    that has entries had a log. The segment counts as damaged then, so that nobody reads on behind it unawares. When it
    is the first one, the log has no beginning: LostRecords, and nothing is changed.
    """
    size, logs, indexes = folder.disk.size, set(), []
    for name in names:
        parsed = parse_offset_name(name)
        if parsed is not None and not parsed.state:
            if parsed.kind == LOG:
                logs.add(parsed.offset)
            elif parsed.kind in (INDEX, TIME_INDEX, TXN_INDEX):
                indexes.append((parsed.offset, parsed.kind, name))
        elif parsed is None and name.endswith(LOG):
            findings.append(f"{folder.file(name)!r} is no name of a segment; the file is left alone")
    bases = sorted(logs)
    check_start(folder, bases[0] if bases else None, known.log_start_offset, known.recovery_point or 0)
    for offset, kind, name in indexes if settled else ():
        if kind == INDEX and not (bases and bases[0] <= offset) and is_filled(folder, name):
            gone = folder.file(offset_name(offset, LOG))
            raise LostRecords(f"{gone} is gone, whose index {name} has entries")
    segments = [Segment(folder, base, size(folder.file(offset_name(base, LOG)))) for base in bases]
    empty = {segment.base_offset: segment for segment in segments[:-1] if not segment.size}
    for offset, kind, name in indexes:
        filled = kind == INDEX and settled and (offset in empty or offset not in logs) and is_filled(folder, name)
        if filled and offset in empty and (known.clean or offset < (known.recovery_point or 0)):
            _lost(empty[offset], "the file is empty", findings)
        elif filled and bases and bases[-1] < offset:
            findings.append(f"{folder.file(name)} has entries, and the segment is gone: the log lost its end")
            folder.remove(folder.file(name))
        elif filled and offset not in logs:
            segments.append(Segment(folder, offset))
            _lost(segments[-1], "the file is gone", findings)
        elif offset not in logs:
            folder.remove(folder.file(name))
    segments.sort(key=lambda segment: segment.base_offset)
    for segment, following in pairwise(segments):
        segment.below = following.base_offset
    return segments


def is_filled(folder: Folder, name: str) -> bool:
    """Whether an index has entries."""
    try:
        return folder.disk.size(folder.file(name)) > 0
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        return False


def _lost(segment: Segment, reason: str, findings: list[str]) -> None:
    segment.damage = reason
    findings.append(f"{segment.path()}: {reason}, though its index has entries")


def topic_id_in(folder: Folder, names: list[str], findings: list[str]) -> bytes | None:
    if PARTITION_METADATA not in names:
        return None
    path = folder.file(PARTITION_METADATA)
    try:
        data = folder.read(path)
        folder.damaged_topic = data
        found = parse_partition_metadata(data, path)
        folder.damaged_topic = b""
        return found
    except BrokenFile as error:
        findings.append(str(error))
        return None


def stored_epochs(folder: Folder, names: list[str], findings: list[str]) -> EpochTable | None:
    """The epoch table as its file has it; None when the file is missing, empty or broken."""
    path = folder.file(EPOCHS)
    try:
        data = folder.read(path) if EPOCHS in names else b""
        entries = parse_epochs(data, path)
        if any(one[0] >= after[0] or one[1] >= after[1] for one, after in pairwise(entries)):
            raise BrokenFile(f"{path}: epochs and their first offsets should rise")
        return EpochTable(entries) if data else None
    except BrokenFile as error:
        findings.append(f"{error}; the epochs are read from the log again")
        return None


def was_being_compacted(names: list[str]) -> bool:
    """Whether a compaction was under way, or over for less than file.delete.delay.ms: retention takes segments away
    before the first one only."""
    found = [parsed for name in names if (parsed := parse_offset_name(name)) is not None and parsed.kind == LOG]
    first = min((parsed.offset for parsed in found if not parsed.state), default=0)
    return any(parsed.state in (CLEANED, DELETED) and parsed.offset >= first for parsed in found)


def is_compacted(segments: list[Segment]) -> bool:
    """Whether records are missing between others, as compaction leaves it: by batches whose checksums are right, for a
    torn one may say anything."""
    try:
        for segment in segments:
            expected, before = segment.base_offset, None
            for position, header in segment.walk(0):
                if header.base_offset != expected or header.count != header.last_offset_delta + 1:
                    for at, one in (before or (position, header), (position, header)):
                        segment.batch(at, one)
                    return True
                expected, before = header.next_offset, (position, header)
    except CorruptLog:
        pass  # whoever reads on tells
    return False


def epochs_by_batches(segments: list[Segment]) -> EpochTable:
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
