"""Mistakes about batches that are under way behind others of their producer. Shown by whole clusters in which one has
several requests under way (``simulator/pipelined_producer.py``).
"""

from __future__ import annotations

from moldau.broker.api.k00_produce import _Produce
from moldau.broker.replicas.sequence_gaps import SequenceGaps
from moldau.model import Code
from moldau.simulator.mutants.mutant import Mutant, Patches
from moldau.simulator.scenes import PIPELINED, ZOOKEEPER
from moldau.storage import producers
from moldau.wire.batch import BatchHeader


def judges_a_batch_without_the_one_ahead(patches: Patches) -> None:
    patches.set(SequenceGaps, "code_behind_gap", lambda self, target, header: None)
    patches.set(SequenceGaps, "refuse_once_on_new_leader", lambda self, target, header: False)


def takes_any_batch_of_a_producer_not_known(patches: Patches) -> None:
    patches.set(_Produce, "_refusal_for_one_ahead", lambda self, data, slot, replica, header: None)


def takes_a_batch_behind_a_gap(patches: Patches) -> None:
    real = producers.Producers.check

    def check(
        self: producers.Producers, header: BatchHeader, before: BatchHeader | None = None
    ) -> Code | producers.BatchMetadata:
        verdict = real(self, header, before)
        known = self.get(header.producer_id)
        last = -1 if known is None or known.epoch != header.producer_epoch else known.last_sequence
        if verdict is Code.OUT_OF_ORDER_SEQUENCE_NUMBER and 0 <= last < header.base_sequence:
            return Code.NONE
        return verdict

    patches.set(producers.Producers, "check", check)


def remembers_the_last_batch_of_a_producer(patches: Patches) -> None:
    patches.set(producers, "KEPT_BATCHES", 1)


MUTANTS = tuple(
    Mutant(bug, what, f"{ZOOKEEPER} {PIPELINED}", ("S16", "S1"), patch, first)
    for bug, what, patch, first in (
        ("own (commit 18b6d33)", "a batch behind one that was sent back is judged as if nothing had been",
         judges_a_batch_without_the_one_ahead, 0),
        ("own (commit 24a0cd5)", "of a producer not known, a batch behind one that was sent back is taken",
         takes_any_batch_of_a_producer_not_known, 199),
        ("KIP-98", "a batch is taken though those between it and the last one are missing",
         takes_a_batch_behind_a_gap, 0),
        ("KAFKA-5494", "of each producer the last batch is remembered, and five are under way",
         remembers_the_last_batch_of_a_producer, 0),
    )
)  # fmt: skip
