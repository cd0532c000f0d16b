"""Partitions' folders that are to be made, renamed, or lose a mark: in the order of asking, on any thread.

A log is there, or gone, in memory at once. What that does to the names in its log directory is kept here, one
``FolderChanges`` for each directory, and carried out by a worker: a disk that hangs in it holds up those that wait for
it. The order is what makes it right: the folder of a topic that was deleted gives up its name before that of another
topic takes it. Read next: ``making.py``, ``removal.py``, ``moldau.broker.replicas.folder_work`` (who has it done).
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.storage.errors import LogError

RUN_AT_ONCE = 64
"""So many are carried out before the loop hears of the first of them."""
PASSING = frozenset({errno.EMFILE, errno.ENFILE})
NO_GUARD = nullcontext()


class FolderChange(ABC):
    """One change; ``error`` is why it could not be made. ``guard`` is held while it is made."""

    __slots__ = ("at", "error", "guard", "is_over", "leaves", "was_awaited")

    def __init__(self, leaves: str = "", at: str = "", guard: AbstractContextManager[object] = NO_GUARD) -> None:
        self.error: OSError | None = None
        self.guard = guard
        self.is_over = False
        """Whether it was carried out, well or not."""
        self.was_awaited = False
        """Whether clients' batches have waited for it as long as they may."""
        self.leaves = leaves
        """The path that is given up."""
        self.at = at
        """The path of the folder that is made, or loses a mark."""

    @abstractmethod
    def carry_out(self) -> None:
        """Make it, on any thread, under its guard. OSError."""

    @abstractmethod
    def end(self) -> None:
        """It was made: take note, on the loop."""

    @abstractmethod
    def failed(self, error: LogError) -> None:
        """It was not made, and will not be: take note, on the loop."""


class FolderChanges:
    """The changes of one directory that wait, and those that were carried out and are still to be taken note of."""

    __slots__ = ("_ended", "_leaving", "_lock", "_waiting")

    def __init__(self) -> None:
        self._leaving: Counter[str] = Counter()
        self._waiting: deque[FolderChange] = deque()
        self._ended: deque[FolderChange] = deque()
        self._lock = Lock()
        """Held by whoever carries one out."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._ended)

    def give_up(self, path: str) -> bool:
        """Whether a folder at ``path`` is still to be renamed."""
        return bool(self._leaving) and self._leaving[path] > 0

    def last_of(self, path: str) -> FolderChange | None:
        """The last that waits of those that make, mark or rename a folder at ``path``."""
        return next((change for change in reversed(tuple(self._waiting)) if path in (change.leaves, change.at)), None)

    def add(self, change: FolderChange) -> None:
        """It comes after all that wait."""
        self._waiting.append(change)
        if change.leaves:
            self._leaving[change.leaves] += 1

    def run_some(self) -> OSError | None:
        """Carry out some of them, in order; what passes and holds up the rest (too many open files), if anything."""
        return self.run(at_most=RUN_AT_ONCE)

    def run(self, until: FolderChange | None = None, at_most: int | None = None) -> OSError | None:
        """The same, up to one of them; or wait for whoever is at it.

        A guard is taken before our own lock, and anew for each change: a flush that holds its folder's lock may come to
        have that folder made, while the next change, of the same folder, is waiting for the flush.
        """
        while at_most != 0 and (change := self._first()) is not None:
            if until is not None and until.is_over:
                break
            with change.guard, self._lock:
                if change is not self._first():
                    continue  # somebody else was at it
                try:
                    change.carry_out()
                except OSError as error:
                    if error.errno in PASSING:
                        return error
                    change.error = error
                change.is_over = True
                self._ended.append(change)
                with suppress(IndexError):  # all that waits was dropped meanwhile
                    self._waiting.popleft()
            at_most = None if at_most is None else at_most - 1
        return None

    def _first(self) -> FolderChange | None:
        try:
            return self._waiting[0]
        except IndexError:
            return None

    def ended(self) -> Iterator[FolderChange]:
        """The changes that were carried out, each once, in order."""
        while self._ended:
            change = self._ended.popleft()
            if change.leaves:
                self._leaving[change.leaves] -= 1
                if not self._leaving[change.leaves]:
                    del self._leaving[change.leaves]
            yield change

    def drop(self) -> None:
        """The directory has failed: nothing of it is done any more. The next start finds what there is."""
        self._waiting.clear()
        self._ended.clear()
        self._leaving.clear()
