"""What the newest records of a topic look like, for a file to begin with: their format, fields and types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from moldau.client.client import Refused
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.pipeline.columns import RESERVED
from moldau.pipeline.spec import ValueFormat
from moldau.spark.start import EARLIEST, LATEST
from moldau.wire.batch import headers, records

_RECORDS = 200
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_INNER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REGISTRY_PREFIX = 5
_DIGITS_MOST = 38


@dataclass(frozen=True, slots=True)
class Sample:
    """What was found: ``fields`` (JSON only) with type words that hold every value seen; ``left_out`` says of a field
    why it has none. ``seen`` counts the records with a value."""

    format: ValueFormat
    seen: int
    fields: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    has_registry_prefix: bool = False
    """Whether all values begin as those that a serializer with a schema registry writes."""


def sample_topic(cluster: Cluster, topic: str) -> Sample:
    """What a topic's newest records look like. Refused when there is no such topic, OSError when nobody answers."""
    known = cluster.topics([topic]).get(topic)
    if known is None:
        raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r}")
    there = [TopicPartition(topic, number) for number in known.partitions]
    starts, ends = (cluster.offsets(dict.fromkeys(there, which)) for which in (EARLIEST, LATEST))
    values: list[bytes | None] = []
    for source in there:
        end = ends[source].offset
        begin = max(starts[source].offset, end - _RECORDS)
        for fetched in cluster.fetch_range(source, begin, end):
            values += values_of(fetched.records)
    return sample_of(values)


def values_of(data: memoryview) -> list[bytes | None]:
    """The values of all records in whole batches, without those of control batches."""
    found: list[bytes | None] = []
    for at, header in headers(data):
        if not header.is_control:
            found += [record.value for record in records(data, at)]
    return found


def sample_of(values: Iterable[bytes | None]) -> Sample:
    """JSON where any value is an object, text where all are UTF-8 without control characters, else raw bytes."""
    there = [value for value in values if value is not None]
    objects = [one for value in there if isinstance(one := _parsed(value), Mapping)]
    if not objects:
        is_text = bool(there) and all(map(_is_text, there))
        prefixed = bool(there) and all(one[:1] == b"\0" and len(one) > _REGISTRY_PREFIX for one in there)
        return Sample(ValueFormat.TEXT if is_text else ValueFormat.RAW, len(there), has_registry_prefix=prefixed)
    fields: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(name for one in objects for name in one):
        kind = kind_of([one[name] for one in objects if name in one])
        if name.lower() in RESERVED:
            left_out[name] = "a name of the pipeline's own"
        elif not name.strip() or not name.isprintable() or "`" in name:
            left_out[name] = "a name that no column can have"
        elif name.lower() in {other.lower() for other in fields}:
            left_out[name] = "differs from another field by case alone"
        elif kind is None:
            left_out[name] = "null, empty, or of different kinds in the records that were looked at"
        else:
            fields[name] = kind
    if not fields:
        return Sample(ValueFormat.TEXT, len(there), left_out=left_out)
    return Sample(ValueFormat.JSON, len(there), fields, left_out)


def kind_of(values: Sequence[object]) -> str | None:
    """A type word that holds every one of some JSON values; None where nothing tells, or none holds all."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    if all(isinstance(one, str) for one in there):
        return "timestamp" if all(_is_time(str(one)) for one in there) else "string"
    if all(isinstance(one, bool) for one in there):
        return "boolean"
    if any(isinstance(one, bool) for one in there):
        return None
    if all(isinstance(one, (int, float)) for one in there):
        return _number([one for one in there if isinstance(one, (int, float))])
    if all(isinstance(one, list) for one in there):
        inner = kind_of([each for one in there if isinstance(one, list) for each in one])
        return None if inner is None else f"array<{inner}>"
    if all(isinstance(one, Mapping) for one in there):
        return _object([one for one in there if isinstance(one, Mapping)])
    return None


def _number(values: Sequence[float]) -> str:
    whole = [one for one in values if isinstance(one, int)]
    if len(whole) < len(values):
        return "double"
    if all(-(1 << 63) <= one < 1 << 63 for one in whole):
        return "long"
    return f"decimal({_DIGITS_MOST},0)" if all(abs(one) < 10**_DIGITS_MOST for one in whole) else "double"


def _object(values: Sequence[Mapping[str, object]]) -> str | None:
    """A struct where all names can be a struct's, else a map of a type that holds all values."""
    names = list(dict.fromkeys(name for one in values for name in one))
    kinds = {name: kind_of([one[name] for one in values if name in one]) for name in names}
    distinct = len({name.lower() for name in names}) == len(names)
    if names and distinct and all(_INNER_NAME.fullmatch(name) for name in names):
        inner = [f"{name}: {kind}" for name, kind in kinds.items() if kind is not None]
        return f"struct<{', '.join(inner)}>" if inner else None
    value = kind_of([each for one in values for each in one.values()])
    return None if value is None else f"map<string, {value}>"


def _parsed(value: bytes) -> object:
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(one.isprintable() or one.isspace() for one in text)
