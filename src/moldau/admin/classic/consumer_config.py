"""A consumer's properties, as Kafka names them, for Moldau's consumer; wrong ones are refused with Kafka's words."""

from __future__ import annotations

from collections.abc import Mapping
from random import randrange

from moldau.admin.classic.client_keys import CONSUMER, demand_classes, demand_values
from moldau.admin.classic.java import CONFIG_ERROR, JavaError, illegal_argument
from moldau.admin.classic.offset_reset import offset_reset
from moldau.admin.classic.options import java_integer
from moldau.admin.classic.session import no_consumer
from moldau.client.assignors import ASSIGNORS
from moldau.client.consumer import ConsumerOptions
from moldau.client.membership import GroupOptions
from moldau.client.reading import READ_COMMITTED, READ_UNCOMMITTED

LEVELS = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
USED = frozenset({
    "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "bootstrap.servers", "client.id",
    "client.rack", "default.api.timeout.ms", "enable.auto.commit", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "group.id", "group.instance.id", "heartbeat.interval.ms", "isolation.level", "key.deserializer",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "partition.assignment.strategy", "request.timeout.ms",
    "security.protocol", "session.timeout.ms", "socket.connection.setup.timeout.ms", "value.deserializer",
})  # fmt: skip
"""The keys that decide something here; security.protocol must be PLAINTEXT."""


def consumer_options(properties: Mapping[str, str], *, group: str | None = None) -> ConsumerOptions:
    """The options that properties ask for; JavaError for a value that cannot be.

    Without a group of its own a consumer has one that nobody else is in.
    """
    demand_values(CONSUMER, properties)
    group_id = properties.get("group.id", group) or f"console-consumer-{randrange(100_000)}"
    reset, since_ms = offset_reset(properties.get("auto.offset.reset", "latest").strip())
    level = _one_of(properties, "isolation.level", "read_uncommitted", list(LEVELS))
    commits = _one_of(properties, "enable.auto.commit", "true", ["true", "false"]) == "true"
    demand_classes({key: value for key, value in properties.items() if key != "partitioner.class"}, no_consumer)
    member = GroupOptions(
        group_id=group_id,
        instance_id=properties.get("group.instance.id"),
        assignors=_assignors(properties),
        session_timeout_ms=_number(properties, "session.timeout.ms", 45_000),
        heartbeat_interval_ms=_number(properties, "heartbeat.interval.ms", 3_000),
        rebalance_timeout_ms=_number(properties, "max.poll.interval.ms", 300_000),
        rack=properties.get("client.rack") or None,
    )
    if member.heartbeat_interval_ms >= member.session_timeout_ms:
        raise no_consumer(illegal_argument("Heartbeat must be set lower than the session timeout"))
    return ConsumerOptions(
        group=member,
        reset=reset,
        since_ms=since_ms,
        isolation=LEVELS[level],
        max_bytes=_number(properties, "fetch.max.bytes", 50 << 20),
        partition_max_bytes=_number(properties, "max.partition.fetch.bytes", 1 << 20),
        min_bytes=_number(properties, "fetch.min.bytes", 1),
        max_wait_ms=_number(properties, "fetch.max.wait.ms", 500),
        rack=properties.get("client.rack", ""),
        auto_commit_interval_ms=_number(properties, "auto.commit.interval.ms", 5_000) if commits else None,
    )


def _one_of(properties: Mapping[str, str], key: str, default: str, known: list[str]) -> str:
    text = properties.get(key, default)
    if text.lower() not in known:
        why = f"String must be one of: {', '.join(known)}"
        raise JavaError(CONFIG_ERROR, f"Invalid value {text} for configuration {key}: {why}")
    return text.lower()


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    try:
        return default if text is None else java_integer(text.strip())
    except ValueError:
        why = "Not a number of type INT"
        raise JavaError(CONFIG_ERROR, f"Invalid value {text} for configuration {key}: {why}") from None


def _assignors(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = properties.get("partition.assignment.strategy")
    if text is None:
        return ("range",)
    found = []
    for name in (word.strip() for word in text.split(",")):
        known = _ASSIGNORS.get(name, name)
        if known not in ASSIGNORS:
            missing = JavaError("java.lang.ClassNotFoundException", name)
            what = f"{name} ClassNotFoundException exception occurred"
            raise no_consumer(JavaError("org.apache.kafka.common.KafkaException", what, missing))
        found.append(known)
    return tuple(found)
