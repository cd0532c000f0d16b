"""Records as commands print and read them: text in columns, JSON lines, bare values, hexadecimal dumps.

Keys, values and headers are bytes. As text they are UTF-8, and what is none, or would move a terminal's cursor, is
escaped; JSON has such bytes in base64 under ``key_base64`` and so on, and ``produce --format json`` reads it back.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.admin.main import fail
from moldau.model.counted import counted
from moldau.model.named import NamedTuple

if TYPE_CHECKING:
    from moldau.model import TopicPartition
    from moldau.wire.batch import Record

FORMATS = ("text", "json", "value", "hex")
COLUMNS = ("timestamp", "topic", "partition", "offset", "key", "headers", "value")
DUMP_WIDTH = 16
NO_TIMESTAMP = -1
"""What stands for the timestamp of a record that has none."""


class RecordToWrite(NamedTuple):
    """A record to write."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def formatter(output: str, columns: Sequence[str]) -> Callable[[TopicPartition, Record], bytes]:
    """A function that shows records in a format, each with the end of its line."""

    def show(partition: TopicPartition, record: Record) -> bytes:
        if output == "value":
            return (record.value or b"") + b"\n"
        if output == "json":
            return json.dumps(as_json(partition, record)).encode() + b"\n"
        if output == "hex":
            return dump(partition, record).encode() + b"\n"
        return "\t".join(_column(name, partition, record) for name in columns).encode() + b"\n"

    return show


def _column(name: str, partition: TopicPartition, record: Record) -> str:
    match name:
        case "timestamp":
            return time_text(record.timestamp)
        case "topic":
            return partition.topic
        case "partition":
            return str(partition.partition)
        case "offset":
            return str(record.offset)
        case "key":
            return shown(record.key)
        case "headers":
            return ",".join(f"{shown(key.encode())}={shown(value)}" for key, value in record.headers) or "-"
    return shown(record.value)


def shown(data: bytes | None) -> str:
    """Bytes as one line of text; ``null`` when there are none."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        return "".join(one if " " <= one <= "~" and one != "\\" else f"\\x{ord(one):02x}" for one in text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def time_text(timestamp_ms: int) -> str:
    """A timestamp in local time with its zone; ``-`` when there is none."""
    from datetime import datetime

    if timestamp_ms < 0:
        return "-"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"@{timestamp_ms}"


def as_json(partition: TopicPartition, record: Record) -> Mapping[str, object]:
    """A record as an object of JSON."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_bytes("key", record.key),
        **_bytes("value", record.value),
        "headers": [{"key": key, **_bytes("value", value)} for key, value in record.headers],
    }


def _bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def dump(partition: TopicPartition, record: Record) -> str:
    """A record with its bytes in hexadecimal and as text beside."""
    lines = [f"{partition} offset {record.offset}  {time_text(record.timestamp)}"]
    parts = [("key", record.key), ("value", record.value)]
    parts += [(f"header {shown(key.encode())}", value) for key, value in record.headers]
    for name, data in parts:
        lines.append(f"{name}: {'null' if data is None else counted(len(data), 'byte')}")
        for at in range(0, len(data or b""), DUMP_WIDTH):
            row = (data or b"")[at : at + DUMP_WIDTH]
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            lines.append(f"  {at:08x}  {row.hex(' '):{3 * DUMP_WIDTH - 1}}  {text}")
    return "\n".join(lines)


# ---- reading


def read_json(line: bytes) -> RecordToWrite:
    """A line as ``as_json`` makes it, or a part of that; ValueError says what is wrong with it."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("no JSON object")
    headers = given.get("headers", [])
    if not isinstance(headers, list) or not all(isinstance(one, dict) for one in headers):
        raise ValueError("headers are no list of objects with key and value")
    unknown = set(given) - {*COLUMNS, "key_base64", "value_base64"}
    if unknown:
        raise ValueError(f"it has {sorted(unknown)[0]!r}, which no record has")
    return RecordToWrite(
        _data(given, "key"),
        _data(given, "value"),
        [(_text(one, "key"), _data(one, "value")) for one in headers],
        _number(given, "partition"),
        None if given.get("timestamp") == NO_TIMESTAMP else _number(given, "timestamp"),
    )


def _data(given: Mapping[str, object], name: str) -> bytes | None:
    packed = given.get(f"{name}_base64")
    if isinstance(packed, str):
        return base64.b64decode(packed, validate=True)
    plain = given.get(name)
    if plain is None or isinstance(plain, str):
        return None if plain is None else plain.encode()
    return json.dumps(plain).encode()


def _text(given: Mapping[str, object], name: str) -> str:
    if not isinstance(given.get(name), str):
        raise ValueError(f"a header has no {name}")
    return str(given[name])


def _number(given: Mapping[str, object], name: str) -> int | None:
    number = given.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**62:
        raise ValueError(f"{name} is no number that a record can have: {number!r}")
    return number


def readable(place: TopicPartition, records: Iterator[Record]) -> Iterator[Record]:
    """The records; a batch that cannot be read ends the command, which says how to read what is behind it."""
    from moldau.client.reading import UnreadableBatch

    try:
        yield from records
    except UnreadableBatch as error:
        sys.stdout.flush()
        mend = f"`moldau consume {place.topic}:{place.partition} --from {error.next_offset}` reads what is behind it"
        fail(f"{place}: {error}; {mend}")
