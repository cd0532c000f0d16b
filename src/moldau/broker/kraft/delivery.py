"""What is agreed, handed to the listeners in order and once: committed batches, snapshots, who is active.

Reads committed batches back from the log, except those this node proposed itself and still holds. A turn of the loop
delivers some records (a batch is never cut); what more there is waits for the next turns, and so does everything that
is told after it, while the quorum goes on. Decides nothing. Called by ``effects.py`` as the machine's effects say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from moldau.broker.kraft.batches import Decided, decided, decided_in_slices
from moldau.model.named import NamedTuple
from moldau.ports import PlaneEvents, World
from moldau.ports.buggify import LATE_DELIVERY
from moldau.quorum import OffsetAndEpoch
from moldau.storage import Log
from moldau.wire.schema import Message

READ_BYTES = 1 << 20
LATE_MS = 200
"""How late what is told late is told."""


class _Notice(NamedTuple):
    """Something to tell: everything below ``high_watermark``, or ``event``."""

    high_watermark: int = 0
    event: Callable[[PlaneEvents], None] | None = None


class CommitDelivery:
    """Where the listeners are: everything below ``end`` has been delivered; its last record is of ``epoch``."""

    def __init__(
        self, log: Log, listeners: Sequence[PlaneEvents], world: World, on_failure: Callable[[Exception], object]
    ) -> None:
        """``on_failure`` is called with the error of a listener that raised in a later turn: nothing is delivered any
        more (law X7)."""
        self.end = log.log_start_offset
        self.epoch = 0
        self.bytes_since_snapshot = 0
        self.delivered: Callable[[], object] = lambda: None
        """Called whenever all that was committed is delivered."""
        self._log = log
        self._listeners = tuple(listeners)
        self._tasks = world.tasks
        self._at_once = world.step
        self._buggify = world.buggify
        self._on_failure = on_failure
        self._proposed: deque[Decided] = deque()
        self._read: Iterator[Decided | None] | None = None
        self._rest: Iterator[None] | None = None
        self._due: deque[_Notice] = deque()
        self._busy = False
        self._closed = False

    @property
    def point(self) -> OffsetAndEpoch:
        """What a snapshot taken now would be called."""
        return OffsetAndEpoch(self.end, self.epoch)

    def close(self) -> None:
        """Tell nothing more."""
        self._closed = True

    def propose(self, batch: Decided) -> None:
        """Keep what was just appended here, so that it need not be read back."""
        self._proposed.append(batch)

    def committed(self, high_watermark: int) -> None:
        """Deliver up to the high watermark."""
        self._tell(_Notice(high_watermark=high_watermark))

    def became_active(self, epoch: int) -> None:
        self._tell(_Notice(event=lambda listener: listener.became_active(epoch)))

    def lost_active(self) -> None:
        self._proposed.clear()
        self._tell(_Notice(event=lambda listener: listener.lost_active()))

    # ---- in turns

    def _tell(self, told: _Notice) -> None:
        self._due.append(told)
        if not self._busy:
            self._busy = True
            if (buggify := self._buggify) is not None and buggify(LATE_DELIVERY):
                self._tasks.call_later(LATE_MS, self._later)
            else:
                self._go_on()

    def _go_on(self) -> None:
        left = self._at_once
        while (self._due or self._rest is not None) and not self._closed:
            if left <= 0:
                self._tasks.call_soon(self._later)
                return
            left -= self._step()
        self._busy = False

    def _later(self) -> None:
        try:
            self._go_on()
        except Exception as error:
            self._closed = True
            self._on_failure(error)

    def _step(self) -> int:
        """Tell one thing, or one part of it; how much of a turn that took."""
        if self._rest is not None:
            self._carry_on(self._rest)
            return self._at_once
        told = self._due[0]
        if told.event is not None:
            self._due.popleft()
            for listener in self._listeners:
                told.event(listener)
            return 0
        if self.end >= told.high_watermark:
            self._due.popleft()
            self.delivered()
            return 0
        batch = self._next(told.high_watermark)
        if batch is None:
            return self._at_once
        self.end, self.epoch = batch.offset + 1, batch.epoch
        if batch.records:
            self._carry_on(self._carry_out(batch))
        return len(batch.records) if self._rest is None else self._at_once

    def _carry_on(self, rest: Iterator[None]) -> None:
        """Up to where it pauses, or to its end."""
        self._rest = None
        for _ in rest:
            self._rest = rest
            return

    def _carry_out(self, batch: Decided) -> Iterator[None]:
        if self._read is not None and len(batch.records) > self._at_once:
            yield  # unpacking it took its time, and so will what follows
        for listener in self._listeners:
            rest = listener.committed(batch.records, batch.offset, batch.epoch)
            if rest is not None:
                yield from rest

    def _next(self, high_watermark: int) -> Decided | None:
        """The batch at ``end``; None when it is not all unpacked yet."""
        proposed = self._proposed
        while proposed and proposed[0].offset < self.end:
            proposed.popleft()
        if proposed and proposed[0].offset - len(proposed[0].records) + 1 == self.end:
            self._read = None
            return proposed.popleft()
        for batch in self._read or ():
            return batch
        data = self._log.read(self.end, READ_BYTES, up_to=high_watermark)
        assert data, f"the log has nothing at {self.end}, below the high watermark {high_watermark}"
        self.bytes_since_snapshot += len(data)
        self._read = decided_in_slices(data, self._at_once)
        return next(self._read)

    # ---- snapshots

    def snapshot(self, data: bytes, point: OffsetAndEpoch) -> None:
        """Deliver a snapshot in place of everything below its end. What the last batch began is carried out first."""
        for _ in self._rest or ():
            pass
        self._rest = self._read = None
        if any(told.event is not None for told in self._due):  # whoever is sent a snapshot is certainly not active
            for listener in self._listeners:
                listener.lost_active()
        self._due.clear()
        self._proposed.clear()
        self.end, self.epoch = point
        self.bytes_since_snapshot = 0
        found: list[Message] = [record for batch in decided(data) for record in batch.records]
        for listener in self._listeners:
            listener.load_snapshot(found, point.offset - 1, point.epoch)
