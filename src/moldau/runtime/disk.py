"""The real disk: ``moldau.ports.Disk`` over ``os``, as thin as it can be. Positioned vectored reads and writes,
fdatasync, flock.

Decides nothing: every error is the system's OSError, unchanged, for storage to judge. A write either puts all its bytes
or raises. Replacing a small file durably is: temporary file, fsync, close, rename, fsync of the directory (KAFKA-15312,
KAFKA-14273). Read next: ``moldau/storage/log_dirs.py`` for what is asked of it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import socket

RECENT_BYTES = 32 << 20
"""What was written last is in the page cache: so much of it is not asked about."""
_IOV_MAX = 1024  # Linux refuses longer vectors
_READ_BYTES = 1 << 16
_READ_WHOLE = 256 << 20
"""What is read whole is a small file of ours. A larger one is none, and would fill the memory."""


SLICE_FROM = 64 << 10
"""Fewer bytes are read at once: a copy costs less than asking twice."""
KEPT_BYTES = 16 << 20
"""What a file that is cut keeps of what was named and not sent yet; logs are cut where no client may read, so it is
little."""
_SENT_AT_ONCE = 1 << 20
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO)


class DiskFileSlice:
    """Bytes of a file as they stood when it was made, to be sent without being read. Its length is what is not sent
    yet.

    What the file is about to lose by being cut is read into memory before, ``KEPT_BYTES`` of one file at the most; a
    file that is closed leaves its descriptor to the slices that are left of it. Read next: ``sending.py``.
    """

    __slots__ = ("__weakref__", "_at", "_data", "_end", "_file", "was_read")

    def __init__(self, file: RealFile, size: int, offset: int) -> None:
        self._file: RealFile | _Descriptor = file
        self._at, self._end = offset, offset + size
        self._data: bytes | None = None
        self.was_read = False

    def __len__(self) -> int:
        return self._end - self._at

    def __bytes__(self) -> bytes:
        """What is left; OSError when the file does not give it."""
        size = self._end - self._at
        data = self._file.pread(size, self._at) if self._data is None else self._data[-size:] if size else b""
        if len(data) != size:
            raise OSError(errno.EIO, f"{size} bytes of a file are expected and {len(data)} are there")
        return data

    def send(self, sock: socket.socket, flags: int) -> int:
        """Send a part, as much as the socket takes at once; how much. BlockingIOError when it takes nothing."""
        if self._data is None:
            try:
                sent = os.sendfile(sock.fileno(), self._file.fd, self._at, min(self._end - self._at, _SENT_AT_ONCE))
            except OSError as error:
                if error.errno not in _NO_SENDFILE:
                    raise
                self._file.lends = False  # the next one is read, and who reads it sees what is wrong with the disk
                self.keep(self._at, len(self))
                return 0
            if not sent:
                raise OSError(errno.EIO, "a file is shorter than it was")
        else:
            sent = sock.send(bytes(self), flags)
        self._at += sent
        return sent

    def take(self, most: int) -> bytes:
        """The next bytes, ``most`` of them at the most, to be sent another way; OSError."""
        size = min(len(self), most)
        data = self._file.pread(size, self._at) if self._data is None else bytes(self)[:size]
        if len(data) != size:
            raise OSError(errno.EIO, "a file is shorter than it was")
        self._at += size
        return data

    def keep(self, size: int, most: int) -> int:
        """The file is about to end at ``size``: have what would be lost in memory; how many bytes that are.

        More than ``most`` are given up instead, and whoever sends them is told.
        """
        if self._data is not None or self._end <= size:
            return 0
        try:
            self._data = bytes(self) if len(self) <= most else b""
        except OSError:
            self._data = b""  # whoever sends it is told
        return len(self._data)

    def is_removed(self) -> bool:
        """Whether the file has no name any more, so that its space on the disk is held for this alone."""
        return self._data is None and bool(len(self)) and os.fstat(self._file.fd).st_nlink == 0

    def stay_with(self, descriptor: _Descriptor) -> None:
        """The file is about to be closed, and its descriptor outlives it."""
        self._file = descriptor


class _Descriptor:
    """What is left of a closed file while slices of it have to be sent: closed with the last of them.

    Nothing is read for them: hundreds of readers may wait for a segment that retention or a deletion takes away.
    """

    __slots__ = ("fd", "lends")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.lends = True

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self.fd, size, offset)

    def __del__(self) -> None:
        os.close(self.fd)


class RealFile:
    """One open file. ``pread`` and ``sync`` are the system calls themselves with the descriptor filled in."""

    __slots__ = ("_lent", "_written_from", "_written_to", "fd", "lends", "pread", "probes", "sync")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.lends = True
        self.probes = True
        self._written_from = self._written_to = -1
        self._lent: WeakSet[DiskFileSlice] | None = None
        self.pread: Callable[[int, int], bytes] = partial(os.pread, fd)
        self.sync: Callable[[], None] = partial(os.fdatasync, fd)

    def pwrite(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        """All the buffers at ``offset``; the bytes written. OSError when the system would not take them all."""
        wanted = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if offset != self._written_to:
            self._written_from = offset
        self._written_to = offset + wanted
        if len(buffers) <= _IOV_MAX and os.pwritev(self.fd, buffers, offset) == wanted:
            return wanted
        return _write_rest(self.fd, b"".join(buffers), offset)

    def slice(self, size: int, offset: int) -> bytes | DiskFileSlice:
        if size < SLICE_FROM or not self.lends or os.fstat(self.fd).st_size < offset + size:
            return self.pread(size, offset)
        one = DiskFileSlice(self, size, offset)
        if self._lent is None:
            self._lent = WeakSet()
        self._lent.add(one)
        return one

    def is_recent(self, offset: int) -> bool:
        return 0 <= self._written_from <= offset and self._written_to - offset <= RECENT_BYTES

    def is_cached(self, size: int, offset: int) -> bool:
        """A byte of the beginning, the middle and the end are asked for, which the kernel refuses to wait for."""
        if not self.probes or self.is_recent(offset):
            return True
        try:
            for at in (offset, offset + size // 2, offset + size - 1):
                os.preadv(self.fd, (bytearray(1),), at, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # a file system that cannot tell; whoever reads sees what else is wrong
            self.probes = False
        return True

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size: int) -> None:
        self.keep_slices(size)
        os.ftruncate(self.fd, size)

    def keep_slices(self, size: int) -> None:
        room = KEPT_BYTES
        for one in self._lent or ():
            room -= one.keep(size, room)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        left, self._lent = list(self._lent or ()), None
        if left:
            descriptor = _Descriptor(fd)
            for one in left:
                one.stay_with(descriptor)
        elif fd >= 0:
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


def _open_file(path: str, flags: int) -> int:
    """The descriptor of a regular file. Opening a pipe must not wait for whoever writes to it, and what a device would
    answer later (EINVAL to a sync, say) is not what a disk answers that fails: both are refused with ENOTSUP."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    if not S_ISREG(os.fstat(fd).st_mode):
        is_folder = S_ISDIR(os.fstat(fd).st_mode)
        os.close(fd)
        raise OSError(errno.EISDIR if is_folder else errno.ENOTSUP, "not a regular file", path)
    return fd


