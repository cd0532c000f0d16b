"""The leader epoch table of one log: which epoch began at which offset, and what follows from it for truncation.

Decides: where an epoch ends (KIP-101, KIP-279), which entries survive a truncation from either end. Does not: write
the ``leader-epoch-checkpoint`` file (storage does, when a mutator returns True) or know the log; ends are arguments.
Law S14: epochs and starts both strictly increase. Read next: ``follower.py`` for where two tables diverge.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

NO_EPOCH = -1
NO_OFFSET = -1


class EpochTable:
    """Entries (epoch, start offset), oldest first. Look-ups are binary searches; the tail cases cost no search."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """``entries`` as a checkpoint file lists them; a later entry that contradicts an earlier one replaces it."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def latest(self) -> int:
        """The newest epoch, or -1 of an empty table."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) pairs, oldest first: the lines of the checkpoint file."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """Record that ``epoch`` begins at ``start``; True when the table changed.

        Called at every election even when no record follows (KAFKA-7415), and for each appended batch, where it is
        nearly always a no-op. Entries that contradict the new one (an epoch not older, or a start not lower) are
        dropped: an epoch that wrote nothing gives way to the next that begins at the same offset.
        """
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start >= starts[-1]:
            return False
        assert epoch >= 0, f"leader epoch {epoch} cannot be recorded"
        assert start >= 0, f"epoch {epoch} cannot start at offset {start}"
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start)
        return True

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest known epoch <= ``epoch``, the offset where it ends), for a log that ends at ``log_end``.

        The newest epoch ends at the log's end. (-1, -1) when that is not known: ``epoch`` is -1 or newer than all.
        An epoch older than all known ends where the first known one begins, under its own number. Source: KIP-279.
        """
        epochs = self._epochs
        if not epochs or epoch < 0 or epoch > epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == epochs[-1]:
            return epoch, log_end
        above = bisect_right(epochs, epoch)
        if above == 0:
            return epoch, self._starts[0]
        return epochs[above - 1], self._starts[above]

    def epoch_at(self, offset: int) -> int:
        """The epoch under which ``offset`` was (or, at the log's end, would have been) written; -1 when not known."""
        starts = self._starts
        if not starts:
            return NO_EPOCH
        if offset >= starts[-1]:
            return self._epochs[-1]
        at = bisect_right(starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def start_of(self, epoch: int) -> int:
        """The start offset of exactly this epoch, or -1 when it is not in the table."""
        at = bisect_left(self._epochs, epoch)
        if at < len(self._epochs) and self._epochs[at] == epoch:
            return self._starts[at]
        return NO_OFFSET

    def truncate_from_end(self, log_end: int) -> bool:
        """The log now ends at ``log_end``: forget epochs that begin there or later; True when the table changed."""
        epochs, starts = self._epochs, self._starts
        if not starts or starts[-1] < log_end:
            return False
        keep = bisect_left(starts, log_end)
        del epochs[keep:], starts[keep:]
        return True

    def truncate_from_start(self, log_start: int) -> bool:
        """The log now begins at ``log_start``: forget epochs that ended before it, the one covering it begins there."""
        epochs, starts = self._epochs, self._starts
        if not starts or starts[0] >= log_start:
            return False
        covering = bisect_right(starts, log_start) - 1
        del epochs[:covering], starts[:covering]
        starts[0] = log_start
        return True

    def clear(self) -> bool:
        """Forget everything (the log was restarted at an offset of the leader's); True when the table changed."""
        changed = bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()
        return changed

    def copy(self) -> EpochTable:
        """A table of its own with the same entries."""
        other = EpochTable()
        other._epochs = self._epochs.copy()
        other._starts = self._starts.copy()
        return other

    def __len__(self) -> int:
        return len(self._epochs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EpochTable):
            return NotImplemented
        return self._epochs == other._epochs and self._starts == other._starts

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"EpochTable({self.entries()!r})"
