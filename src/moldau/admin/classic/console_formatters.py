"""How kafka-console-consumer.sh writes records: as text, not at all, or as JSON where they are those of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.admin.classic.console_properties import log
from moldau.admin.classic.dump_coordinators import group_record
from moldau.admin.classic.dump_structs import RUNTIME_ERROR
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import DESERIALIZERS, java_text
from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.wire.batch import Record
from moldau.wire.records.as_json import plain, text

Formatter = Callable[["Seen"], bytes]
"""What is written of a record. ValueError, or a JavaError of its own, when it cannot be."""

_PACKAGE = "org.apache.kafka.tools.consumer."


class Seen(NamedTuple):
    """A record and where it comes from; ``appended``: its time is the broker's, None: it has none."""

    partition: TopicPartition
    record: Record
    appended: bool | None

    @property
    def time(self) -> str | None:
        """Its time as it is shown, None when it has none."""
        if self.appended is None:
            return None
        return f"{'LogAppendTime' if self.appended else 'CreateTime'}:{self.record.timestamp}"


def default(properties: Mapping[str, str]) -> Formatter:
    """Text: the value, and what else is asked for with print.key=true and its like."""

    def wanted(what: str) -> bool:
        return properties.get(f"print.{what}", "true" if what == "value" else "false").strip().lower() == "true"

    def mark(name: str, default: str) -> bytes:
        return properties.get(name, default).encode()

    columns = [what for what in _COLUMNS if wanted(what)]
    between, end = mark("key.separator", "\t"), mark("line.separator", "\n")
    between_headers, null = mark("headers.separator", ","), mark("null.literal", "null")
    read = {kind: _deserializer(properties, f"{kind}.deserializer") for kind in ("key", "value", "headers")}

    def cell(what: str, seen: Seen) -> bytes:
        record = seen.record
        if what == "headers":
            pairs = (f"{key}:".encode() + read["headers"](null if value is None else bytes(value))
                     for key, value in record.headers)  # fmt: skip
            return between_headers.join(pairs) or b"NO_HEADERS"
        if what in ("key", "value"):
            data = record.key if what == "key" else record.value
            return read[what](null if data is None else bytes(data))
        return _PLACES[what](seen).encode()

    def write(seen: Seen) -> bytes:
        cells = [cell(what, seen) for what in columns]
        return between.join(cells) + end if cells else b""

    return write


_COLUMNS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
_PLACES: dict[str, Callable[[Seen], str]] = {
    "timestamp": lambda seen: seen.time or "NO_TIMESTAMP",
    "partition": lambda seen: f"Partition:{seen.partition.partition}",
    "offset": lambda seen: f"Offset:{seen.record.offset}",
    "delivery": lambda seen: "Delivery:NOT_PRESENT",
    "epoch": lambda seen: "Epoch:NOT_PRESENT",
}


def _deserializer(properties: Mapping[str, str], key: str) -> Callable[[bytes], bytes]:
    name = properties.get(key)
    if name is None:
        return lambda data: data
    read = DESERIALIZERS.get(name)
    if read is None:
        log("ERROR", f"Unable to instantiate a deserializer from {name}", f"{_PACKAGE}DefaultMessageFormatter")
        return lambda data: data
    return lambda data: read(data).encode()


def logging(properties: Mapping[str, str]) -> Formatter:
    """Text, and a line of the log for each record."""
    write = default(properties)

    def both(seen: Seen) -> bytes:
        time = f"{seen.time}, " if seen.time is not None else ""
        record = seen.record
        key = "null " if record.key is None else f"{bytes(record.key).decode('utf-8', 'replace')}, "
        value = "null" if record.value is None else java_text(bytes(record.value))
        written = write(seen)
        log("INFO", f"{time}key:{key}value:{value}", f"{_PACKAGE}LoggingMessageFormatter")
        return written

    return both


def nothing(properties: Mapping[str, str]) -> Formatter:
    """Nothing: records are counted only."""
    del properties
    return lambda seen: b""


def offsets(properties: Mapping[str, str]) -> Formatter:
    """What groups committed, out of __consumer_offsets."""
    del properties
    return lambda seen: _coordinator_record(seen.record, (0, 1))


def group_metadata(properties: Mapping[str, str]) -> Formatter:
    """Groups and their members, out of __consumer_offsets."""
    del properties
    return lambda seen: _coordinator_record(seen.record, (2,))


def _coordinator_record(record: Record, wanted: tuple[int, ...]) -> bytes:
    """A record as JSON when it is of a wanted type, and nothing otherwise."""
    if record.key is None:
        return b""
    try:
        found = group_record(record.key, record.value)
    except JavaError as error:
        why = f"Could not read record at offset {record.offset} due to: {error.said}"
        raise JavaError(RUNTIME_ERROR, why) from None
    if found is None or found.kind not in wanted:
        return b""
    shown: dict[str, object] = {
        "key": {"type": found.kind, "data": plain(found.key, found.key.versions[1])}, "value": None,
    }  # fmt: skip
    if found.value is not None:
        version, value = found.value
        shown["value"] = {"version": version, "data": plain(value, version)}
    return text(shown).encode()


FORMATTERS: dict[str, Callable[[Mapping[str, str]], Formatter]] = {
    f"{_PACKAGE}DefaultMessageFormatter": default,
    f"{_PACKAGE}LoggingMessageFormatter": logging,
    f"{_PACKAGE}NoOpMessageFormatter": nothing,
    f"{_PACKAGE}OffsetsMessageFormatter": offsets,
    f"{_PACKAGE}GroupMetadataMessageFormatter": group_metadata,
}
"""Kafka's class -> what makes a formatter of its properties."""
ABSTRACT = frozenset({
    "org.apache.kafka.common.MessageFormatter", f"{_PACKAGE}ApiMessageFormatter",
    f"{_PACKAGE}CoordinatorRecordMessageFormatter",
})  # fmt: skip
"""Classes of formatters that nobody can make one of."""
