"""A disk in memory that forgets, tears and refuses: what a power cut, a full disk or a bad block leave behind.

Every call that changes something is a numbered step; a plan may crash or fail at any of them. After ``power_cut`` only
what was synced is sure: each unsynced write is kept, torn or lost by the rng, directory changes survive up to a drawn
point. A truncation is ordered before the writes that follow it, as on the journaling file systems that Moldau runs on.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

Buffer = bytes | bytearray | memoryview


def parent_of(path: str) -> str:
    """The directory of an absolute path without a slash at its end; ``os.path.dirname`` takes five times as long."""
    return path.rpartition("/")[0] or "/"


class Crash(BaseException):
    """The process is gone; not an Exception, so that nothing on the way out handles it."""


@dataclass
class Inode:
    """A file: what the cache holds, what is durable, and the changes in between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, bytes) or (size, None)
    mtime: int = 0


def _apply(data: bytearray, at: int, written: bytes | None) -> None:
    if written is None:
        if at < len(data):
            del data[at:]
        else:
            data.extend(bytes(at - len(data)))
        return
    if at > len(data):
        data.extend(bytes(at - len(data)))
    data[at : at + len(written)] = written


class FaultyFile:
    def __init__(self, disk: FaultyDisk, inode: Inode, path: str) -> None:
        self._disk, self._inode, self._path, self._open = disk, inode, path, True
        disk.open_files += 1

    def pread(self, size: int, offset: int) -> bytes:
        assert self._open
        return bytes(self._inode.data[offset : offset + size])

    def is_recent(self, offset: int) -> bool:
        return True

    def is_cached(self, size: int, offset: int) -> bool:
        return True

    def slice(self, size: int, offset: int) -> bytes:
        return self.pread(size, offset)

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        assert self._open
        data = b"".join(buffers)
        kept = self._disk.step("write", self._path, len(data))
        self._change(offset, data[:kept])
        if kept < len(data):
            raise OSError(self._disk.error, os.strerror(self._disk.error), self._path)
        return len(data)

    def _change(self, at: int, data: bytes | None) -> None:
        self._inode.pending.append((at, data))
        _apply(self._inode.data, at, data)
        self._disk.ticks += 1
        self._inode.mtime = self._disk.ticks

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        assert self._open
        self._disk.step("truncate", self._path)
        self._change(size, None)

    def keep_slices(self, size: int) -> None:
        assert self._open

    def sync(self) -> None:
        assert self._open
        self._disk.step("sync", self._path)
        self._inode.durable = bytearray(self._inode.data)
        self._inode.pending.clear()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._disk.open_files -= 1


