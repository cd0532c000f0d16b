"""What a log remembers of its idempotent producers, so that a retried batch is recognised and a gap is refused.

Decides: duplicate, in sequence, out of order, fenced (KIP-98, KIP-360). Does not: append anything or know files;
``Log`` writes the snapshot bytes made here at each roll and at close. The last five batches of a producer are
remembered. Snapshot format: Apache Kafka's ProducerSnapshot version 1. Read next: ``log.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Sequence
from struct import Struct

from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.storage.aborted import AbortedTxn, Marker
from moldau.storage.errors import BrokenFile
from moldau.wire.batch import BatchHeader
from moldau.wire.crc import crc32c

KEPT_BATCHES = 5
_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = 6


class BatchMetadata(NamedTuple):
    """A batch that is in the log: where it ended, and how many offsets before its end it began."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class Producer:
    """One producer id's state. ``batches`` holds at most five, oldest first, all of the present epoch."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[BatchMetadata] = []
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        """-1 when no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else -1

    def recall(self, again: Producer) -> None:
        """Take over the batches before the last one, of an account of the same log that knows more of them."""
        longer = len(again.batches) > len(self.batches) > 0
        if longer and again.epoch == self.epoch and again.batches[-1].last_offset == self.batches[-1].last_offset:
            self.batches[:] = again.batches


