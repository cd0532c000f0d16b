"""Tests of a pipeline beside its file: records in, rows out, without a cluster.

A test file is YAML, a list of cases::

    - name: an order without an amount is a dead letter
      records:
        - {value: {id: 1, amount: 2.5}}
        - {value: "no JSON", topic: orders, partition: 0, offset: 7, key: a, headers: {source: web}}
      rows: [{id: 1, double: 5.0}]
      dead: [{stage: decode, offset: 7}]
      left_out: 0

A value that is a mapping is encoded as the file's format says; ``value_base64`` gives bytes. Of each row, dead letter
and refusal only the named columns are compared; rows are compared without regard to their order. Read next: stages.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from moldau.pipeline import columns as names
from moldau.pipeline import dedup, stages
from moldau.pipeline.decode.encoding import Encode, NotEncoded, as_json
from moldau.pipeline.lateness import checks_of
from moldau.pipeline.places import FileProblem, NotYaml, Value, parse
from moldau.pipeline.reading import did_you_mean
from moldau.pipeline.spec import OnError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.pipeline.decode import Decoding

_RECORD = ("value", "value_base64", "key", "topic", "partition", "offset", "timestamp", "headers")
_CASE = ("name", "records", "rows", "dead", "left_out", "refused")


class BadTest(Exception):
    """A test file that cannot be read; ``problems`` say where."""

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        super().__init__("; ".join(one.message for one in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Case:
    """A test: what goes in, and what is expected; None is not looked at. ``encode`` makes values of mappings."""

    name: str
    records: Sequence[Mapping[str, object]]
    rows: Sequence[Mapping[str, object]] | None = None
    dead: Sequence[Mapping[str, object]] | None = None
    left_out: int | None = None
    refused: Mapping[str, object] | None = None
    encode: Encode = as_json


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What became of a case; without ``differences`` it passed."""

    case: Case
    differences: Sequence[str] = field(default_factory=list)


def read_cases(path: Path) -> list[Case]:
    """The cases of a test file; BadTest with every problem in it."""
    try:
        root, problems = parse(path.read_text(encoding="utf-8"), {})
    except NotYaml as error:
        raise BadTest([error.problem]) from None
    cases = []
    for at, one in enumerate(root.data if isinstance(root.data, tuple) else ()):
        case = _case(one, at, problems)
        if case is not None:
            cases.append(case)
    if not isinstance(root.data, tuple) or not root.data:
        problems.append(FileProblem(root.place, "a list of cases is expected: '- name: ...'"))
    if problems:
        raise BadTest(problems)
    return cases


def _case(value: Value, at: int, problems: list[FileProblem]) -> Case | None:
    if not isinstance(value.data, Mapping):
        problems.append(FileProblem(value.place, "a case is a mapping with 'records' and what is expected of them"))
        return None
    _refuse_unknown(value, _CASE, problems)
    records = value.data.get("records")
    if records is None or not isinstance(records.data, tuple):
        problems.append(FileProblem(value.place, "'records' is missing, or no list"))
        return None
    for record in records.data:
        _refuse_unknown(record, _RECORD, problems)
    _refuse_wrong(records.data, problems)
    plain = value.plain()
    assert isinstance(plain, dict), "a mapping stays one"
    for name in ("rows", "dead"):
        found = plain.get(name)
        if found is not None and not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
            problems.append(FileProblem(value.data[name].place, f"{name} is a list of mappings"))
            return None
    return Case(
        name=str(plain.get("name") or f"case {at + 1}"),
        records=plain["records"],
        rows=plain.get("rows"),
        dead=plain.get("dead"),
        left_out=plain.get("left_out"),
        refused=plain.get("refused"),
    )


