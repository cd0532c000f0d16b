"""Mistakes about what a reader of committed records is given. Shown by whole clusters with transactional producers
(``simulator/transactional.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.broker.api import k27_write_txn_markers
from moldau.broker.replicas.fetch import read
from moldau.client import consumer
from moldau.client.reading import visible
from moldau.model import Code
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import TRANSACTIONS, ZOOKEEPER
from moldau.storage import cleanable, compaction, compactions, log, recovery, truncation
from moldau.storage.aborted import AbortedTxn
from moldau.storage.decided import DecidedTransactions
from moldau.storage.log import Log
from moldau.storage.producers import Producers
from moldau.storage.transactions import aborted_within
from moldau.wire.batch import BatchHeader


def tells_no_reader_what_was_aborted(patches: Patches) -> None:
    patches.set(read, "_aborted", lambda log, start, end: [])


def tells_of_aborts_that_begin_where_a_reader_asks(patches: Patches) -> None:
    def within(one: Log, start: int, end: int) -> list[AbortedTxn]:
        return [entry for entry in aborted_within(one, start, end) if entry.first_offset >= start]

    patches.set(read, "aborted_within", within)


def tells_an_abort_from_the_beginning_on(patches: Patches) -> None:
    def within(one: Log, start: int, end: int) -> list[AbortedTxn]:
        return [entry._replace(first_offset=0) for entry in aborted_within(one, start, end)]

    patches.set(read, "aborted_within", within)


def reads_up_to_the_watermark(patches: Patches) -> None:
    patches.set(Producers, "stable_offset", lambda self, high_watermark: high_watermark)


def lets_a_marker_count_before_it_is_replicated(patches: Patches) -> None:
    def stable_offset(self: Producers, high_watermark: int) -> int:
        return min(high_watermark, *self._open.values()) if self._open else high_watermark

    patches.set(Producers, "stable_offset", stable_offset)


def forgets_at_a_start_what_is_open(patches: Patches) -> None:
    real = Producers.parse

    def parse(data: bytes, end_offset: int, what: str) -> Producers:
        found = real(data, end_offset, what)
        found._open.clear()
        for _, known in found:
            known.txn_first_offset = -1
        return found

    patches.set(Producers, "parse", staticmethod(parse))


def forgets_at_a_start_what_was_aborted(patches: Patches) -> None:
    patches.set(recovery, "aborted_on_disk", lambda folder, names, segments, up_to: [])


def takes_every_marker_of_a_leader_for_a_commit(patches: Patches) -> None:
    real, marker = Log.append_follower, log._marker
    following: list[Log] = []

    def append(self: Log, *given: Any, **named: Any) -> Any:  # Any: as ``Log.append_follower``, which is replaced
        following.append(self)
        try:
            return real(self, *given, **named)
        finally:
            following.pop()

    patches.set(Log, "append_follower", append)
    patches.set(log, "_marker", lambda *given: marker(*given)._replace(aborts=False) if following else marker(*given))


def leaves_at_a_cut_what_is_known_of_producers(patches: Patches) -> None:
    real = truncation.truncate

    def truncate(one: Any, offset: int) -> None:  # Any: a LogState
        known = one.known_producers
        real(one, offset)
        if known is not None and one.known_producers is None:
            known.end_offset = one.log_end_offset
            one.known_producers = known

    patches.set(truncation, "truncate", truncate)


def lets_the_aborted_replace(patches: Patches) -> None:
    real = DecidedTransactions.is_aborted

    def is_aborted(self: DecidedTransactions, header: BatchHeader) -> bool:
        real(self, header)
        return False

    patches.set(DecidedTransactions, "is_aborted", is_aborted)


def takes_a_marker_before_its_records(patches: Patches) -> None:
    real = DecidedTransactions.is_empty

    def is_empty(self: DecidedTransactions, header: BatchHeader) -> bool:
        real(self, header)
        return True

    patches.set(DecidedTransactions, "is_empty", is_empty)


class _AllDecided:
    """A log in which nothing is open."""

    def __init__(self, one: Any) -> None:  # Any: a Log
        self._log = one
        self.producers = self

    def stable_offset(self, high_watermark: int) -> int:
        return high_watermark

    def __getattr__(self, name: str) -> Any:  # Any: whatever a Log has
        return getattr(self._log, name)


def compacts_what_is_not_decided(patches: Patches) -> None:
    measure: Any = cleanable.measure  # Any: it is given what is no Log
    for where in (compaction, compactions):
        patches.set(where, "measure", lambda one, now_ms: measure(_AllDecided(one), now_ms))


def refuses_a_marker_that_comes_again(patches: Patches) -> None:
    real = k27_write_txn_markers._refusal

    def refusal(replica: Any, marker: Any) -> Code:  # Any: as in the function that is replaced
        known = replica.log.producers.get(marker.producer_id)
        is_same = known is not None and known.epoch == marker.producer_epoch
        return Code.INVALID_PRODUCER_EPOCH if is_same and marker.transaction_version else real(replica, marker)

    patches.set(k27_write_txn_markers, "_refusal", refusal)


def reads_what_was_aborted(patches: Patches) -> None:
    patches.set(consumer, "visible", lambda fetched, start, *, isolation: visible(fetched, start))


MUTANTS: Sequence[Mutant] = tuple(
    Mutant(bug, what, f"{ZOOKEEPER} {TRANSACTIONS}", laws, patch, first)
    for bug, what, laws, patch, first in (
        ("KIP-98", "nobody who reads is told what was aborted", ("S17",), tells_no_reader_what_was_aborted, 0),
        ("KIP-98", "a reader that goes on amid an aborted transaction is not told of it", ("S17",),
         tells_of_aborts_that_begin_where_a_reader_asks, 0),
        ("KIP-98", "an aborted transaction is told with what its producer had committed before", ("S17",),
         tells_an_abort_from_the_beginning_on, 0),
        ("KIP-98", "readers of committed records read up to the watermark", ("S17",), reads_up_to_the_watermark, 0),
        ("KIP-98", "a transaction counts as ended before its marker is replicated", ("S17",),
         lets_a_marker_count_before_it_is_replicated, 0),
        ("own (S17)", "what is open is forgotten at a start", ("S17",), forgets_at_a_start_what_is_open, 0),
        ("own (S17)", "what was aborted is forgotten at a start", ("S17",), forgets_at_a_start_what_was_aborted, 3),
        ("own (S17)", "a follower takes every marker for that of a commit", ("S17",),
         takes_every_marker_of_a_leader_for_a_commit, 0),
        ("own (S17)", "a cut leaves what is known of producers as it was", ("S17", "S16"),
         leaves_at_a_cut_what_is_known_of_producers, 1),
        ("KIP-98", "an aborted record replaces what was committed", ("S5", "S17"), lets_the_aborted_replace, 28),
        ("KIP-534", "a marker goes before the records of its transaction", ("S17",),
         takes_a_marker_before_its_records, 28),
        ("own (S5)", "records of open transactions replace what was committed", ("S5", "S17"),
         compacts_what_is_not_decided, 28),
        ("KIP-1228", "a marker that is sent again is refused", ("L10",), refuses_a_marker_that_comes_again, 2),
        ("own (S17)", "the client gives what was aborted to who reads what is committed", ("S17",),
         reads_what_was_aborted, 0),
    )
)  # fmt: skip
