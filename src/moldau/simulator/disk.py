"""A disk in memory that outlives the processes using it: page cache, durable bytes, and what a power cut leaves.

File data is durable after ``sync``, names after ``sync_dir``. ``kill`` keeps the cache; ``power_cut`` keeps a drawn
part of the unsynced writes (either a beginning of them, the last one torn, or any of them, in sectors) and a drawn
beginning of the unsynced names. The disk can be full, fail, be slow and hang; a caller that is no simulated process (a
checker) reads it as it is.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Mapping, Sequence

from moldau.simulator.loop import OWNER, Owner

CAPACITY = 1 << 34
SECTOR = 512


class Inode:
    """A file: the cache's bytes, the durable bytes, the changes between (offset, bytes) or (size, None)."""

    __slots__ = ("data", "durable", "mtime_ms", "pending")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.pending: list[tuple[int, bytes | None]] = []
        self.mtime_ms = 0

    def change(self, at: int, data: bytes | None) -> None:
        put(self.data, at, data)
        self.pending.append((at, data))

    def sync(self) -> None:
        if self.pending:
            self.durable = bytes(self.data)
            self.pending.clear()

    def lose(self, rng: random.Random) -> None:
        """What is left after a power cut."""
        if not self.pending:
            return
        left = bytearray(self.durable)
        if rng.random() < 0.5:
            kept = rng.randint(0, len(self.pending))
            for index, (at, data) in enumerate(self.pending[:kept]):
                if data is not None and index == kept - 1:
                    data = data[: rng.randint(0, len(data))]
                put(left, at, data)
        else:
            self._lose_sectors(left, rng)
        self.data, self.durable, self.pending = left, bytes(left), []

    def _lose_sectors(self, left: bytearray, rng: random.Random) -> None:
        """Sectors reach the platter in any order: each unsynced write is there, or gone, or in part."""
        for at, data in self.pending:
            fate = rng.random()
            if data is None or fate < 0.4:
                put(left, at, data)
            elif fate < 0.7:
                for begin in range(0, len(data), SECTOR):
                    if rng.random() < 0.5:
                        put(left, at + begin, data[begin : begin + SECTOR])


def put(data: bytearray, at: int, written: bytes | None) -> None:
    """Write, or cut to size ``at`` when there is nothing to write; holes are zeros."""
    if at > len(data):
        data.extend(bytes(at - len(data)))
    if written is None:
        del data[at:]
    else:
        data[at : at + len(written)] = written


class SimFile:
    """One open file of one process."""

    def __init__(self, disk: SimDisk, inode: Inode, path: str) -> None:
        self._disk, self._inode, self._path = disk, inode, path

    def pread(self, size: int, offset: int) -> bytes:
        self._disk.check("read", self._path)
        return bytes(self._inode.data[offset : offset + size])

    def is_recent(self, offset: int) -> bool:
        return True

    def is_cached(self, size: int, offset: int) -> bool:
        return True

    def slice(self, size: int, offset: int) -> bytes:
        return self.pread(size, offset)

    def pwrite(self, buffers: Sequence[bytes | bytearray | memoryview], offset: int) -> int:
        data = b"".join(buffers)
        self._disk.check("write" if offset + len(data) <= len(self._inode.data) else "grow", self._path)
        self._inode.change(offset, data)
        self._inode.mtime_ms = self._disk.now_ms()
        return len(data)

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._disk.check("write", self._path)
        self._inode.change(size, None)

    def keep_slices(self, size: int) -> None:
        """Nothing is lent."""

    def sync(self) -> None:
        self._disk.check("sync", self._path)
        self._inode.sync()

    def close(self) -> None:
        """Nothing is held."""


