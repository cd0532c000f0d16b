"""What the batches of a log say of its transactions: which are open, which were aborted, up to where all is decided.

Made from the batches alone, in their order, without the code that is checked. Source: KIP-98. Read next:
laws/transactions.py.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

from moldau.wire import batch

CONTROL, TRANSACTIONAL = 0x20, 0x10


class EndedTransaction(NamedTuple):
    """A transaction that has ended: its first record that is there, its marker, and the marker of the producer's
    transaction before it, -1 if there is none."""

    producer_id: int
    first: int
    marker: int
    before: int
    committed: bool


class Decisions:
    """``markers``: offset -> when it may go, and whether there is a record of its transaction."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.ended: list[EndedTransaction] = []
        self.markers: dict[int, tuple[int | None, bool]] = {}
        self._offsets: dict[int, list[int]] = {}
        """Offsets of records of open transactions, by producer id."""
        self._aborted: set[int] = set()
        self._last: dict[int, int] = {}

    def take(self, header: Any, raw: bytes) -> None:  # Any: of a real log, looked at from outside
        """The next batch."""
        id = header.producer_id
        if header.attributes & CONTROL:
            self._end(header, raw)
        elif header.attributes & TRANSACTIONAL and header.count:
            self.open.setdefault(id, header.base_offset)
            self._offsets.setdefault(id, []).extend(range(header.base_offset, header.last_offset + 1))

    def _end(self, header: Any, raw: bytes) -> None:  # Any: as in ``take``
        id, marker = header.producer_id, header.base_offset
        committed = any(batch.control_type(one.key) == batch.ControlType.COMMIT for one in batch.records(raw))
        offsets, first = self._offsets.pop(id, []), self.open.pop(id, None)
        self.markers[marker] = header.delete_horizon_ms, bool(offsets)
        if first is not None:
            self.ended.append(EndedTransaction(id, first, marker, self._last.get(id, -1), committed))
        if not committed:
            self._aborted.update(offsets)
        self._last[id] = marker

    def is_aborted(self, offset: int) -> bool:
        """Whether the record there is of a transaction that was aborted."""
        return offset in self._aborted

    def stable_offset(self, high: int) -> int:
        """Up to where every transaction has ended, with a marker below the watermark ``high``."""
        late = takewhile(lambda one: one.marker >= high, reversed(self.ended))
        return min([high, *self.open.values(), *(one.first for one in late)])
