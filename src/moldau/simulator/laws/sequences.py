"""What a leader may tell an idempotent producer that keeps to the rules: never that its numbers are out of order.

Decides, for a refusal, whether it makes others' clients go on under the next producer epoch, and write again what is
in logs without having been answered. Remembers nothing. Source: Apache Kafka's TransactionManager.canRetry, and
librdkafka's rd_kafka_handle_Produce_error for idempotent producers. Read next: pipelined_producer.py,
broker/replicas/sequence_gaps.py.
"""

from __future__ import annotations

from moldau.client.lines import Line
from moldau.model import Code
from moldau.model.named import NamedTuple
from moldau.model.topic_config import TOPIC_KEYS

OUT_OF_ORDER = frozenset({Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID})
AFTER_MAX_MS = TOPIC_KEYS["message.timestamp.after.max.ms"].default
"""How far ahead of its leader's clock a record may be: no topic of a simulated run sets it."""


class Attempt(NamedTuple):
    """One batch sent once: on which connection, when, to whom, and with what it was refused, if it was."""

    line: Line
    sent_ns: int
    code: Code = Code.NONE
    refused_ns: int = -1
    leader: int = -1

    def refused(self, code: Code, now_ns: int) -> Attempt:
        """Return the attempt with its end."""
        return self._replace(code=code, refused_ns=now_ns)


def wrong_order(ahead: Attempt | None, batch: Attempt | None) -> str:
    """S16: what is wrong with telling that a batch is out of order, an empty string if nothing is.

    ``ahead`` is the batch right ahead of it, None where none is without an answer. A batch behind one that was refused
    on the same connection while both were under way there goes back with it; behind one that is under way elsewhere,
    or was refused elsewhere, it may be told so, and is sent again.
    """
    if ahead is None:
        return "all before it is acknowledged"
    if batch is None or ahead.line is not batch.line or ahead.code in (Code.NONE, Code.NETWORK_EXCEPTION):
        return ""
    if ahead.code in OUT_OF_ORDER or not ahead.sent_ns <= batch.sent_ns <= ahead.refused_ns:
        return ""
    return f"the one ahead, under way on the same connection, was told {ahead.code.name}"


def wrong_refusal(code: Code, ahead_ms: int) -> str:
    """S16: what is wrong with a refusal of another kind, an empty string if nothing is.

    None but those that ask for another try is expected, and that a record comes from a future that the leader does not
    take (``message.timestamp.after.max.ms``, whose default topics have here). ``ahead_ms``: how far the batch's newest
    record was ahead of the leader's clock, at most, while the batch was under way.
    """
    if code.retriable or (code is Code.INVALID_TIMESTAMP and ahead_ms > AFTER_MAX_MS):
        return ""
    return "it is refused for good"
