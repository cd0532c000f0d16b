"""The load outlives a fatal error of its producer: the session is called broken, and another follows."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from moldau.cluster.kills.load import LoadPlan, ProducerSession
from moldau.history.rows import FAIL

FATAL = KafkaException(KafkaError(KafkaError._FATAL, "out of order", fatal=True))


class FatalProducer(Producer):  # type: ignore[misc]  # confluent_kafka has no types
    """A producer as confluent-kafka's is after a fatal error: it takes nothing, and the first flush raises."""

    def __init__(self) -> None:
        self.due = 2

    def __len__(self) -> int:
        return self.due

    def produce(self, *_: Any, **__: Any) -> None:
        raise FATAL

    def flush(self, _: float) -> int:
        self.due -= 1
        if self.due:
            raise SystemError("a callback was called with an exception pending")
        return 0


def test_a_fatal_error_breaks_the_session_and_raises_nothing() -> None:
    session = ProducerSession("p0.0", "127.0.0.1:1", LoadPlan("t", 1))
    session._producer = FatalProducer()
    session.send()
    assert "out of order" in session.broken
    assert session.sends[0].outcome == FAIL
    session.finish(5)
    assert len(session._producer) == 0
