"""What is agreed, handed to the listeners in order and once: committed batches, snapshots, who is active.

Reads committed batches back from the log, except those this node proposed itself and still holds. Decides nothing.
Called by ``driver.py`` as the machine's effects say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from moldau.broker.quorum.batches import Decided, decided
from moldau.ports import PlaneEvents
from moldau.quorum import OffsetAndEpoch
from moldau.storage import Log

READ_BYTES = 1 << 20


class Delivery:
    """Where the listeners are: everything below ``end`` has been delivered; its last record is of ``epoch``."""

    def __init__(self, log: Log, listeners: Sequence[PlaneEvents]) -> None:
        self.end = log.log_start_offset
        self.epoch = 0
        self.bytes_since_snapshot = 0
        self._log = log
        self._listeners = tuple(listeners)
        self._proposed: deque[Decided] = deque()

    @property
    def point(self) -> OffsetAndEpoch:
        """What a snapshot taken now would be called."""
        return OffsetAndEpoch(self.end, self.epoch)

    def propose(self, batch: Decided) -> None:
        """Keep what was just appended here, so that it need not be read back."""
        self._proposed.append(batch)

    def committed(self, high_watermark: int) -> None:
        """Deliver up to the high watermark."""
        while self.end < high_watermark:
            proposed = self._proposed
            while proposed and proposed[0].offset < self.end:
                proposed.popleft()
            if proposed and proposed[0].offset - len(proposed[0].records) + 1 == self.end:
                self._deliver(proposed.popleft())
                continue
            data = self._log.read(self.end, READ_BYTES, up_to=high_watermark)
            assert data, f"the log has nothing at {self.end}, below the high watermark {high_watermark}"
            self.bytes_since_snapshot += len(data)
            for batch in decided(data):
                self._deliver(batch)

    def _deliver(self, batch: Decided) -> None:
        self.end, self.epoch = batch.offset + 1, batch.epoch
        if batch.records:
            for listener in self._listeners:
                listener.committed(batch.records, batch.offset, batch.epoch)

    def snapshot(self, data: bytes, point: OffsetAndEpoch) -> None:
        """Deliver a snapshot in place of everything below its end."""
        self._proposed.clear()
        self.end, self.epoch = point
        self.bytes_since_snapshot = 0
        found = [record for batch in decided(data) for record in batch.records]
        for listener in self._listeners:
            listener.load_snapshot(found, point.offset - 1, point.epoch)

    def became_active(self, epoch: int) -> None:
        for listener in self._listeners:
            listener.became_active(epoch)

    def lost_active(self) -> None:
        self._proposed.clear()
        for listener in self._listeners:
            listener.lost_active()