class RealDisk:
    """The file system of this machine. Lock files stay locked until the process ends or ``unlock``."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[int, int]] = {}
        """Lock file -> its descriptor, and its folder's, as long as which is open no other folder has its number."""

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return RealFile(_open_file(path, os.O_RDWR | (os.O_CREAT if create else 0)))

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
        """Three calls where shutil has eight: whoever deletes folders off the loop waits for the interpreter's lock
        after each."""
        try:
            for name in os.listdir(path):
                self.remove(f"{path}/{name}")
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:  # it has folders of its own, or the disk fails
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
        fd = _open_file(path, os.O_RDONLY)
        try:
            if os.fstat(fd).st_size > _READ_WHOLE:
                raise OSError(errno.EOVERFLOW, f"larger than {_READ_WHOLE} bytes", path)
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

    def total_bytes(self, path: str) -> int:
        stats = os.statvfs(path)
        return stats.f_blocks * stats.f_frsize

    def lock(self, path: str) -> bool:
        if path in self._locks:
            return True
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._locks[path] = fd, os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return True

    def is_replaced(self, path: str) -> bool:
        if path not in self._locks:
            return False
        return not os.path.samestat(os.stat(os.path.dirname(path) or "."), os.fstat(self._locks[path][1]))

    def unlock(self, path: str) -> None:
        """Give a lock file back: for tests and tools that open two nodes' data in one process after another."""
        for fd in self._locks.pop(path, ()):
            os.close(fd)
