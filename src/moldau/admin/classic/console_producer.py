"""kafka-console-producer.sh: sends the lines of standard input as records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from moldau.admin.classic.client_topics import await_topic
from moldau.admin.classic.console_producer_options import ABOUT, OPTIONS
from moldau.admin.classic.console_properties import key_values, log, merged, newer_name, tell_unused
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error, timed_out
from moldau.admin.classic.line_reader import LineReader, RecordLine, lines_of_stdin
from moldau.admin.classic.options import GivenOptions, ToolOptionError, ToolUsageError
from moldau.admin.classic.producer_config import (
    REQUEST_BYTES,
    acks_of,
    codec_of,
    demand_consistent,
    demand_size,
    number_of,
)
from moldau.admin.classic.run import help_or_version
from moldau.admin.classic.session import ToolSession, are_addresses, executed, read_config
from moldau.admin.signals import caught_signals
from moldau.client.client import Refused
from moldau.client.feeding import FeedOptions, NotWritten, TopicFeed
from moldau.client.lines import UnsupportedApi

LOGGER = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
READER = "org.apache.kafka.tools.LineMessageReader"
USED = frozenset({
    "acks", "batch.size", "bootstrap.servers", "client.id", "compression.type", "default.api.timeout.ms",
    "delivery.timeout.ms", "key.serializer", "linger.ms", "max.block.ms", "max.request.size", "request.timeout.ms",
    "security.protocol", "socket.connection.setup.timeout.ms", "transactional.id", "value.serializer",
})  # fmt: skip
_RENAMED = (
    ("command-config", "producer.config"),
    ("command-property", "producer-property"),
    ("reader-property", "property"),
)
_OLD_BYTES = (
    "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
    "Use --batch-size instead."
)
_MERGED = (
    ("linger.ms", "timeout", 64),
    ("acks", "request-required-acks", 0),
    ("request.timeout.ms", "request-timeout-ms", 32),
    ("retries", "message-send-max-retries", 32),
    ("retry.backoff.ms", "retry-backoff-ms", 64),
    ("send.buffer.bytes", "socket-buffer-size", 32),
    ("buffer.memory", "max-memory-bytes", 64),
    ("batch.size", "batch-size", 32),
    ("batch.size", "max-partition-memory-bytes", 32),
    ("metadata.max.age.ms", "metadata-expiry-ms", 64),
    ("max.block.ms", "max-block-ms", 64),
)
"""Property, option and how many bits its number has (0: it is a text)."""


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = _parsed(arguments)
        used = {name: newer_name(given, name, old, warning=True) for name, old in _RENAMED}
        if given.has("max-partition-memory-bytes"):
            print(_OLD_BYTES)
        _check_servers(given)
        reader = LineReader(_reader_properties(given, used))
        properties = _properties(given, used)
        with caught_signals():
            _produce(given, reader, properties)
    except ToolOptionError as error:
        print(error.said, file=sys.stderr)
        return 1
    except JavaError as error:
        sys.stdout.flush()
        sys.stderr.write(error.trace)
        return 1
    return 0


def _parsed(arguments: Sequence[str]) -> GivenOptions:
    try:
        given = GivenOptions(OPTIONS, arguments)
    except ToolOptionError as error:
        raise ToolUsageError(GivenOptions(OPTIONS, []).options, error.said) from None
    help_or_version(given, ABOUT)
    given.require("topic")
    for name, old in _RENAMED:
        if given.has(name) and given.has(old):
            given.refuse(f"Options --{name} and --{old} cannot be specified together.")
    return given


def _check_servers(given: GivenOptions) -> None:
    servers = given.value("bootstrap-server") or ""
    if not servers.strip():
        given.refuse("Error while validating the bootstrap address\n")
    if not are_addresses(servers):
        given.refuse("Please provide valid host:port like host1:9091,host2:9092\n")


def _reader_properties(given: GivenOptions, used: dict[str, str]) -> dict[str, str]:
    name = given.text("line-reader")
    if name != READER:
        raise JavaError("java.lang.ClassNotFoundException", name)
    found = read_config(given.value("reader-config"))
    return found | {"topic": given.text("topic")} | key_values(given.values(used["reader-property"]))


def _properties(given: GivenOptions, used: dict[str, str]) -> dict[str, str]:
    found = read_config(given.value(used["command-config"])) | key_values(given.values(used["command-property"]))
    codec = "none"
    if given.has("compression-codec"):
        codec = given.value("compression-codec") or "gzip"
    found["compression.type"] = codec
    found.setdefault("client.id", "console-producer")
    for key, option, bits in _MERGED:
        if bits:
            given.integer(option, bits)
        merged(given, found, key, option)
    return found


def _options(properties: dict[str, str]) -> FeedOptions:
    demand_consistent(properties)
    timeout_ms = number_of(properties, "delivery.timeout.ms", 120_000)
    return FeedOptions(acks=acks_of(properties), codec=codec_of(properties), timeout_ms=min(timeout_ms, 30_000))


def _produce(given: GivenOptions, reader: LineReader, properties: dict[str, str]) -> None:
    options = _options(properties)
    own = {key for key, _, _ in _MERGED}  # options of the tool that are of no use here say so in docs/tools.md
    tell_unused(properties, USED | own, LOGGER)
    with ToolSession(properties, given.text("bootstrap-server"), client="Producer") as session:
        sender = _Sender(session, given.text("topic"), options, properties)
        sync = given.has("sync")
        linger_s = number_of(properties, "linger.ms", 1000) / 1000
        try:
            for line in lines_of_stdin(min(linger_s, 1.0)):
                if line is not None:
                    sender.add(reader.read(line), sync=sync)
                if sync:
                    sender.flush_or_fail()
                elif line is None or sender.full or sender.age_s >= linger_s:
                    sender.flush()
        finally:
            sender.flush()


class _Sender:
    """Gathers records and sends them; a failure is told in one line and is no end, as in Kafka's tool."""

    def __init__(self, session: ToolSession, topic: str, options: FeedOptions, properties: dict[str, str]) -> None:
        self.session = session
        self.topic = topic
        self.feed = TopicFeed(session.cluster.client, topic, options)
        self._batch_bytes = number_of(properties, "batch.size", 16_384)
        self._block_ms = number_of(properties, "max.block.ms", 60_000)
        self._request_bytes = number_of(properties, "max.request.size", REQUEST_BYTES)
        self._transactional = "transactional.id" in properties
        self._waiting: list[RecordLine] = []
        self._bytes = 0
        self._since = 0.0

    @property
    def full(self) -> bool:
        """Whether so much has gathered that it is sent at once."""
        return self._bytes >= max(self._batch_bytes, 1)

    @property
    def age_s(self) -> float:
        """How long the oldest record has waited."""
        return time.monotonic() - self._since if self._waiting else 0.0

    def add(self, line: RecordLine, *, sync: bool) -> None:
        """Take a record. JavaError where Kafka's tool ends: for any in a transaction, which it does not begin, and with
        ``sync`` for one that is too large, which is logged and left out else."""
        if self._transactional:
            what = f"Cannot add partition {self.topic}-0 to transaction before completing a call to initTransactions"
            raise JavaError("java.lang.IllegalStateException", what)
        try:
            demand_size(line.key, line.value, line.headers, self._request_bytes)
        except JavaError as error:
            if sync:
                raise executed(error) from None
            self._log([line], error)
            return
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(line)
        self._bytes += len(line.key or b"") + len(line.value or b"")

    def flush(self) -> None:
        """Send what has gathered; what goes wrong is logged."""
        waiting = self._waiting
        try:
            for lines, error in self._send():
                self._log(lines, error)
        except JavaError as error:
            self._log(waiting, error)

    def _log(self, lines: Sequence[RecordLine], error: JavaError) -> None:
        what = f"with key: {_size(lines[0].key)}, value: {_size(lines[0].value)}"
        if len(lines) > 1:
            what += f" and {len(lines) - 1} more"
        log("ERROR", f"Error when sending message to topic {self.topic} {what} with error: {error}", LOGGER)

    def flush_or_fail(self) -> None:
        """Send what has gathered; what goes wrong is raised."""
        try:
            for _, error in self._send():
                raise error
        except JavaError as error:
            raise executed(error) from None

    def _send(self) -> Iterator[tuple[Sequence[RecordLine], JavaError]]:
        """Send what has gathered: lines that are refused, and why. JavaError when nothing more can be sent."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        cluster = self.session.cluster
        cluster.run(await_topic(cluster.client, self.topic, self._block_ms))
        left: dict[int, list[RecordLine]] = {}
        for line in waiting:
            left.setdefault(self.feed.add(line.key, line.value, line.headers), []).append(line)
        while self.feed.waiting:
            try:
                cluster.run(self.feed.flush())
            except NotWritten as error:
                lines, after = left[error.partition.partition], error.place + error.count
                yield lines[error.place : after], kafka_error(error.code, error.message)
                del lines[:after]
            except Refused as error:
                raise kafka_error(error.code) from None
            except UnsupportedApi as error:
                raise JavaError(f"{PACKAGE}UnsupportedVersionException", str(error)) from None
            except OSError as error:
                raise timed_out(str(error)) from None


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"
