"""``LogView``: the metadata log as the quorum sees it, with bounds, epochs and snapshots. It holds no records.

``validate`` answers the leader's question about a follower's fetch (KIP-595: divergence by offset and epoch; KIP-630:
behind the log start means "take the snapshot"); ``truncation_point`` answers the follower's question about the reply.
Read next: ``leader.py``, ``follower.py``.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.model.value import replace, value


class OffsetAndEpoch(NamedTuple):
    """A point of a log: the end offset of a prefix and the epoch of its last record. (0, 0) is the empty log."""

    offset: int
    epoch: int


class EpochStart(NamedTuple):
    """The first offset written in an epoch."""

    epoch: int
    offset: int


class Valid(NamedTuple):
    """The fetch continues a prefix of this log."""


class Diverging(NamedTuple):
    """The fetch does not: the largest epoch not above the requested one, and where it ends here."""

    end: OffsetAndEpoch


class Behind(NamedTuple):
    """The fetch is below the log start: this snapshot replaces what is gone."""

    snapshot: OffsetAndEpoch


@value(kw_only=True)
class LogView:
    """``[start, end)`` with its epochs; ``flushed`` is the end of what survives a power cut.

    ``epochs`` is strictly increasing in both fields. ``snapshots`` are the ids held on disk, oldest first; when
    ``start`` is above 0 one of them ends there (law R7).
    """

    start: int = 0
    end: int = 0
    flushed: int = 0
    epochs: tuple[EpochStart, ...] = ()
    snapshots: tuple[OffsetAndEpoch, ...] = ()

    @property
    def snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def epoch_before_start(self) -> int:
        """The epoch of the record just below ``start``, known from the snapshot that ends there; 0 at the beginning."""
        return next((snapshot.epoch for snapshot in self.snapshots if snapshot.offset == self.start), 0)

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1].epoch if self.epochs else self.epoch_before_start

    @property
    def last(self) -> OffsetAndEpoch:
        """End offset and epoch of the last record: what votes compare."""
        return OffsetAndEpoch(self.end, self.last_epoch)

    def appended(self, next_offset: int, epoch: int) -> LogView:
        """With a batch of ``epoch`` added from ``end`` to ``next_offset``."""
        assert next_offset > self.end, f"an append to {next_offset} does not extend a log that ends at {self.end}"
        assert epoch >= self.last_epoch, f"epoch {epoch} follows {self.last_epoch} in the log"
        epochs = self.epochs
        if not epochs or epochs[-1].epoch < epoch:
            epochs = (*epochs, EpochStart(epoch, self.end))
        return replace(self, end=next_offset, epochs=epochs)

    def flushed_to(self, end: int) -> LogView:
        return replace(self, flushed=max(self.flushed, min(end, self.end)))

    def truncated(self, end: int) -> LogView:
        epochs = tuple(entry for entry in self.epochs if entry.offset < end)
        return replace(self, end=end, flushed=min(self.flushed, end), epochs=epochs)

    def with_snapshot(self, snapshot: OffsetAndEpoch) -> LogView:
        """With a newer snapshot on disk."""
        return replace(self, snapshots=(*self.snapshots, snapshot))

    def trimmed(self, start: int) -> LogView:
        """Without the records below ``start`` and the snapshots that end below it."""
        assert self.start <= start <= self.end, f"a log of [{self.start}, {self.end}) cannot start at {start}"
        kept = [entry for entry in self.epochs if entry.offset > start]
        covering = [entry for entry in self.epochs if entry.offset <= start]
        # The entry that covers the start stays only while it still has records: an empty tail knows its epoch by the
        # snapshot.
        if covering and (kept[0].offset if kept else self.end) > start:
            kept.insert(0, EpochStart(covering[-1].epoch, start))
        snapshots = tuple(snapshot for snapshot in self.snapshots if snapshot.offset >= start)
        return replace(self, start=start, epochs=tuple(kept), snapshots=snapshots)

    def replaced_by(self, snapshot: OffsetAndEpoch) -> LogView:
        """The empty log after a snapshot that replaces everything."""
        return LogView(start=snapshot.offset, end=snapshot.offset, flushed=snapshot.offset, snapshots=(snapshot,))

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above ``epoch`` and the offset where it ends (KIP-101)."""
        end = self.end
        for entry in reversed(self.epochs):
            if entry.epoch <= epoch:
                return OffsetAndEpoch(end, entry.epoch)
            end = entry.offset
        return OffsetAndEpoch(self.start, self.epoch_before_start)

    def epoch_at(self, end: int) -> int:
        """The epoch of the record just below ``end``; ``end`` lies in [start, end]."""
        below = [entry.epoch for entry in self.epochs if entry.offset < end]
        return below[-1] if below else self.epoch_before_start

    def validate(self, fetch: OffsetAndEpoch) -> Valid | Diverging | Behind:
        """Return a leader's answer to a fetch at ``fetch.offset`` by a log whose last epoch is ``fetch.epoch``."""
        if fetch.offset < self.start or (fetch.offset == self.start > 0 and fetch.epoch != self.epoch_before_start):
            assert self.snapshot is not None, (
                f"the log starts at {self.start} and no snapshot replaces what is gone (R7)"
            )
            return Behind(self.snapshot)
        if fetch.offset == self.start:
            return Valid()
        end = self.end_of_epoch(fetch.epoch)
        if end.epoch != fetch.epoch or end.offset < fetch.offset:
            return Diverging(end)
        return Valid()

    def truncation_point(self, diverging: OffsetAndEpoch) -> int:
        """Return where a follower with this log truncates it after ``Diverging(diverging)``."""
        return min(self.end_of_epoch(diverging.epoch).offset, diverging.offset)
