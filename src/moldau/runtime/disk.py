"""The real disk: ``moldau.ports.Disk`` over ``os``, as thin as it can be. Positioned vectored reads and writes,
fdatasync, flock.

Decides nothing: every error is the system's OSError, unchanged, for storage to judge. A write either puts all its bytes
or raises. Replacing a small file durably is: temporary file, fsync, close, rename, fsync of the directory (KAFKA-15312,
KAFKA-14273). Read next: ``moldau/storage/log_dirs.py`` for what is asked of it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

_IOV_MAX = 1024  # Linux refuses longer vectors
_READ_BYTES = 1 << 16


class RealFile:
    """One open file. ``pread`` and ``sync`` are the system calls themselves with the descriptor filled in."""

    __slots__ = ("_fd", "pread", "sync")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.pread: Callable[[int, int], bytes] = partial(os.pread, fd)
        self.sync: Callable[[], None] = partial(os.fdatasync, fd)

    def pwrite(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        """All the buffers at ``offset``; the bytes written. OSError when the system would not take them all."""
        wanted = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if len(buffers) <= _IOV_MAX and os.pwritev(self._fd, buffers, offset) == wanted:
            return wanted
        return _write_rest(self._fd, b"".join(buffers), offset)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _write_rest(fd: int, data: bytes, offset: int) -> int:
    """Signals, quotas and a nearly full disk make short writes: go on until all is written or the system says why
    not.
    """
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset + done)
    return done


class RealDisk:
    """The file system of this machine. Lock files stay locked until the process ends or ``unlock``."""

    def __init__(self) -> None:
        self._locks: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_dirs(self, path: str) -> None:
        try:
            os.mkdir(path)  # nearly always the parent is there and this is not: one call where makedirs has three
        except OSError:
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with suppress(FileNotFoundError):
            import shutil  # only here: it brings every archive format along, 2 ms of a broker's start

            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = [os.read(fd, _READ_BYTES)]
            while len(parts[-1]) == _READ_BYTES:  # a short read of a file is its end
                parts.append(os.read(fd, _READ_BYTES))
            return b"".join(parts)
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_rest(fd, data, 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def free_bytes(self, path: str) -> int:
        stats = os.statvfs(path)
        return stats.f_bavail * stats.f_frsize

    def lock(self, path: str) -> bool:
        if path in self._locks:
            return True
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._locks[path] = fd
        return True

    def unlock(self, path: str) -> None:
        """Give a lock file back: for tests and tools that open two nodes' data in one process after another."""
        fd = self._locks.pop(path, -1)
        if fd >= 0:
            os.close(fd)
