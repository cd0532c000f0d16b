"""The broker's log of idempotent producers that are refused: their application may end for it, and asks why.

Apache Kafka's brokers log the same refusals. A producer that goes on sending is heard a few times in ten seconds.
"""

from __future__ import annotations

import logging

from moldau.broker.rate_limited_log import RateLimitedLog
from moldau.broker.replicas.replica import Replica
from moldau.model import Code
from moldau.ports import Clock
from moldau.wire.batch import BatchHeader

log = logging.getLogger(__name__)


class RefusedProducers:
    """The refused producers of all partitions that this broker leads."""

    def __init__(self, clock: Clock) -> None:
        self._lines = RateLimitedLog(clock)

    def note(self, replica: Replica, header: BatchHeader, code: Code) -> None:
        """Log a refusal of a batch by its producer's epoch or sequence; any other code is somebody else's to tell."""
        if code not in (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.INVALID_PRODUCER_EPOCH):
            return
        producers = replica.log.known_producers
        known = None if producers is None else producers.get(header.producer_id)
        if known is None or (after := self._lines.more()) is None:
            return
        log.warning(
            "%s: %s for producer %d: epoch %d and sequence %d came, epoch %d and sequence %d are the last in the log,"
            " which ends at %d%s",
            replica.partition, code.name, header.producer_id, header.producer_epoch, header.base_sequence,
            known.epoch, known.last_sequence, replica.log.log_end_offset, after,
        )  # fmt: skip