class SimDisk:
    """``errors`` has the errno with which everything under a path fails (reads too, unless the disk is only full).

    ``hung``: work off the loop waits; ``slowness`` multiplies its time. ``stalls``: a write on the loop holds its whole
    process up; the list has whom it has held up. ``trap`` is told each path before something is done to it.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.errors: dict[str, int] = {}
        self.hung = False
        self.slowness = 1.0
        self.beside = False  # work off the loop is running
        self.stalls: list[Owner] | None = None
        self.trap: Callable[[str], object] | None = None
        self._names = NameTree()
        self._durable: dict[str, Inode | None] = {"/": None}
        self._unsynced = Unsynced()
        self._locks: set[str] = set()

    # ---- what befalls it

    def kill(self) -> None:
        """The process is gone, the cache stays."""
        self._locks.clear()

    def power_cut(self, rng: random.Random) -> None:
        """The machine is gone, and with it what was never synced, save a drawn part."""
        self.kill()
        changes, self._unsynced = self._unsynced.all, Unsynced()
        for path, inode, there in changes[: rng.randint(0, len(changes))]:
            _name(self._durable, path, inode, there)
        self._names = NameTree(self._durable)
        for kept in dict.fromkeys(inode for inode in self._durable.values() if inode is not None):
            kept.lose(rng)

    def check(self, what: str, path: str) -> None:
        """The dead do nothing, and a broken disk refuses; a full one refuses to hold more."""
        owner = OWNER.get()
        if owner is None:
            return
        if not owner.alive:
            raise OSError(errno.EIO, "this process is dead")
        if self.stalls is not None and what != "read" and not self.beside and not owner.paused:
            # The write is done when it returns; what is left of this turn of the loop happens just before the stall.
            owner.paused = True
            self.stalls.append(owner)
        if self.trap is not None:
            self.trap(path)
            if not owner.alive:
                raise OSError(errno.EIO, "this process is dead")
        for under, number in self.errors.items():
            if path.startswith(under) and (number != errno.ENOSPC or what == "grow"):
                raise OSError(number, os.strerror(number), path)

    def files(self, under: str) -> list[str]:
        """Paths of all files under a directory, in order."""
        return sorted(path for path, inode in self._names.all.items() if inode is not None and path.startswith(under))

    def corrupt(self, path: str, at: int, bit: int = 0x10) -> None:
        """A bit turns."""
        inode = self._file(path)
        inode.data[at] ^= bit
        if inode.pending:  # not all of it is on the platter yet
            inode.pending.append((at, bytes((inode.data[at],))))
        if at < len(inode.durable):
            inode.durable = inode.durable[:at] + bytes((inode.durable[at] ^ bit,)) + inode.durable[at + 1 :]

    # ---- the port

    def open(self, path: str, *, create: bool = False) -> SimFile:
        inode = self._names.all.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.check("grow", path)
            self._parent(path)
            inode = Inode()
            inode.mtime_ms = self.now_ms()
            self._set(path, inode)
        return SimFile(self, inode, path)

    def exists(self, path: str) -> bool:
        return path in self._names.all

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def mtime_ms(self, path: str) -> int:
        return self._file(path).mtime_ms

    def list_dir(self, path: str) -> list[str]:
        if not self.is_dir(path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return sorted(name.rpartition("/")[2] for name in self._names.inside.get(path, ()))

    def is_dir(self, path: str) -> bool:
        return path in self._names.all and self._names.all[path] is None

    def make_dirs(self, path: str) -> None:
        self.check("grow", path)
        if path in self._names.all:
            return
        self.make_dirs(_parent(path))
        self._set(path, None)

    def rename(self, source: str, target: str) -> None:
        self.check("write", source)
        if source not in self._names.all:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        for path in self._names.under(source):
            inode = self._names.all[path]
            # The new name first: a cut between the two leaves the file under one of its names, or both.
            self._set(target + path[len(source) :], inode)
            self._set(path, inode, there=False)

    def remove(self, path: str) -> None:
        self.check("write", path)
        if path in self._names.all:
            self._set(path, self._names.all[path], there=False)

    def remove_tree(self, path: str) -> None:
        self.check("write", path)
        for one in sorted(self._names.under(path), reverse=True):
            self._set(one, self._names.all[one], there=False)

    def sync_dir(self, path: str) -> None:
        self.check("sync", path)
        for change in self._unsynced.take(path):
            _name(self._durable, *change)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        return bytes(self._file(path).data)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite([data], 0)
        file.sync()
        self.rename(temporary, path)
        self.sync_dir(_parent(path))

    def free_bytes(self, path: str) -> int:
        return 0 if errno.ENOSPC in self.errors.values() else CAPACITY

    def total_bytes(self, path: str) -> int:
        return CAPACITY

    def lock(self, path: str) -> bool:
        if path in self._locks:
            return False
        self.open(path, create=True)
        self._locks.add(path)
        return True

    def is_replaced(self, path: str) -> bool:
        return False

    def _file(self, path: str) -> Inode:
        inode = self._names.all.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def _parent(self, path: str) -> None:
        if not self.is_dir(_parent(path)):
            raise FileNotFoundError(errno.ENOENT, "no such directory", _parent(path))

    def _set(self, path: str, inode: Inode | None, *, there: bool = True) -> None:
        self._names.set(path, inode, there)
        self._unsynced.add((path, inode, there))


def _name(names: dict[str, Inode | None], path: str, inode: Inode | None, there: bool) -> None:
    if there:
        names[path] = inode
    else:
        names.pop(path, None)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class NameTree:
    """``all`` names with what they stand for (None: a directory), and what is ``inside`` each directory, in the order
    in which it came: a folder of a hundred thousand must not be looked through for one name."""

    def __init__(self, names: Mapping[str, Inode | None] | None = None) -> None:
        self.all: dict[str, Inode | None] = {}
        self.inside: dict[str, dict[str, None]] = {}
        for path, inode in ({"/": None} if names is None else names).items():
            self.set(path, inode, there=True)

    def set(self, path: str, inode: Inode | None, there: bool) -> None:
        _name(self.all, path, inode, there)
        if path != "/":
            siblings = self.inside.setdefault(_parent(path), {})
            if there:
                siblings[path] = None
            else:
                siblings.pop(path, None)
                if not siblings:
                    del self.inside[_parent(path)]

    def under(self, path: str) -> list[str]:
        """It, if it is there, and all that is inside."""
        found = [path] if path in self.all else []
        for one in self.inside.get(path, ()):
            found += self.under(one)
        return found


Change = tuple[str, Inode | None, bool]
"""(path, what, whether it is there): a name came or went."""


class Unsynced:
    """Names that changed and are not durable, in order, found by their directory and by themselves."""

    def __init__(self) -> None:
        self._changes: dict[int, Change] = {}
        self._inside: dict[str, dict[int, None]] = {}
        self._of: dict[str, dict[int, None]] = {}
        self._count = 0

    @property
    def all(self) -> list[Change]:
        return list(self._changes.values())

    def add(self, change: Change) -> None:
        self._count += 1
        self._changes[self._count] = change
        self._inside.setdefault(_parent(change[0]), {})[self._count] = None
        self._of.setdefault(change[0], {})[self._count] = None

    def take(self, directory: str) -> list[Change]:
        """What a sync of a directory makes durable: what is in it, and, journaled with that, its own creation and that
        of all it lies in."""
        found = list(self._inside.get(directory, ()))
        path = directory
        while path != "/":
            found += self._of.get(path, ())
            path = _parent(path)
        return [self._take(number) for number in sorted(found)]

    def _take(self, number: int) -> Change:
        change = self._changes.pop(number)
        for table, key in ((self._inside, _parent(change[0])), (self._of, change[0])):
            numbers = table[key]
            del numbers[number]
            if not numbers:
                del table[key]
        return change
