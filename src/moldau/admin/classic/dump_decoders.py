"""What `kafka-dump-log.sh` prints of a record's key and value: as text, or as records of the metadata log; and of
control records. Read next: dump_coordinators.py, dump_remote_log.py."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from math import isfinite

from moldau.admin.classic.dump_records import INVALID_RECORD
from moldau.admin.classic.dump_streams import KAFKA_EXCEPTION, UNDERFLOW
from moldau.admin.classic.dump_structs import fields_version, read_message
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_values import java_decimal, java_text
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.clusterdata.metadata import CONTROL, kind_of
from moldau.wire.batch import ControlType, Record
from moldau.wire.records.as_json import plain, text
from moldau.wire.records.framing import FRAME_VERSION, METADATA
from moldau.wire.schema import Message

Decoder = Callable[[Record], tuple[str | None, str | None]]


def strings(record: Record) -> tuple[str | None, str | None]:
    """Key and value as text."""
    return _string(record.key), _string(record.value)


def by_classes(key: str, value: str) -> Decoder:
    """Key and value as these decoders of Kafka's show them; JavaError for another class.

    What the DefaultDecoder leaves as bytes is shown as text: Java shows the name of an array.
    """
    of_key, of_value = _class(key), _class(value)
    return lambda record: (
        None if record.key is None else of_key(record.key),
        None if record.value is None else of_value(record.value),
    )


def _class(name: str) -> Callable[[bytes], str | None]:
    if name in CLASSES:
        return CLASSES[name]
    if name == f"{_DECODERS}Decoder":
        cause = JavaError("java.lang.NoSuchMethodException", f"{name}.<init>()")
        raise JavaError(KAFKA_EXCEPTION, f"Could not find a public no-argument constructor for {name}", cause)
    if name.startswith(_SERIALIZATION) and name.removeprefix(_SERIALIZATION) in _DESERIALIZERS:
        raise JavaError("java.lang.ClassCastException", f"class {name}")
    cause = JavaError("java.lang.ClassNotFoundException", name)
    raise JavaError("java.lang.RuntimeException", "Failed to load decoder class", cause)


_SERIALIZATION = "org.apache.kafka.common.serialization."
_DESERIALIZERS = frozenset(
    f"{kind}Deserializer"
    for kind in (
        "Boolean", "ByteArray", "ByteBuffer", "Bytes", "Double", "Float", "Integer", "List", "Long", "Short", "String",
        "UUID", "Void",
    )
)  # fmt: skip
"""What is often asked for instead of a decoder."""


def _whole(code: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        try:
            return str(struct.unpack_from(f">{code}", data)[0])
        except struct.error:
            raise JavaError("java.nio.BufferUnderflowException", None) from None

    return read


def _string(data: bytes | None) -> str | None:
    return None if data is None else java_text(data)


_DECODERS = "org.apache.kafka.tools.api."
CLASSES: dict[str, Callable[[bytes], str | None]] = {
    f"{_DECODERS}DefaultDecoder": _string,
    f"{_DECODERS}StringDecoder": _string,
    f"{_DECODERS}IntegerDecoder": _whole("i"),
    f"{_DECODERS}LongDecoder": _whole("q"),
}


def metadata(record: Record) -> tuple[str | None, str | None]:
    """A record of the metadata log."""
    value = record.value or b""
    try:
        version, found = framed(value, METADATA)
        data = plain(found, fields_version(type(found), version))
        shown = text({"type": kind_of(found), "version": version, "data": data})
        number = data.get("value")
        return None, _with_java_number(shown, number) if isinstance(number, float) else shown
    except JavaError as error:
        return None, f"Error at {record.offset}, skipping. {error.said}"


def framed(value: bytes, kinds: Mapping[int, type[Message]]) -> tuple[int, Message]:
    """Version and message of a value that is led by its type among these; JavaError when it is none."""
    view = memoryview(value)
    frame, at = _frame_part(view, 0, "frame version")
    if frame != FRAME_VERSION:
        how = f"due to unknown frame version {frame}(only frame version {FRAME_VERSION} is supported)"
        if not frame:
            why = "Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not supported."
            how = f"with frame version 0. {why}"
        raise JavaError(_UNREADABLE, f"Could not deserialize metadata record {how}")
    kind, at = _frame_part(view, at, "type")
    version, at = _frame_part(view, at, "version")
    cls = kinds.get(kind)
    if cls is None:
        raise JavaError(_UNREADABLE, f"{PACKAGE}UnsupportedVersionException: Unknown metadata id {kind}")
    try:
        found, size = read_message(cls, value[at:], version)
    except JavaError:
        raise JavaError(_UNREADABLE, f"Failed to deserialize record with type {kind}") from None
    if left := len(value) - at - size:
        raise JavaError(_UNREADABLE, f"Found {left} byte(s) of garbage after {kind}")
    return version, found


def _frame_part(view: memoryview, at: int, what: str) -> tuple[int, int]:
    """An int16 out of the varint of an int32, and the position after it: negative ones lose their upper half."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(view):
            break
        byte = view[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            number = (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000
            if number > _SHORT_MAX:
                raise JavaError(_UNREADABLE, f"Value for {what} was too large.")
            return (number + 0x8000 & 0xFFFF) - 0x8000, at
    raise JavaError(_UNREADABLE, f"Error while reading {what}")


_SHORT_MAX = 0x7FFF
_UNREADABLE = "org.apache.kafka.server.common.serialization.MetadataParseException"


def _with_java_number(shown: str, number: float) -> str:
    """The text of a record with its only decimal number, ``value``, as Java writes it."""
    java = java_decimal(number)
    return re.sub(
        r'(?<!\\)"value":[^,}]+', f'"value":{java if isfinite(number) else f"{chr(34)}{java}{chr(34)}"}', shown
    )


def control_record(record: Record) -> str:
    """What a control record says, after a blank; JavaError when it is none."""
    if record.key is None:
        raise _null("duplicate", "key")
    if len(record.key) < 4:
        least = f"Must have at least 4 bytes, but found only {len(record.key)}"
        raise JavaError(INVALID_RECORD, f"Invalid value size found for control record key. {least}")
    version, kind = struct.unpack_from(">hh", record.key)
    if version < 0:
        raise _wrong_version("control record", version)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return f" endTxnMarker: {ControlType(kind).name} coordinatorEpoch: {_coordinator_epoch(record.value)}"
    known = CONTROL.get(kind)
    if known is None:
        return f" controlType: UNKNOWN({kind})"
    if record.value is None:
        raise _null("slice", "data")
    name, message = known
    return f" {name} {_control_message(message, record.value)}"


def _control_message(kind: type[Message], data: bytes) -> str:
    """A control record's value, which Kafka's tool reads as the first version, and shows as the one that it names."""
    found, _ = read_message(kind, data, kind.versions[0])
    (version,) = struct.unpack_from(">h", data)
    return text(plain(found, max(version, kind.versions[0])))


def _coordinator_epoch(data: bytes | None) -> int:
    if data is None:
        raise _null("getShort", "value")
    if len(data) < 2:
        raise JavaError(UNDERFLOW, None)
    version = int.from_bytes(data[:2], signed=True)
    if version < 0:
        raise _wrong_version("end transaction marker", version)
    if len(data) < 6:
        raise JavaError(UNDERFLOW, None)
    return int.from_bytes(data[2:6], signed=True)


def _wrong_version(what: str, version: int) -> JavaError:
    return JavaError(INVALID_RECORD, f"Invalid version found for {what}: {version}. May indicate data corruption")


def _null(method: str, name: str) -> JavaError:
    text = f'Cannot invoke "java.nio.ByteBuffer.{method}()" because "{name}" is null'
    return JavaError("java.lang.NullPointerException", text)
