"""Looking into a partition's folder without owning it: for tools, tests and the comparison of replicas.

Decides nothing and changes nothing: no recovery, no index, no lock. Batches come in file order with their checksums
checked; what does not parse is reported, not repaired. Read next: ``segment.py``, ``recovery.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.model.named import NamedTuple
from moldau.ports import Disk
from moldau.storage.checkpoints import parse_epochs, parse_partition_metadata
from moldau.storage.errors import CorruptLog
from moldau.storage.folder import Folder, LogDir
from moldau.storage.names import EPOCHS, LOG, PARTITION_METADATA, offset_name, parse_offset_name
from moldau.storage.segment import Segment
from moldau.wire.batch import LENGTH_OVERHEAD, BatchHeader, check


class StoredBatch(NamedTuple):
    """A batch on disk: file, position, header, all its bytes, and whether the checksum is right."""

    path: str
    position: int
    header: BatchHeader
    data: bytes
    sound: bool


def segments_in(disk: Disk, path: str) -> list[Segment]:
    """The segments of the folder ``path`` as their files stand now, in order."""
    folder = Folder(LogDir(disk, path.rpartition("/")[0]), path)
    bases = []
    for name in disk.list_dir(path):
        parsed = parse_offset_name(name)
        if parsed is not None and parsed.kind == LOG and not parsed.state:
            bases.append(parsed.offset)
    return [Segment(folder, base, disk.size(folder.file(offset_name(base, LOG)))) for base in sorted(bases)]


def batches(disk: Disk, path: str, start: int = 0, problems: list[str] | None = None) -> Iterator[StoredBatch]:
    """Every batch of a folder that ends at or after offset ``start``.

    Where a file does not parse, its rest is left out: named in ``problems`` if that is given, else CorruptLog.
    """
    segments = segments_in(disk, path)
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start:
            continue
        try:
            yield from _batches_of(segment, start)
        except CorruptLog as error:
            if problems is None:
                raise
            problems.append(str(error))
        finally:
            segment.drop()


def _batches_of(segment: Segment, start: int) -> Iterator[StoredBatch]:
    path = segment.path()
    for position, header in segment.walk(0):
        if header.last_offset >= start:
            data = segment.open().pread(header.length + LENGTH_OVERHEAD, position)
            yield StoredBatch(path, position, header, data, not check(data, 0, header))


def topic_id_of(disk: Disk, path: str) -> bytes | None:
    """The topic id a folder says it belongs to, None when it says none; BrokenFile when it cannot be read."""
    file = f"{path}/{PARTITION_METADATA}"
    return parse_partition_metadata(disk.read(file), file) if disk.exists(file) else None


def epochs_of(disk: Disk, path: str) -> list[tuple[int, int]]:
    """(leader epoch, start offset) pairs of a folder's checkpoint, empty when there is none; BrokenFile."""
    file = f"{path}/{EPOCHS}"
    return parse_epochs(disk.read(file), file) if disk.exists(file) else []
