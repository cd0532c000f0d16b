"""What a reader makes of each ``kafka.*`` option: supported, known but without effect here, or refused.

Java's consumer has some hundred keys. A key that promises what this source does not do is refused; one that Java's
consumer needs and this source does not is named once in a warning; one that nobody knows is refused with the nearest
that somebody does. Names: Apache Kafka's ConsumerConfig, SslConfigs and SaslConfigs (4.3).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from moldau.spark.given import KAFKA_CHOICES, KAFKA_NUMBERS, OptionError

SUPPORTED = frozenset({"bootstrap.servers", "client.id", "client.rack", *KAFKA_NUMBERS, *KAFKA_CHOICES})
"""What changes how this source reads."""

_NO_GROUP = "no consumer group is joined: Spark keeps the positions"
_OWN_SOCKETS = "the client's connections take no such setting"
_FETCHES = "a task fetches one partition at a time, up to max.partition.fetch.bytes"

WITHOUT_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(
        ("group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "partition.assignment.strategy",
         "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "auto.commit.interval.ms",
         "internal.leave.group.on.close"), _NO_GROUP),
    **dict.fromkeys(
        ("send.buffer.bytes", "receive.buffer.bytes", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
         "socket.connection.setup.timeout.max.ms", "client.dns.lookup", "metadata.recovery.strategy",
         "metadata.recovery.rebootstrap.trigger.ms"), _OWN_SOCKETS),
    **dict.fromkeys(("max.poll.records", "fetch.max.bytes"), _FETCHES),
    "allow.auto.create.topics": "reading never creates a topic",
    "exclude.internal.topics": "subscribePattern leaves internal topics out; name them in subscribe or assign",
    **dict.fromkeys(
        ("metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "auto.include.jmx.reporter",
         "enable.metrics.push"), "a Spark worker keeps no client metrics"),
}  # fmt: skip
"""Keys of Java's consumer that change nothing here, and why."""

_REFUSED_FAMILIES = {
    "ssl.": "TLS is not offered by this source; Spark's own connector has it",
    "sasl.": "SASL is not offered by this source; Spark's own connector has it",
}
_REFUSED = {
    "security.providers": "no security provider is loaded by this source",
    "metric.reporters": "no class is loaded by this source",
    "config.providers": "values are taken as they are: no provider is asked for them",
}


def consumer_options(kafka: Mapping[str, str]) -> list[str]:
    """A warning for every key without effect; OptionError for one that is unknown or promises what is not done."""
    warnings: list[str] = []
    for name, value in kafka.items():
        if name in SUPPORTED:
            continue
        why = _REFUSED.get(name) or next(
            (why for start, why in _REFUSED_FAMILIES.items() if name.startswith(start)), ""
        )
        if why:
            raise OptionError(f"kafka.{name}", value, f"not supported: {why}")
        if name not in WITHOUT_EFFECT:
            raise OptionError(f"kafka.{name}", value, f"no such option; {_hint(name)}")
        warnings.append(f"option kafka.{name} has no effect: {WITHOUT_EFFECT[name]}")
    return warnings


def _hint(name: str) -> str:
    known = sorted({*SUPPORTED, *WITHOUT_EFFECT})
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean kafka.{near[0]}?"
    return "supported are " + ", ".join(f"kafka.{each}" for each in sorted(SUPPORTED))
