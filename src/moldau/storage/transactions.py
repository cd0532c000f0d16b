"""The aborted transactions of a log: where they stand in its ``.txnindex`` files, and which a reader has to leave out.

Beside each segment that holds an abort marker there is such a file, in Apache Kafka's format. A producer snapshot at an
offset says that the files are right below it; what ended above it is found again in the log, with the producers' state
(``producers.py``). The files are written before each snapshot (``closing.py``). One that is damaged costs a look
through the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct

from moldau.storage.aborted import AbortedTxn
from moldau.storage.closing import Closing
from moldau.storage.errors import BrokenFile
from moldau.storage.folder import Folder
from moldau.storage.log_state import LogState
from moldau.storage.names import TXN_INDEX, parse_offset_name
from moldau.storage.producer_state import follow_in_slices
from moldau.storage.producers import Producers
from moldau.storage.segment import Segment

SNAPSHOTS_KEPT = 2
"""How many snapshots that wait to be written are kept in memory."""
_ENTRY = Struct(">hqqqq")


def pack(entries: Sequence[AbortedTxn]) -> bytes:
    """The entries as the bytes of a ``.txnindex`` file."""
    return b"".join([_ENTRY.pack(0, *entry) for entry in entries])


def parse(data: bytes, base_offset: int, what: str) -> list[AbortedTxn]:
    """The entries of the file of the segment at ``base_offset``; BrokenFile when they cannot be."""
    if len(data) % _ENTRY.size:
        raise BrokenFile(f"{what}: {len(data)} bytes are no whole number of entries")
    entries = []
    before = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTxn._make(fields)
        if version != 0 or not 0 <= entry.first_offset <= entry.last_offset or entry.last_offset <= before:
            raise BrokenFile(f"{what}: {entry} of version {version} after offset {before}")
        entries.append(entry)
        before = entry.last_offset
    return entries


def all_aborted(log: LogState) -> list[AbortedTxn]:
    """The aborted transactions of the log whose markers it holds, in the order of those. LogError."""
    older, newer = _parts(log)
    return older + newer if older else newer


def _parts(log: LogState) -> tuple[list[AbortedTxn], list[AbortedTxn]]:
    producers = log.producers
    if producers.older_aborted is None:
        producers.older_aborted = [one for one in log.kept_aborted if one.last_offset < producers.began_at]
    return producers.older_aborted, producers.aborted


def aborted_within(log: LogState, start: int, end: int) -> list[AbortedTxn]:
    """The aborted transactions that had not ended before ``start``, and had begun before ``end``."""
    found = []
    for entries in _parts(log):
        for at in range(bisect_left(entries, start, key=lambda entry: entry.last_offset), len(entries)):
            entry = entries[at]
            if entry.first_offset < end:
                found.append(entry)
            if entry.stable_offset >= end:
                return found
    return found


def ended_within(log: LogState, start: int, end: int) -> list[AbortedTxn]:
    """The aborted transactions whose markers stand between two offsets."""
    found = []
    for entries in _parts(log):
        first, last = (bisect_left(entries, at, key=lambda entry: entry.last_offset) for at in (start, end))
        found += entries[first:last]
    return found


def take_closing(log: LogState, producers: Producers) -> Closing:
    """What is to be written of the log as it is now; from here on it counts as saved. LogError."""
    end = log.log_end_offset
    aborted = []
    for number in range(log.segment_at(producers.aborted_saved), len(log.segments)):
        below = log.bases[number + 1] if number + 1 < len(log.bases) else end
        aborted.append((log.segments[number], pack(ended_within(log, log.bases[number], below))))
    snapshot = None
    if end and producers.snapshot_offset != end:
        producers.end_offset = producers.snapshot_offset = end
        snapshot = producers.snapshot()
    closing = Closing(end, tuple(aborted), snapshot, producers.aborted_saved)
    producers.aborted_saved = end
    log.folder.names.touch()
    return closing


def take_roll(log: LogState, producers: Producers) -> None:
    """Have what is known at a roll written with the next flush. Of the snapshots that wait only the newest are kept: as
    long as a disk hangs there is no flush, and each may be megabytes."""
    log.closings.append(take_closing(log, producers))
    for number, closing in enumerate(log.closings[:-SNAPSHOTS_KEPT]):
        log.closings[number] = closing._replace(snapshot=None)


def forget_above(log: LogState, offset: int) -> None:
    """The log was cut at ``offset``: what was to be written of what went is not."""
    if log.known_producers is not None:
        for closing in log.closings:
            if closing.offset > offset:
                log.known_producers.aborted_saved = min(log.known_producers.aborted_saved, closing.saved_before)
    log.closings = [closing for closing in log.closings if closing.offset <= offset]


def aborted_on_disk(folder: Folder, names: list[str], segments: Sequence[Segment], up_to: int) -> list[AbortedTxn]:
    """The aborted transactions with markers below ``up_to`` of a log that is being loaded. OSError, LogError."""
    if not any(name.endswith(TXN_INDEX) for name in names):
        return []
    try:
        return _from_files(folder, segments, up_to)
    except (BrokenFile, OSError) as error:
        folder.dir.on_repair(f"{error}; aborted transactions are looked for in the log")
        return _from_log(segments, up_to)


def _from_files(folder: Folder, segments: Sequence[Segment], up_to: int) -> list[AbortedTxn]:
    bases = {segment.base_offset for segment in segments}
    names = []
    for name in folder.disk.list_dir(folder.path):
        parsed = parse_offset_name(name)
        if parsed is not None and parsed.kind == TXN_INDEX and not parsed.state and parsed.offset in bases:
            names.append((parsed.offset, folder.file(name)))
    entries: list[AbortedTxn] = []
    for base, path in sorted(names):
        entries += parse(folder.read(path), base, path)
    return [entry for entry in entries if entry.last_offset < up_to]


def _from_log(segments: Sequence[Segment], up_to: int) -> list[AbortedTxn]:
    known = Producers(segments[0].base_offset)
    for _ in follow_in_slices(known, list(segments), up_to, []):
        pass
    return known.aborted