class Producers:
    """All producers of one log, and the log offset up to which they are known (``end_offset``)."""

    __slots__ = (
        "_by_id", "_ended", "_open", "aborted", "aborted_saved", "began_at", "end_offset", "older_aborted",
        "snapshot_offset",
    )  # fmt: skip

    def __init__(self, end_offset: int = 0) -> None:
        self._by_id: dict[int, Producer] = {}
        self.end_offset = end_offset
        self.snapshot_offset = -1
        """The end offset that the newest snapshot on disk holds."""
        self._open: dict[int, int] = {}
        """Where each open transaction began, by producer id; the oldest first."""
        self._ended: list[tuple[int, int]] = []
        """First offset and marker of transactions whose marker may not be replicated yet."""
        self.began_at = self.aborted_saved = end_offset
        """From where on batches were recorded, and up to where the ``.txnindex`` files say what was aborted."""
        self.aborted: list[AbortedTxn] = []
        self.older_aborted: list[AbortedTxn] | None = None
        """Transactions that were aborted at or after ``began_at``, and before it (None: not read yet)."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        return iter(self._by_id.items())

    def ids(self) -> KeysView[int]:
        """The ids of all producers that are known."""
        return self._by_id.keys()

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def check(self, header: BatchHeader, before: BatchHeader | None = None) -> Code | BatchMetadata:
        """NONE if a client's batch may follow, else the code of the refusal, or the batch in the log that it repeats.

        ``before`` is the batch of the same producer just ahead of it in the same append, if there is one.
        """
        known = self._by_id.get(header.producer_id)
        epoch, sequence = header.producer_epoch, header.base_sequence
        if before is not None:
            last_epoch, last_sequence = before.producer_epoch, before.last_sequence
        elif known is None:
            return Code.NONE  # nothing known (new, expired, or its records were deleted): any sequence may begin
        else:
            last_epoch, last_sequence = known.epoch, known.last_sequence
            if epoch == last_epoch:
                for written in known.batches:
                    if (
                        written.last_sequence == header.last_sequence
                        and written.offset_delta == header.last_offset_delta
                    ):
                        return written
        if epoch < last_epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if epoch > last_epoch:
            return Code.NONE if sequence == 0 else Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        if sequence == last_sequence + 1 or (sequence == 0 and last_sequence == 0x7FFFFFFF):
            return Code.NONE
        return Code.OUT_OF_ORDER_SEQUENCE_NUMBER

    def check_all(self, batches: Sequence[BatchHeader], internal: bool) -> Code | BatchMetadata:
        """``check`` for every batch of one append; ``internal`` appends carry no sequence: only epochs count."""
        before: dict[int, BatchHeader] = {}
        for header in batches:
            id = header.producer_id
            if id < 0:
                continue
            if internal:
                known = self._by_id.get(id)
                if known is not None and header.producer_epoch < known.epoch:
                    return Code.INVALID_PRODUCER_EPOCH
            else:
                verdict = self.check(header, before.get(id))
                if verdict is not Code.NONE:
                    return verdict
            before[id] = header
        return Code.NONE

    def record(self, header: BatchHeader, base_offset: int, timestamp: int, *, marker: Marker | None = None) -> None:
        """The batch is in the log at ``base_offset``: remember it. Followers and recovery call this without
        ``check``. ``marker``: what it says if it is a control batch.
        """
        known = self._by_id.get(header.producer_id)
        if known is None:
            known = self._by_id[header.producer_id] = Producer(header.producer_epoch)
        elif known.epoch != header.producer_epoch:
            known.epoch = header.producer_epoch
            known.batches.clear()
        known.last_timestamp = timestamp
        if header.attributes & 0x20:
            said = marker if marker is not None else Marker()
            known.coordinator_epoch = said.coordinator_epoch
            self._end(header.producer_id, known, base_offset, said.aborts)
            return
        delta = header.last_offset_delta
        batches = known.batches
        if len(batches) == KEPT_BATCHES:
            del batches[0]
        batches.append(BatchMetadata(header.last_sequence, base_offset + delta, delta, timestamp))
        if header.attributes & 0x10 and known.txn_first_offset < 0:
            known.txn_first_offset = self._open[header.producer_id] = base_offset

    def _end(self, id: int, known: Producer, marker: int, aborts: bool) -> None:
        """A marker ends the producer's transaction, if it has one open."""
        first, known.txn_first_offset = known.txn_first_offset, -1
        if self._open.pop(id, None) is None:
            return
        self._ended.append((first, marker))
        if aborts:
            stable = next(iter(self._open.values()), marker + 1)
            self.aborted.append(AbortedTxn(id, first, marker, stable))

    def replace_aborted(self, between: tuple[int, int], kept: Sequence[AbortedTxn]) -> None:
        """Note that of the aborted transactions with markers ``between`` two offsets only the ``kept`` ones have
        records left."""
        begin, end = between
        stay = frozenset(kept)

        def remain(entries: list[AbortedTxn]) -> list[AbortedTxn]:
            return [one for one in entries if not begin <= one.last_offset < end or one in stay]

        self.aborted = remain(self.aborted)
        if self.older_aborted is not None:  # else the files tell, which were replaced
            self.older_aborted = remain(self.older_aborted)

    def stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction has ended, with a marker below the watermark: the last stable offset."""
        if self._ended:
            self._ended = [ended for ended in self._ended if ended[1] >= high_watermark]
        if self._open:
            high_watermark = min(high_watermark, next(iter(self._open.values())))
        return min([high_watermark, *[first for first, _ in self._ended]]) if self._ended else high_watermark

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for longer than ``producer.id.expiration.ms``; how many."""
        old = [
            id
            for id, known in self._by_id.items()
            if known.txn_first_offset < 0 and now_ms - known.last_timestamp >= expiration_ms
        ]
        for id in old:
            del self._by_id[id]
        return len(old)

    def clear(self, end_offset: int) -> None:
        self._by_id.clear()
        self._open.clear()
        self._ended.clear()
        self.end_offset = end_offset

    def snapshot(self) -> bytes:
        """The state as the bytes of a ``.snapshot`` file (version 1). Only the last batch of each producer is kept in
        it.
        """
        body = bytearray(_HEAD.pack(1, 0, len(self._by_id)))
        for id, known in self._by_id.items():
            last = known.batches[-1] if known.batches else BatchMetadata(-1, -1, 0, -1)
            body += _ENTRY.pack(
                id, known.epoch, last.last_sequence, last.last_offset, last.offset_delta, known.last_timestamp,
                known.coordinator_epoch, known.txn_first_offset,
            )  # fmt: skip
        body[2:6] = crc32c(memoryview(body)[_CRC_FROM:]).to_bytes(4, "big")
        return bytes(body)

    @classmethod
    def parse(cls, data: bytes, end_offset: int, what: str) -> Producers:
        """From a snapshot file's bytes; BrokenFile when version, length or checksum is wrong."""
        if len(data) < _HEAD.size:
            raise BrokenFile(f"{what}: {len(data)} bytes are too few for a producer snapshot")
        version, crc, count = _HEAD.unpack_from(data)
        if version != 1:
            raise BrokenFile(f"{what}: version {version} is not known, 1 is expected")
        if crc != crc32c(data[_CRC_FROM:]):
            raise BrokenFile(f"{what}: the checksum is wrong")
        if len(data) != _HEAD.size + count * _ENTRY.size:
            raise BrokenFile(f"{what}: {count} entries are announced in {len(data)} bytes")
        producers = cls(end_offset)
        for at in range(count):
            id, epoch, sequence, offset, delta, stamp, coordinator, txn = _ENTRY.unpack_from(
                data, _HEAD.size + at * _ENTRY.size
            )
            known = producers._by_id[id] = Producer(epoch)
            known.last_timestamp, known.coordinator_epoch, known.txn_first_offset = stamp, coordinator, txn
            if offset >= 0:
                known.batches.append(BatchMetadata(sequence, offset, delta, stamp))
        begun = [(known.txn_first_offset, id) for id, known in producers if known.txn_first_offset >= 0]
        producers._open = {id: first for first, id in sorted(begun)}
        producers.snapshot_offset = end_offset
        return producers
