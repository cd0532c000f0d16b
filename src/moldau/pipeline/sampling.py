"""What fields the newest JSON records of a topic have, for a file to begin with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.spark.start import EARLIEST, LATEST
from moldau.wire.batch import headers, records

_RECORDS = 200
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


def fields_of(bootstrap: str, topic: str) -> dict[str, str]:
    """Names and types of the fields in the newest records; none where they are no JSON objects.

    Refused when there is no such topic, OSError when nobody answers.
    """
    with Cluster(bootstrap) as cluster:
        there = [TopicPartition(topic, number) for number in cluster.topics([topic])[topic].partitions]
        starts, ends = (cluster.offsets(dict.fromkeys(there, which)) for which in (EARLIEST, LATEST))
        values: list[bytes | None] = []
        for source in there:
            end = ends[source].offset
            begin = max(starts[source].offset, end - _RECORDS)
            for fetched in cluster.fetch_range(source, begin, end):
                values += values_of(fetched.records)
        return types_of(values)


def values_of(data: memoryview) -> list[bytes | None]:
    """The values of all records in whole batches, without those of control batches."""
    found: list[bytes | None] = []
    for at, header in headers(data):
        if not header.is_control:
            found += [record.value for record in records(data, at)]
    return found


def types_of(values: Iterable[bytes | None]) -> dict[str, str]:
    """The fields of JSON objects, with a type that holds all values that were seen; ``string`` where they differ."""
    found: dict[str, str] = {}
    for value in values:
        try:
            one = json.loads(value or b"null")
        except ValueError:
            continue
        if isinstance(one, Mapping):
            for name, field in one.items():
                kind = type_of(field)
                if kind is not None:
                    found[name] = kind if name not in found else wider(found[name], kind)
    return found


def type_of(value: object) -> str | None:
    """The type word of a JSON value, None for null, which tells nothing."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "timestamp" if _TIME.fullmatch(value) else "string"
    if isinstance(value, list):
        kinds = {kind for one in value if (kind := type_of(one)) is not None}
        return f"array<{kinds.pop() if len(kinds) == 1 else 'string'}>"
    assert isinstance(value, Mapping), "JSON has no other kinds"
    inner = [(name, type_of(one) or "string") for name, one in value.items() if re.fullmatch(r"\w+", name)]
    return f"struct<{', '.join(f'{name}: {kind}' for name, kind in inner)}>" if inner else "map<string, string>"


def wider(one: str, other: str) -> str:
    """A type that holds values of both."""
    if one == other:
        return one
    return "double" if {one, other} == {"long", "double"} else "string"