def _refuse_wrong(records: Sequence[Value], problems: list[FileProblem]) -> None:
    """Say what no record of a topic can have, and which two are one."""
    seen: dict[tuple[object, ...], int] = {}
    for at, record in enumerate(records):
        if not isinstance(record.data, Mapping):
            continue
        given = {name: one.data for name, one in record.data.items()}
        for name, bits in (("partition", 31), ("offset", 63)):
            value = given.get(name, 0)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
                why = f"{name}: a whole number from 0 on is expected, not {value!r}"
                problems.append(FileProblem(record.data[name].place, why))
        if "timestamp" in given and not _is_time(given["timestamp"]):
            why = f"timestamp: a time like 2026-11-23T02:00:00Z is expected, or ms, not {given['timestamp']!r}"
            problems.append(FileProblem(record.data["timestamp"].place, why))
        if "value_base64" in given:
            try:
                base64.b64decode(str(given["value_base64"]), validate=True)
            except ValueError:
                problems.append(FileProblem(record.data["value_base64"].place, "value_base64: it is no Base64"))
        if "offset" not in given:
            continue
        place = (str(given.get("topic")), str(given.get("partition", 0)), str(given["offset"]))
        other = seen.setdefault(place, at)
        if other != at:
            why = f"record {at + 1} has partition {place[1]} and offset {place[2]}, as record {other + 1}: no two can"
            problems.append(FileProblem(record.place, why))


def _is_time(value: object) -> bool:
    if isinstance(value, bool):
        return False
    try:
        return _time(value) is not None
    except (OverflowError, ValueError, OSError):
        return False


def _refuse_unknown(value: Value, known: Sequence[str], problems: list[FileProblem]) -> None:
    if not isinstance(value.data, Mapping):
        problems.append(FileProblem(value.place, "a mapping is expected"))
        return
    problems += [
        FileProblem(value.keys[name], f"{name!r} is not known here. {did_you_mean(name, known)}")
        for name in value.data
        if name not in known
    ]


def run_case(
    spark: SparkSession, pipeline: Pipeline, decoding: Decoding, case: Case, folder: Path | None
) -> CaseOutcome:
    """Take a case's records through the stages and compare."""
    from pyspark.sql import functions as fn

    topic = pipeline.source.topics[0] if pipeline.source.topics else "topic"
    try:
        table = as_records(case.records, topic, case.encode)
    except NotEncoded as error:
        return CaseOutcome(case, [str(error)])
    records = spark.createDataFrame(table)
    rows = stages.judged(records, decoding, pipeline.decode.on_error, checks_of(pipeline))
    if pipeline.dedup is not None:
        rows = dedup.judged(rows, pipeline.dedup)
    rows = rows.persist()
    try:
        places = [fn.col(name).alias(name.removeprefix("_")) for name in (*names.PLACES, names.VALUE)]
        told = [fn.col(name).alias(name.removeprefix("_")) for name in (names.OUTCOME, names.STAGE, names.REASON)]
        bad = [
            row.asDict(True) for row in rows.where(fn.col(names.OUTCOME) != stages.OK).select(*places, *told).collect()
        ]
        refused = [one for one in bad if one["outcome"] in (OnError.PAUSE.value, OnError.FAIL.value)]
        dead = [one for one in bad if one["outcome"] == OnError.DLQ.value]
        left_out = [one for one in bad if one["outcome"] == OnError.SKIP.value]
        told_columns = rows.select(*places, *told).columns
        if case.refused is not None and (wrong := unknown("refused", [case.refused], told_columns)):
            return CaseOutcome(case, wrong)
        if refused or case.refused is not None:
            return CaseOutcome(case, _refusal(case, refused))
        ok = rows.where(fn.col(names.OUTCOME) == stages.OK).drop(*names.INNER)
        made = stages.transformed(ok, pipeline.steps, folder)
        columns, out = made.columns, [row.asDict(True) for row in made.collect()]
    finally:
        rows.unpersist()
    differences = []
    if case.rows is not None:
        differences += unknown("rows", case.rows, columns) or compared("rows", case.rows, out)
    if case.dead is not None or dead:
        differences += unknown("dead", case.dead or [], told_columns) or compared("dead", case.dead or [], dead)
    if case.left_out is not None and case.left_out != len(left_out):
        differences.append(f"left_out: expected {case.left_out}, found {len(left_out)}: {_reasons(left_out)}")
    return CaseOutcome(case, differences)


def _refusal(case: Case, refused: Sequence[Mapping[str, object]]) -> list[str]:
    if case.refused is None:
        return [f"the batch was refused ({refused[0]['outcome']}): {_reasons(refused)}"]
    if not refused:
        return [f"refused: expected {_shown(case.refused)}, and the batch was taken"]
    if any(_matches(case.refused, one) for one in refused):
        return []
    return [f"refused: expected {_shown(case.refused)}, found {_reasons(refused)}"]


