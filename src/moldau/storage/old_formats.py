"""Records in the message formats v0 and v1, which Apache Kafka wrote before 0.11: told at the start, never touched.

Moldau reads format v2 only. A log that holds older records is out of use as a whole, and stays as it is: to recovery
they look like a torn tail, which is cut. A topic turned to v2 at one time, so that the first batch of the first
segment tells; where recovery meets an older one further on, it stops there all the same. Read next: ``recovery.py``.
"""

from __future__ import annotations

from contextlib import closing
from struct import Struct
from zlib import crc32

from moldau.model.named import NamedTuple
from moldau.ports import File
from moldau.storage.errors import OldFormat
from moldau.storage.folder import ONE_FILE, Folder
from moldau.storage.names import LOG, SWAP, parse_offset_name

_ENTRY = Struct(">qiIb")
"""Offset, size, checksum and format of one message of v0 or v1; the size counts from the checksum on."""
_SIZE_FROM, _CRC_FROM = 12, 16
_LEAST_SIZE = 14
"""A message of v0 without key and value: checksum, format, attributes and two lengths."""
_CHUNK_BYTES = 1 << 20


class OldMessage(NamedTuple):
    offset: int
    format: int


def old_message(file: File, position: int) -> OldMessage | None:
    """The message of format v0 or v1 that stands there whole, with a right checksum; None where none does.

    Zeros, and batches of v2 of which the format's byte has rotted, are none.
    """
    head = file.pread(_ENTRY.size, position)
    if len(head) < _ENTRY.size:
        return None
    offset, size, crc, format = _ENTRY.unpack(head)
    end = position + _SIZE_FROM + size
    if format not in (0, 1) or size < _LEAST_SIZE or offset < 0 or end > file.size():
        return None
    found, at = 0, position + _CRC_FROM
    while at < end:
        part = file.pread(min(_CHUNK_BYTES, end - at), at)
        if not part:
            return None
        found = crc32(part, found)
        at += len(part)
    return OldMessage(offset, format) if found == crc else None


def refuse_old_formats(folder: Folder, names: list[str]) -> None:
    """OldFormat when the log's first batch, or that of a segment that a compaction left half put in place, is older.

    What cannot be opened is left to those who load it.
    """
    parsed = [(name, one) for name in names if (one := parse_offset_name(name)) is not None and one.kind == LOG]
    live = [name for name, one in sorted(parsed, key=lambda pair: pair[1].offset) if not one.state]
    for name in live:
        if _is_sound(folder, name):
            break
    for name in (name for name, one in parsed if one.state == SWAP):
        _is_sound(folder, name)


def _is_sound(folder: Folder, name: str) -> bool:
    """Whether the file holds anything; OldFormat when it begins with a message of an older format."""
    path = folder.file(name)
    try:
        with closing(folder.disk.open(path)) as file:
            found = old_message(file, 0)
            if found is not None:
                raise OldFormat(path, 0, *found)
            return file.size() > 0
    except OSError as error:
        if error.errno not in ONE_FILE:
            raise
        return False
