"""When each table of a pipeline was maintained, what that did, and when it is due again: ``FOLDER/maintained.json``.

Read next: maintaining.py (who maintains), maintain_options.py (how a file says when).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from moldau.model.counted import counted
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.maintain_options import again_ms, every_ms
from moldau.pipeline.spec import Maintain, Pipeline, TableSink
from moldau.pipeline.typed import read_json
from moldau.spark.tables.stores import Store

FILE = "maintained.json"
BATCHES_MOST = 1000
"""So many batches since the last time make a table due, however little time they took: each adds a file or a snapshot,
and takes the longer the more there are."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What is known of one table: when its clock began, when it was maintained last and what that did, in numbers, the
    number of the books' last line then, and the failure of the newest try, an empty text where it went well."""

    since_ms: int
    at_ms: int | None = None
    took_ms: int = 0
    did: Mapping[str, int] = field(default_factory=dict)
    failed_ms: int | None = None
    failure: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class _File:
    """What the file holds, by table."""

    tables: Mapping[str, Maintained]


class MaintainedTable(NamedTuple):
    """A table, and how it is maintained."""

    sink: TableSink
    maintain: Maintain


def tables_of(pipeline: Pipeline) -> list[TableSink]:
    """The tables that the pipeline writes; that of its dead letters has no maintenance but the default."""
    tables = [sink for sink in pipeline.sinks if isinstance(sink, TableSink)]
    letters = pipeline.dead_letters.table
    return tables if letters is None else [*tables, TableSink(table=letters)]


def places(pipeline: Pipeline, more: Sequence[str] = ()) -> Iterator[MaintainedTable]:
    """Every table that the pipeline is to maintain; of one with ``{topic}`` those of the topics that the file names,
    and of ``more``."""
    topics = sorted({*pipeline.source.topics, *more})
    for sink in tables_of(pipeline):
        if sink.maintain is not None:
            for topic in topics if "{topic}" in sink.table else [""]:
                yield MaintainedTable(replace(sink, table=sink.table.replace("{topic}", topic)), sink.maintain)


def maintained(store: Store) -> dict[str, Maintained]:
    """What the pipeline's folder says of each table; ValueError where the file cannot be read."""
    try:
        found = store.read(FILE)
        return {} if found is None else dict(read_json(_File, found).tables)
    except (OSError, RecursionError, ValueError) as error:
        raise ValueError(f"{store.uri}/{FILE} does not say when tables were maintained ({error})") from None


def keep(store: Store, tables: Mapping[str, Maintained]) -> None:
    """Have the folder say this of each table."""
    store.replace(FILE, json.dumps(asdict(_File(tables))).encode())


def next_ms(one: Maintained, maintain: Maintain) -> int:
    """When a table is due."""
    if one.failed_ms is not None:
        return one.failed_ms + again_ms(maintain)
    return (one.since_ms if one.at_ms is None else one.at_ms) + every_ms(maintain)


def is_due(one: Maintained, maintain: Maintain, now_ms: int, line: int) -> bool:
    """Whether a table is to be maintained now, with the number of the books' last line; also where the machine's clock
    was set back behind the last time."""
    last = max(one.since_ms, one.at_ms or 0, one.failed_ms or 0)
    many = one.failed_ms is None and line - one.line >= BATCHES_MOST
    return many or now_ms < last or now_ms >= next_ms(one, maintain)


def as_text(did: Mapping[str, int], took_ms: int) -> str:
    """What a maintenance did, in words."""
    if "expired" in did:  # of Iceberg, whose files nobody merges here
        parts = [f"{counted(did['expired'], 'snapshot')} expired"]
    else:
        merged = f"{counted(did.get('merged', 0), 'file')} merged into {did.get('into', 0):,}"
        parts = [merged, f"{did.get('removed', 0):,} removed"]
    return f"{', '.join(parts)}, in {took_ms / 1000:,.1f} s"


def maintenance(pipeline: Pipeline, folder: PipelineFolder) -> list[dict[str, object]]:
    """What ``status`` shows of each table that is maintained; ``told`` is that in words, an empty text of one whose
    time has not come yet."""
    try:
        known = maintained(folder.store)
    except ValueError as error:
        return [{"table": FILE, "told": str(error)}]
    last = folder.books.last()
    return [
        {"table": name, **asdict(one), "next_ms": next_ms(one, place.maintain), "told": _told(one)}
        for place in places(pipeline, () if last is None else [*last.totals.topics])
        if (one := known.get(name := place.sink.table)) is not None
    ]


def plans(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """How each table of the file is maintained, in words."""
    for sink in tables_of(pipeline):
        how = sink.maintain
        if how is None:
            yield sink.table, "not by this pipeline"
        else:
            kept = f"what was replaced is kept for {how.retention}"
            when = f"every {how.every}, or after {counted(BATCHES_MOST, 'batch', 'batches')}"
            yield sink.table, f"{when}, small files into files of {how.target}; {kept}"


def _told(one: Maintained) -> str:
    done = "" if one.at_ms is None else f"maintained at {_moment(one.at_ms)}: {as_text(one.did, one.took_ms)}"
    if one.failed_ms is None:
        return done
    before = f"; {done}" if done else ""
    return f"not maintained at {_moment(one.failed_ms)}: {one.failure}{before}"


def _moment(at_ms: int) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
    except (OSError, OverflowError, ValueError):  # of a file that somebody has edited
        return f"{at_ms} ms"
