"""What a leader may tell an idempotent producer that keeps to the rules: never that its numbers are out of order.

Decides, for a refusal, whether it makes others' clients go on under the next producer epoch, and write again what is
in logs without having been answered. Remembers nothing. Source: Apache Kafka's TransactionManager.canRetry, and
librdkafka's rd_kafka_handle_Produce_error for idempotent producers. Read next: pipelined_producer.py,
broker/replicas/sent_back.py.
"""

from __future__ import annotations

from moldau.client.lines import Line
from moldau.model import Code
from moldau.model.named import NamedTuple

OUT_OF_ORDER = frozenset({Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID})


class Attempt(NamedTuple):
    """One batch sent once: on which connection, when, and with what it was refused, if it was."""

    line: Line
    sent_ns: int
    code: Code = Code.NONE
    refused_ns: int = -1

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


def wrong_refusal(code: Code) -> str:
    """S16: what is wrong with a refusal of another kind: none but those that ask for another try is expected here."""
    return "" if code.retriable else "it is refused for good"
