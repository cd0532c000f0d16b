"""What ``moldau pipeline status`` shows: the books of a pipeline, for people and for scripts.

Read next: pipeline.py (the command), pipeline/books.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from moldau.admin.options import MISMATCH
from moldau.admin.output import cell, say, show, show_one
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.pipeline.books import BookTotals, Drift
    from moldau.pipeline.folder import PipelineFolder, RunState
    from moldau.pipeline.spec import Pipeline


def draw_status(pipeline: Pipeline, folder: PipelineFolder, output: str, *, verify: bool) -> int:
    """Show the books; the exit code, 4 where they do not balance."""
    from moldau.pipeline import audit, books, positions
    from moldau.pipeline.taken_back import way_on
    from moldau.pipeline.unfinished import unfinished

    state, last = folder.state(), folder.books.last()
    totals = last.totals if last is not None else books.BookTotals()
    problems = audit.problems(folder, whole=verify)
    balanced, rows = books.balances(totals), _topic_rows(totals)
    sinks = [{"sink": name, "rows": count} for name, count in totals.sinks.items()]
    begun = unfinished(pipeline, folder)
    drift, drift_more = folder.books.drift()
    runs = state is not None and state.state == "running"
    shown = [one for one in begun if one.kind != books.BATCH or not runs]  # what a run is writing is no trouble
    lines = folder.books.newest(folder.books.next()) if verify else []
    lost, back = audit.lost(lines), folder.books.taken_back()
    if verify:
        sinks = positions.verified(pipeline, totals, begun, back)
        problems += positions.differences(sinks)
    way = way_on(pipeline, folder, sinks) if verify else None
    whole = {
        "pipeline": pipeline.name,
        **_state_fields(state),
        "batch": None if last is None else last.batch,
        "read": totals.read,
        "replayed": totals.replayed,
        "rows_out": totals.rows_out,
        **_late_fields(totals),
        "dead_waiting": books.waiting(totals, back),
        "balanced": balanced and not problems,
        "problems": problems,
        **({"lost": lost, "way_on": way} if verify else {}),
        "unfinished": [one.to_text() for one in shown],
        "maintained": (tables := _maintenance(pipeline, folder)),
        "topics": rows,
        "sinks": sinks,
        "drift": [asdict(one) for one in drift],
        "drift_more": drift_more,
    }
    if not show_one(whole, output):
        say(f"{pipeline.name}: {whole['state']}" + (f" - {whole['message']}" if whole["message"] else ""))
        show(rows, output, ("topic", "ok", "left_out", "dead", "stages"))
        show(sinks, output, ("sink", "rows", *(("there",) if verify else ())))
        say(_balance(totals))
        # A producer's names stand in these, and the end of a line in one would begin a line of its own.
        for text in [
            *_late(pipeline, totals),
            *_drift(drift, drift_more),
            *(f"counted no more since a reset: {counted(rows, 'row')} of {name}" for name, rows in back.rows.items()),
            *_maintained(tables),
            *(f"unfinished: {one.to_text()}" for one in shown),
            *(f"wrong: {one}" for one in problems),
            *([] if way is None else [f"way on: {way}"]),
            *(f"lost: {one}" for one in lost),
        ]:
            say(cell(text))
        if empty := audit.gaps(lines):
            say(f"{counted(empty, 'offset')} held no record to read, as in topics with compaction or transactions")
    return 0 if whole["balanced"] else MISMATCH


def _state_fields(state: RunState | None) -> dict[str, object]:
    if state is None:
        return {"state": "new", "message": None, "since_ms": None}
    return {"state": state.state, "message": state.message, "since_ms": state.at_ms}


def _maintenance(pipeline: Pipeline, folder: PipelineFolder) -> list[dict[str, object]]:
    from moldau.pipeline.maintained import maintenance

    return maintenance(pipeline, folder)


def _maintained(tables: Sequence[Mapping[str, object]]) -> list[str]:
    """When each table was maintained last and what that did, or why it was not; nothing before the first time."""
    return [f"{one['table']}: {one['told']}" for one in tables if one["told"]]


def _balance(totals: BookTotals) -> str:
    """Both sides of the books."""
    from moldau.pipeline import books

    sides = f"{totals.read:,} read + {totals.replayed:,} replayed"
    there = [books.outcomes(totals, one) for one in ("ok", "skip", "dlq")]
    verb = "=" if books.balances(totals) else "DIFFERS FROM"
    return f"{sides} {verb} {there[0]:,} ok + {there[1]:,} left out + {counted(there[2], 'dead letter')}"


def _late_fields(totals: BookTotals) -> dict[str, object]:
    names = ("late", "late_since", "late_first", "newest_ms", "newest_record")
    return {name: getattr(totals, name) for name in names}


def _late(pipeline: Pipeline, totals: BookTotals) -> list[str]:
    if pipeline.late is None and not totals.late:
        return []
    told = f"{totals.late:,} of these came late"
    if totals.newest_ms is None:
        return [told]
    told += f", the newest time being {_moment(totals.newest_ms)}"
    if totals.newest_record is None:
        return [told]
    told += f", of {totals.newest_record}"
    if totals.late_first is not None:
        told += f"; {totals.late_since:,} of them since that was seen, {totals.late_first} the first"
    return [told, *_far_ahead(pipeline, totals)]


def _far_ahead(pipeline: Pipeline, totals: BookTotals) -> list[str]:
    """What makes late, and how it is bounded, where the newest time is far ahead of its record's own."""
    from moldau.pipeline.durations import seconds

    late = pipeline.late
    if late is None or late.ahead is not None or totals.newest_ms is None or totals.newest_stamped_ms is None:
        return []
    ahead_ms = totals.newest_ms - totals.newest_stamped_ms
    if ahead_ms <= round(seconds(late.after) * 1000):
        return []
    why = (
        f"{totals.newest_record}: {late.column} is {_span(ahead_ms)} ahead of the record's own timestamp, and whatever"
    )
    return [
        f"{why} follows is late by it: `ahead: 1h` in the file's `late` has `on_error` say what becomes of such"
        " records, and counts anew"
    ]


def _span(ms: int) -> str:
    """A span of time in the unit that suits it."""
    for name, unit in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        if ms >= 2 * unit:
            return f"{ms // unit:,} {name}s"
    return f"{ms:,} ms"


def _drift(drift: Sequence[Drift], more: int) -> list[str]:
    told = [f"drift: {one.what} in {counted(one.records, 'record')}, first at {one.first}" for one in drift]
    return [*told, *([f"drift: other than these in {counted(more, 'more record')}"] if more else [])]


def _moment(at_ms: int) -> str:
    """A time as text; that of a record may be one that Python's years do not reach."""
    from datetime import UTC, datetime, timedelta

    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms:,} ms since 1970"
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _topic_rows(totals: BookTotals) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for topic, of in sorted(totals.topics.items()):
        stages = {name: count for name, count in of.items() if name != "ok"}
        rows.append(
            {
                "topic": topic,
                "ok": of.get("ok", 0),
                "left_out": sum(count for name, count in stages.items() if name.startswith("skip:")),
                "dead": sum(count for name, count in stages.items() if name.startswith("dlq:")),
                "stages": stages,
            }
        )
    return rows