class FaultyDisk:
    """``moldau.ports.Disk``. ``crash_at``: the step at which the process dies (before it takes effect).

    ``fail_at`` with ``error``: the step that raises OSError; a failing write leaves half of its bytes behind.
    """

    def __init__(self, *, crash_at: int = -1, fail_at: int = -1, error: int = errno.EIO, once: bool = True) -> None:
        self.names: dict[str, Inode | None] = {"/": None}
        self.durable_names: dict[str, Inode | None] = {"/": None}
        self.pending: dict[str, list[tuple[str, str, str, Inode | None]]] = {}
        self.steps = 0
        self.ticks = 0
        self.open_files = 0
        self.crash_at, self.fail_at, self.error, self.once = crash_at, fail_at, error, once
        self.log: list[str] = []

    def step(self, what: str, path: str, size: int = 0) -> int:
        """Count a change; how many of ``size`` bytes a write may write. Crash or OSError by the plan."""
        number, self.steps = self.steps, self.steps + 1
        self.log.append(f"{number} {what} {path}")
        if number == self.crash_at:
            raise Crash(f"at step {number}: {what} {path}")
        if number == self.fail_at or (not self.once and 0 <= self.fail_at < number):
            if what == "write":
                return size // 2
            raise OSError(self.error, os.strerror(self.error), path)
        return size

    # -- names

    def _note(self, kind: str, path: str, target: str = "") -> None:
        self.pending.setdefault(parent_of(path), []).append((kind, path, target, self.names.get(path)))

    @staticmethod
    def _rename(names: dict[str, Inode | None], source: str, target: str) -> None:
        if source not in names:
            return
        names.pop(target, None)
        if (inode := names[source]) is not None:  # a file has nothing below it
            del names[source]
            names[target] = inode
            return
        for path in [p for p in names if p == source or p.startswith(source + "/")]:
            names[target + path[len(source) :]] = names.pop(path)

    def _apply_name(self, kind: str, path: str, target: str, inode: Inode | None) -> None:
        if kind == "link":
            self.durable_names[path] = inode
        elif kind == "unlink":
            self.durable_names.pop(path, None)
        else:
            self._rename(self.durable_names, path, target)

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        if path not in self.names:
            if not create or parent_of(path) not in self.names:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.step("create", path)
            self.names[path] = Inode(mtime=self.ticks)
            self._note("link", path)
        inode = self.names[path]
        assert inode is not None, f"{path} is a directory"
        return FaultyFile(self, inode, path)

    def exists(self, path: str) -> bool:
        return path in self.names

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def _inode(self, path: str) -> Inode:
        inode = self.names.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return inode

    def mtime_ms(self, path: str) -> int:
        return self._inode(path).mtime

    def list_dir(self, path: str) -> list[str]:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        start = len(path.rstrip("/")) + 1
        below = [p for p in self.names if p.startswith(path) and p.rfind("/") == start - 1]
        return sorted([p[start:] for p in below if p[: start - 1] == path.rstrip("/") and p != "/"])

    def is_dir(self, path: str) -> bool:
        return path in self.names and self.names[path] is None

    def make_dirs(self, path: str) -> None:
        if path in self.names:
            return
        parent = parent_of(path)
        if parent != path:
            self.make_dirs(parent)
        self.step("mkdir", path)
        self.names[path] = None
        self._note("link", path)

    def rename(self, source: str, target: str) -> None:
        if source not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self.step("rename", f"{source} to {target}")
        self._rename(self.names, source, target)
        self._note("rename", source, target)

    def remove(self, path: str) -> None:
        if path in self.names:
            self.step("remove", path)
            del self.names[path]
            self._note("unlink", path)

    def remove_tree(self, path: str) -> None:
        for found in sorted((p for p in self.names if p == path or p.startswith(path + "/")), reverse=True):
            self.remove(found)

    def sync_dir(self, path: str) -> None:
        self.step("sync_dir", path)
        self._persist(path, len(self.pending.get(path, ())))

    def _persist(self, path: str, count: int) -> None:
        changes = self.pending.get(path, [])
        for kind, source, target, inode in changes[:count]:
            self._apply_name(kind, source, target, inode)
        del changes[:count]

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        self.remove(temporary)
        file = self.open(temporary, create=True)
        file.pwrite((data,), 0)
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_dir(parent_of(path))

    def free_bytes(self, path: str) -> int:
        return 1 << 40

    def total_bytes(self, path: str) -> int:
        return 1 << 41

    def lock(self, path: str) -> bool:
        return True

    def is_replaced(self, path: str) -> bool:
        return False

    # -- the end of a life

    def process_killed(self) -> FaultyDisk:
        """The machine goes on: the cache is intact. The disk as the next process finds it."""
        after = FaultyDisk()
        after.names, after.durable_names, after.pending = self.names, self.durable_names, self.pending
        after.ticks = self.ticks
        return after

    def power_cut(self, seed: int) -> FaultyDisk:
        """Only what was synced is sure. The disk as the machine finds it when power is back."""
        rng = random.Random(seed)
        for path, changes in self.pending.items():
            mood = rng.random()
            count = len(changes) if mood < 0.4 else 0 if mood < 0.5 else rng.randint(0, len(changes))
            self._persist(path, count)
        after = FaultyDisk()
        after.ticks = self.ticks
        for path, inode in self.durable_names.items():
            parent = parent_of(path)
            while parent != "/" and parent in self.durable_names:
                parent = parent_of(parent)
            if parent != "/":
                continue  # in a directory that was lost
            after.names[path] = None if inode is None else self._survivor(inode, rng)
        after.durable_names = dict(after.names)
        return after

    @staticmethod
    def _survivor(inode: Inode, rng: random.Random) -> Inode:
        data = bytearray(inode.durable)
        mood = rng.random()  # some files made it whole, some not at all
        for at, written in inode.pending:
            fate = 0.4 if mood < 0.3 else 0.1 if written is None and mood < 0.5 else 0.9 if mood < 0.5 else rng.random()
            if written is None:
                if fate < 0.3:
                    break  # the truncation did not make it, nor did what came after
                _apply(data, at, None)
            elif fate < 0.5:
                _apply(data, at, written)
            elif fate < 0.7 and written:
                _apply(data, at, written[: rng.randrange(len(written))])
        return Inode(data=data, durable=bytearray(data), mtime=inode.mtime)
