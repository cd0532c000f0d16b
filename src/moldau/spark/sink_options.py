"""What the sink may be told: its own options and every setting of Kafka's Java producer.

Each ``kafka.*`` key is applied, refused with the reason, or named as being without effect here; a key that the Java
producer does not know either is refused with the nearest one. Nothing is dropped without a word.
Source of the keys: Apache Kafka's ProducerConfig, 4.x. Read next: sink.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.spark.given import Given, OptionError, check_addresses, integer

NAMES = ("topic", "includeHeaders", "markBatches", "markBy", "batch", "keepTimestamp", "checkpointLocation", "path",
         "queryName")  # fmt: skip
"""The sink's own options, and those that Spark adds by itself (queryName, checkpointLocation, path)."""

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"

_NUMBERS = {  # supported: name -> (default, least)
    "batch.size": (512 << 10, 0),
    "max.request.size": (1 << 20, 1),
    "request.timeout.ms": (30_000, 1),
    "delivery.timeout.ms": (120_000, 1),
    "max.block.ms": (60_000, 1),
    "retries": (2_147_483_647, 0),
    "retry.backoff.ms": (100, 0),
    "retry.backoff.max.ms": (1_000, 0),
    "metadata.max.age.ms": (300_000, 0),
    "connections.max.idle.ms": (540_000, 0),
    "socket.connection.setup.timeout.ms": (10_000, 1),
    "linger.ms": (0, 0),
}
_CHOICES = {
    "acks": ("all", "-1", "1", "0"),
    "compression.type": tuple(CODECS),
    "enable.idempotence": ("true", "false"),
    "partitioner.ignore.keys": ("false", "true"),
    "security.protocol": ("PLAINTEXT",),
}
_SUPPORTED = {*_NUMBERS, *_CHOICES, "bootstrap.servers", "client.id", "partitioner.class"}
WITHOUT_EFFECT = {
    "max.block.ms": "delivery.timeout.ms bounds the wait for metadata as well",
    "linger.ms": "a batch leaves when it is full or when the task's rows end",
    "buffer.memory": "a task holds a few batches and no more",
    "max.in.flight.requests.per.connection": "one batch of a partition is under way at a time, so order always holds",
    "compression.gzip.level": "each codec packs with its default level",
    "compression.lz4.level": "each codec packs with its default level",
    "compression.zstd.level": "each codec packs with its default level",
    "partitioner.adaptive.partitioning.enable": "rows without key move on after each full batch",
    "partitioner.availability.timeout.ms": "rows without key move on after each full batch",
    "client.dns.lookup": "every address of a name is tried",
    "send.buffer.bytes": "the system chooses it",
    "receive.buffer.bytes": "the client chooses it",
    "reconnect.backoff.ms": "retry.backoff.ms is the pause",
    "reconnect.backoff.max.ms": "retry.backoff.max.ms bounds the pause",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms is the limit of each try",
    "metadata.max.idle.ms": "metadata is kept for as long as the connection",
    "metadata.recovery.strategy": "bootstrap addresses are always tried again",
    "metadata.recovery.rebootstrap.trigger.ms": "bootstrap addresses are always tried again",
    "metrics.num.samples": "no producer metrics are kept",
    "metrics.recording.level": "no producer metrics are kept",
    "metrics.sample.window.ms": "no producer metrics are kept",
    "metric.reporters": "no producer metrics are kept",
    "auto.include.jmx.reporter": "no producer metrics are kept",
    "enable.metrics.push": "no producer metrics are kept",
    "transaction.timeout.ms": "the sink runs no transactions",
}
_REFUSED = {
    "key.serializer": "keys are bytes; use DataFrame operations to encode them",
    "value.serializer": "values are bytes; use DataFrame operations to encode them",
    "interceptor.classes": "Java classes do not run here",
    "transactional.id": "the sink runs no transactions; moldau.spark.sink.once reads a stream's records once",
    "transaction.two.phase.commit.enable": "the sink runs no transactions",
    "config.providers": "Java classes do not run here",
    "security.providers": "Java classes do not run here",
}
_REFUSED_PREFIXES = {
    "ssl.": "only PLAINTEXT connections are made",
    "sasl.": "only PLAINTEXT connections are made",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write and how; times in ms, sizes in bytes.

    ``topic`` overrides the column. ``mark`` adds the header that ``once`` reads, in streams and where ``batch`` names
    the batch; it tells rows apart by their number in the task, or by their key when ``mark_by_key``. Records get the
    time of the column ``timestamp`` when ``keep_timestamp``; else, and where it is null, that of writing.
    """

    kafka: Mapping[str, str] = field(default_factory=dict)
    topic: str | None = None
    mark: bool = True
    mark_by_key: bool = False
    batch: str | None = None
    keep_timestamp: bool = False
    codec: int = 0
    warnings: tuple[str, ...] = ()

    def number(self, name: str) -> int:
        """A supported setting that is a number, or its default."""
        given = self.kafka.get(name)
        return _NUMBERS[name][0] if given is None else int(given)

    @property
    def acks(self) -> int:
        """-1 for all, 1 for the leader alone, 0 for no answer at all."""
        given = self.kafka.get("acks", "all")
        return -1 if given == "all" else int(given)

    @property
    def idempotent(self) -> bool:
        return self.acks == -1 and self.kafka.get("enable.idempotence", "true") == "true"

    @property
    def ignore_keys(self) -> bool:
        return self.kafka.get("partitioner.ignore.keys") == "true"

    @property
    def round_robin(self) -> bool:
        return self.kafka.get("partitioner.class") == ROUND_ROBIN


def parse(raw: Mapping[str, str]) -> SinkOptions:
    """The checked options; OptionError otherwise."""
    given = Given(raw)
    given.refuse_unknown(NAMES)
    kafka = {name[6:]: value.strip() for name, value in given.values.items() if name.startswith("kafka.")}
    warnings = tuple(
        f"option kafka.{name} has no effect on the sink: {WITHOUT_EFFECT[name]}"
        for name in kafka
        if name in WITHOUT_EFFECT
    )
    for name, value in kafka.items():
        _check(name, value)
    check_addresses(kafka.get("bootstrap.servers"))
    if kafka.get("enable.idempotence") == "true" and kafka.get("acks", "all") not in ("all", "-1"):
        raise OptionError("kafka.acks", kafka["acks"], "an idempotent producer (kafka.enable.idempotence) needs all")
    if "delivery.timeout.ms" in kafka:
        least = int(kafka.get("request.timeout.ms", _NUMBERS["request.timeout.ms"][0]))
        if int(kafka["delivery.timeout.ms"]) < least:
            raise OptionError(
                "kafka.delivery.timeout.ms", kafka["delivery.timeout.ms"],
                f"it must not be below kafka.request.timeout.ms, which is {least}",
            )  # fmt: skip
    by = given.choice("markBy", "row", ("row", "key"))
    return SinkOptions(
        kafka, given.get("topic"), given.flag("markBatches", True), by == "key", given.get("batch"),
        given.flag("keepTimestamp", False), CODECS[kafka.get("compression.type", "none")], warnings,
    )  # fmt: skip


def _check(name: str, value: str) -> None:
    """OptionError unless the producer setting is one that is supported, with an allowed value, or without effect."""
    why = _REFUSED.get(name) or next((w for prefix, w in _REFUSED_PREFIXES.items() if name.startswith(prefix)), None)
    if why is not None:
        raise OptionError(f"kafka.{name}", value, f"not supported: {why}")
    if name in _NUMBERS:
        integer(f"kafka.{name}", value, _NUMBERS[name][1])
    elif name in _CHOICES:
        if value not in _CHOICES[name]:
            raise OptionError(f"kafka.{name}", value, "allowed are " + ", ".join(_CHOICES[name]))
    elif name == "partitioner.class":
        if value != ROUND_ROBIN:
            raise OptionError(
                "kafka.partitioner.class", value,
                f"Java classes do not run here; allowed is {ROUND_ROBIN}, and a column partition places each row",
            )  # fmt: skip
    elif name not in _SUPPORTED and name not in WITHOUT_EFFECT:
        near = difflib.get_close_matches(name, [*_SUPPORTED, *WITHOUT_EFFECT], 1)
        hint = f"; did you mean kafka.{near[0]}?" if near else ""
        raise OptionError(f"kafka.{name}", value, f"Kafka's producer has no such setting{hint}")
