"""What compaction makes of transactions: records that were aborted go, and a marker goes some time after its records.

Asked for each batch of a log, from the first segment on and in order. The rules are Apache Kafka's: records of an
aborted transaction neither stay nor stand for older ones with their keys; a marker stays while any record of its
transaction is left, and then delete.retention.ms longer, for readers that have begun (KIP-534). Pure: reads no files.
Read next: ``compaction.py`` (who asks), ``transactions.py`` (the list of aborted transactions).
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.storage.aborted import AbortedTxn
from moldau.wire.batch import BatchHeader

_TRANSACTIONAL = 0x10


class DecidedTransactions:
    """The transactions of one pass through a log that begins at offset ``begin``; ``aborted`` in any order."""

    def __init__(self, aborted: Iterable[AbortedTxn], begin: int = 0) -> None:
        known = [entry for entry in aborted if entry.last_offset >= begin]
        self._coming = sorted(known, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        """Producers with a transaction, aborted or not, of which a batch was met."""
        self._kept: list[AbortedTxn] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to a transaction that was aborted."""
        self._reach(header)
        if not header.attributes & _TRANSACTIONAL:
            return False
        self._met.add(header.producer_id)
        return header.producer_id in self._aborted

    def is_empty(self, header: BatchHeader) -> bool:
        """Whether nothing is left of the transaction that the control batch ``header`` ends."""
        self._reach(header)
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and aborted.last_offset <= header.last_offset:
            del self._aborted[header.producer_id]
        empty = header.producer_id not in self._met
        self._met.discard(header.producer_id)
        if aborted is not None and not empty:
            self._kept.append(aborted)
        return empty

    def take_kept(self) -> tuple[AbortedTxn, ...]:
        """The aborted transactions that readers have to be told of still, with markers met since the last call."""
        kept, self._kept = tuple(self._kept), []
        return kept

    def _reach(self, header: BatchHeader) -> None:
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            entry = self._coming.pop()
            self._aborted[entry.producer_id] = entry
