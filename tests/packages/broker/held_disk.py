"""A real disk on which some calls do not return until a test lets them: what a device is like that hangs.

``hold`` names paths; a call on a worker thread that touches one of them waits for ``release``. A call on the thread
that made the disk, which is the loop's, is not held up: it is noted in ``on_loop``, as what would have stopped a node.
"""

from __future__ import annotations

import threading
from typing import Any

from moldau.ports import Disk, File
from moldau.runtime.disk import RealDisk

PATIENCE_S = 60.0


class HeldFile:
    """An open file of it."""

    def __init__(self, disk: HeldDisk, file: File, path: str) -> None:
        self._disk, self._file, self._path = disk, file, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._disk.touch("sync", self._path)
        self._file.sync()


class HeldDisk:
    """``held``: the calls that wait now, or did."""

    def __init__(self, *calls: str) -> None:
        self._disk: Disk = RealDisk()
        self._calls = calls
        self._loop = threading.get_ident()
        self._under = ""
        self._released = threading.Event()
        self.error: OSError | None = None
        """With which what was held fails."""
        self.held: list[str] = []
        self.on_loop: list[str] = []

    def hold(self, part: str) -> None:
        """From now on calls wait whose path has ``part`` in it."""
        self._under = part
        self._released.clear()

    def release(self) -> None:
        self._under = ""
        self._released.set()

    def touch(self, call: str, path: str) -> None:
        """Something is about to be done."""
        if not self._under or self._under not in path or call not in self._calls:
            return
        if threading.get_ident() == self._loop:
            self.on_loop.append(f"{call} {path}")
            return
        self.held.append(f"{call} {path}")
        assert self._released.wait(PATIENCE_S), "nobody lets go"
        if self.error is not None:
            raise self.error

    def open(self, path: str, *, create: bool = False) -> Any:
        self.touch("open", path)
        return HeldFile(self, self._disk.open(path, create=create), path)

    def __getattr__(self, name: str) -> Any:
        whole = getattr(self._disk, name)

        def call(path: str, *more: Any) -> Any:
            self.touch(name, path)
            return whole(path, *more)

        return call
