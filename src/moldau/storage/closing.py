"""What a roll, or a close, leaves to be written: which transactions were aborted, and a snapshot of the producers.

Taken on the loop as it is at that moment (``transactions.py``), written on any thread (``flush.py``). The
``.txnindex`` files come first and durably, for a snapshot at an offset says that they are right below it; the snapshot
is not synced: its checksum tells a torn one, and then an older one and the log after it say the same.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.storage.folder import Folder
from moldau.storage.names import SNAPSHOT, TXN_INDEX, offset_name
from moldau.storage.segment import Segment


class Closing(NamedTuple):
    """The state at ``offset``. ``aborted``: segments and their ``.txnindex`` bytes, b"" for none."""

    offset: int
    aborted: tuple[tuple[Segment, bytes], ...]
    snapshot: bytes | None
    saved_before: int
    """Up to where the ``.txnindex`` files said what was aborted."""


def write(folder: Folder, closing: Closing) -> None:
    """Write it, on any thread. OSError."""
    for segment, data in closing.aborted:
        path = segment.path(TXN_INDEX)
        if segment.gone:
            continue
        if data:
            _replace(folder, path, data, durably=True)
        elif folder.disk.exists(path):
            folder.remove(path)
    if closing.snapshot is not None:
        _replace(folder, folder.file(offset_name(closing.offset, SNAPSHOT)), closing.snapshot, durably=False)


def _replace(folder: Folder, path: str, data: bytes, *, durably: bool) -> None:
    file = folder.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite((data,), 0)
        if durably:
            file.sync()
    finally:
        file.close()
