"""Files as a node sees them: positioned reads, appended writes, explicit durability. Paths are plain strings.

Every call may raise OSError (ENOSPC, EIO, ...): the world failing is an exception, and the caller decides what it
means. ``write`` and friends reach the page cache only; ``sync`` (fdatasync) makes file data durable, ``sync_dir`` makes
creation, renaming and removal durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.model.protocol import Protocol


class FileSlice(Protocol):
    """Bytes of a file that were named, not read, for a transport of the same world to send."""

    was_read: bool
    """Whether they were read nevertheless, to be checked: that is work, though no memory is held for it."""

    def __len__(self) -> int: ...

    def __bytes__(self) -> bytes:
        """Read them after all; OSError."""


class File(Protocol):
    """One open file. Not shared between threads, save that ``pread`` and ``sync`` may run off the loop."""

    def pread(self, size: int, offset: int) -> bytes:
        """Up to ``size`` bytes from ``offset``; fewer only at the end of the file."""

    def slice(self, size: int, offset: int) -> bytes | FileSlice:
        """As ``pread``, for what is handed to a transport as it is; only named, where the world can send it unread.

        What is cut or closed before it is sent is sent as it was; nobody may write over it.
        """

    def is_recent(self, offset: int) -> bool:
        """Whether what stands at ``offset`` and after it was written through this file a moment ago."""

    def is_cached(self, size: int, offset: int) -> bool:
        """Whether reading these bytes would not wait for a device, as far as can be told at once."""

    def pwrite(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        """Write all the buffers, one after the other, at ``offset`` in one vectored write; bytes written (all, or
        OSError)."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def keep_slices(self, size: int) -> None:
        """The file is about to be cut at ``size`` through another opening of it: what was lent beyond is kept."""

    def sync(self) -> None:
        """fdatasync: data and size are durable when this returns."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Directories are created with parents; removing what is not there is not an error."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError when absent and not ``create``."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def mtime_ms(self, path: str) -> int: ...

    def list_dir(self, path: str) -> list[str]:
        """Names (not paths) in a directory, sorted; FileNotFoundError when absent."""

    def is_dir(self, path: str) -> bool: ...

    def make_dirs(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Atomic replacement; durable only after ``sync_dir`` of the parent."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def read(self, path: str) -> bytes:
        """A whole small file."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a small file durably: temporary file, fsync, rename, fsync of the directory."""

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """What the volume that a folder is on can hold."""

    def lock(self, path: str) -> bool:
        """Take an exclusive lock file for the life of the process; False when another process holds it."""

    def is_replaced(self, path: str) -> bool:
        """Whether another folder stands where that of a lock file stood when this process took it. OSError when none
        stands there."""
