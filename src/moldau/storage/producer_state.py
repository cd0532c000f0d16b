"""The producers' state of a log, read from the newest snapshot and the batch headers after it.

A start reads it on a worker thread; after a truncation it is read in slices (``truncation.restore_in_slices``), while
the log goes on. What the state is: ``producers.py``.
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.storage.aborted import read_marker
from moldau.storage.errors import BrokenFile, CorruptLog, NoFile
from moldau.storage.folder import Folder
from moldau.storage.names import SNAPSHOT, offset_name, parse_offset_name
from moldau.storage.producers import KEPT_BATCHES, Producers
from moldau.storage.segment import Segment
from moldau.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD

AT_ONCE = 500
"""Batch headers read in one step of the loop, where it is the loop that reads them: under 5 ms."""

RECALLED = 16
"""Producers of a log whose last batches are looked for at a start: more cost a thousand logs seconds."""
RECALL_STEPS = 4


def drop_snapshots(folder: Folder, above: int) -> None:
    """Remove snapshots above offset ``above``: they may describe a log that was cut and written again."""
    for name in folder.disk.list_dir(folder.path):
        parsed = parse_offset_name(name)
        if parsed is not None and parsed.kind == SNAPSHOT and parsed.offset > above:
            folder.remove(folder.file(name))
            folder.names.touch()


def load_producers(folder: Folder, segments: list[Segment], end: int, findings: list[str] | None = None) -> Producers:
    """The producers' state at offset ``end``. What cannot be read is left out, and named in ``findings``; without them
    it is CorruptLog.
    """
    producers = newest_snapshot(folder, segments[0].base_offset if segments else end, end)
    for _ in follow_in_slices(producers, segments, end, findings):
        pass
    recall_now(producers, segments)
    return producers


def newest_snapshot(folder: Folder, start: int, end: int) -> Producers:
    """The state in the newest readable snapshot that is not above ``end``; none of a log that begins at ``start``."""
    offsets = []
    for name in folder.disk.list_dir(folder.path):
        parsed = parse_offset_name(name)
        if parsed is not None and parsed.kind == SNAPSHOT and not parsed.state and parsed.offset <= end:
            offsets.append(parsed.offset)
    for offset in sorted(offsets, reverse=True):
        path = folder.file(offset_name(offset, SNAPSHOT))
        try:
            return Producers.parse(folder.read(path), offset, path)
        except NoFile as error:
            folder.dir.on_repair(str(error))
        except BrokenFile:
            folder.disk.remove(path)
    return Producers(start)


def follow_in_slices(
    producers: Producers, segments: list[Segment], end: int, findings: list[str] | None = None
) -> Generator[None, None, None]:
    """Bring the state up to offset ``end`` of the log, with a pause after each ``AT_ONCE`` batches."""
    begin = producers.end_offset
    for number, segment in enumerate(segments):
        if begin >= end or (number + 1 < len(segments) and segments[number + 1].base_offset <= begin):
            continue
        try:
            position: int | None = segment.locate(begin)
            while position is not None:
                position = _some(producers, segment, position, (begin, end))
                yield
        except CorruptLog as error:
            if findings is None:
                raise
            findings.append(f"{error}; the sequence numbers of producers after it are not known")
    producers.end_offset = end


def recall_in_slices(producers: Producers, segments: list[Segment]) -> Generator[None, None, None]:
    """Add the batches that a snapshot leaves out: it names each producer's last one, and a client that had five on the
    way sends all five again to a leader that was started meanwhile.

    Of the ``RECALLED`` producers that wrote last, in at most ``RECALL_STEPS`` steps, with a pause after each; the
    state stays as it is where the log is damaged, or where this is not enough.
    """
    newest = sorted((known.batches[-1] for _, known in producers if known.batches), key=lambda last: -last.last_offset)
    span = 2 * KEPT_BATCHES * sum(last.offset_delta + 1 for last in newest[:RECALLED])
    begin = max(producers.end_offset - span, segments[0].base_offset if segments else producers.end_offset)
    seen = Producers(begin)
    for step, _ in enumerate(follow_in_slices(seen, segments, producers.end_offset, []), 1):
        yield
        if step == RECALL_STEPS:
            break
    for id, known in producers:
        if (again := seen.get(id)) is not None:
            known.recall(again)


def recall_now(producers: Producers, segments: list[Segment]) -> None:
    """``recall_in_slices`` in one go, on a worker thread."""
    for _ in recall_in_slices(producers, segments):
        pass


def _some(producers: Producers, segment: Segment, position: int, between: tuple[int, int]) -> int | None:
    """Record the next batches; the position after them, None at the end. The file may be closed between two steps."""
    begin, end = between
    for number, (at, header) in enumerate(segment.walk(position), 1):
        if header.base_offset >= end:
            return None
        if header.producer_id >= 0 and header.base_offset >= begin:
            marker = None
            if header.is_control:
                size = header.length + LENGTH_OVERHEAD - HEADER_SIZE
                marker = read_marker(header, segment.open().pread(size, at + HEADER_SIZE))
            producers.record(header, header.base_offset, header.max_timestamp, marker=marker)
        if number == AT_ONCE:
            return at + header.length + LENGTH_OVERHEAD
    return None
