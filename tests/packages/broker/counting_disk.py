"""A real disk that counts which calls the thread makes that made it: the loop's, which waits for each of them.

``counting`` gives the calls of a block by name ("open", "write", "sync", ...); those of worker threads are not in it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moldau.ports import Disk, File
from moldau.runtime.disk import RealDisk

OF_FILES = {"pwrite": "write", "truncate": "truncate", "sync": "sync", "pread": "read", "slice": "read"}
OF_DISKS = ("rename", "remove", "remove_tree", "sync_dir", "list_dir", "make_dirs", "read", "write_atomic", "exists")


class CountedFile:
    """An open file of it."""

    def __init__(self, disk: CountingDisk, file: File) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:  # Any: whatever a File has
        if name in OF_FILES:
            self._disk.note(OF_FILES[name])
        return getattr(self._file, name)


class CountingDisk:
    """``moldau.ports.Disk``."""

    def __init__(self) -> None:
        self._disk: Disk = RealDisk()
        self._loop = threading.get_ident()
        self._calls: Counter[str] | None = None

    def note(self, call: str) -> None:
        """A call is about to be made."""
        if self._calls is not None and threading.get_ident() == self._loop:
            self._calls[call] += 1

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """What the loop's thread calls meanwhile."""
        self._calls = Counter()
        try:
            yield self._calls
        finally:
            self._calls = None

    def open(self, path: str, *, create: bool = False) -> Any:  # Any: a File, by its methods
        self.note("create" if create else "open")
        return CountedFile(self, self._disk.open(path, create=create))

    def __getattr__(self, name: str) -> Any:  # Any: whatever a Disk has
        whole = getattr(self._disk, name)
        if name not in OF_DISKS:
            return whole

        def call(*given: Any) -> Any:
            self.note(name)
            return whole(*given)

        return call