def as_records(records: Sequence[Mapping[str, object]], topic: str, encode: Encode = as_json) -> pa.Table:
    """A case's records as the source gives them; NotEncoded where a value is none of the schema's."""
    rows = []
    for at, given in enumerate(records):
        headers = given.get("headers") or {}
        assert isinstance(headers, Mapping), "headers are a mapping"
        rows.append(
            {
                "key": _bytes(given.get("key")),
                "value": _value(given, at, encode),
                "topic": str(given.get("topic", topic)),
                "partition": int(str(given.get("partition", 0))),
                "offset": int(str(given.get("offset", at))),
                "timestamp": _time(given.get("timestamp")),
                "headers": [{"key": str(name), "value": _bytes(one)} for name, one in headers.items()],
            }
        )
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("headers", pa.list_(header)),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)


def unknown(what: str, expected: Sequence[Mapping[str, object]], columns: Sequence[str]) -> list[str]:
    """The names that are expected and are no columns: what is asked of them nothing can be."""
    wanted = dict.fromkeys(name for one in expected for name in one)
    return [
        f"{what}: there is no column {name!r}. {did_you_mean(name, columns)}" for name in wanted if name not in columns
    ]


def compared(what: str, expected: Sequence[Mapping[str, object]], found: Sequence[Mapping[str, object]]) -> list[str]:
    """What differs, without regard to order; only the columns that are expected are looked at."""
    left, missing = list(found), []
    for one in expected:
        match = next((other for other in left if _matches(one, other)), None)
        if match is None:
            missing.append(f"{what}: expected and not found: {_shown(one)}")
        else:
            left.remove(match)
    seen = sorted({name for one in expected for name in one}) or None
    more = [
        f"{what}: found and not expected: {_shown(one if seen is None else {name: one.get(name) for name in seen})}"
        for one in left
    ]
    return missing + more


def _matches(expected: Mapping[str, object], found: Mapping[str, object]) -> bool:
    return all(name in found and _equal(one, found[name]) for name, one in expected.items())


def _equal(expected: object, found: object) -> bool:
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return _matches(expected, found)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_equal, expected, found))
    if isinstance(found, (bytes, bytearray)):
        return isinstance(expected, str) and expected.encode() == bytes(found)
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return abs(expected - found) <= 1e-9 * max(1.0, abs(expected), abs(found))
    if expected is None or found is None:
        return expected is found
    if isinstance(found, datetime):
        return _time(expected) == (found if found.tzinfo else found.replace(tzinfo=UTC))
    if isinstance(found, Decimal):
        return _decimal(expected) == found
    if isinstance(found, (str, int, float)):  # a text is no number, nor the other way round
        return isinstance(found, str) and isinstance(expected, str) and expected == found
    return str(expected) == str(found)


def _decimal(value: object) -> Decimal | None:
    try:
        return Decimal(str(value))
    except ArithmeticError:
        return None


def _value(given: Mapping[str, object], at: int, encode: Encode) -> bytes | None:
    if "value_base64" in given:
        return base64.b64decode(str(given["value_base64"]))
    value = given.get("value")
    if isinstance(value, dict):
        try:
            return encode(value)
        except NotEncoded as error:
            raise NotEncoded(f"record {at + 1}: {error}") from None
    return as_json(value) if isinstance(value, list) else _bytes(value)


def _bytes(value: object) -> bytes | None:
    return None if value is None else str(value).encode()


def _time(value: object) -> datetime | None:
    if value is None:
        return datetime(2000, 1, 1, tzinfo=UTC)
    if isinstance(value, (int, float)):
        return datetime.fromtimestamp(value / 1000, UTC)
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _shown(one: Mapping[str, object]) -> str:
    def plain(value: object) -> str:
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    return json.dumps(one, default=plain)


def _reasons(found: Sequence[Mapping[str, object]]) -> str:
    return "; ".join(
        f"{one['topic']}-{one['partition']}@{one['offset']} {one['stage']}: {one['reason']}" for one in found[:3]
    )
