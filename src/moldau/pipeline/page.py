"""The books of a pipeline as a page with plots: one file of HTML, which loads nothing from elsewhere.

All plots over batches have one scale and one left edge, so that what stands above each other is of the same batch.
Read next: plots.py (how they are drawn), books.py (what is shown).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from moldau.model.counted import counted
from moldau.pipeline import books, positions
from moldau.pipeline.books import BookLine, BookTotals
from moldau.pipeline.feed.positions import FeedLag, feed_lag
from moldau.pipeline.folder import PipelineFolder, RunState
from moldau.pipeline.maintained import maintenance
from moldau.pipeline.plots import Series, across, bars, steps
from moldau.pipeline.positions import PipelineLag
from moldau.pipeline.said import first_line
from moldau.pipeline.spec import Pipeline

LINES_MOST = 400
"""Batches in the plots: more bars than that are thinner than a point."""
_OK, _OUT, _DEAD, _TIME, _LAG = "#4e79a7", "#f28e2b", "#d62728", "#59a14f", "#b07aa1"
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1000px; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
p { margin: .3rem 0; } .good { color: #1a7f37; } .bad { color: #c62828; } .note { color: #666; }
table { border-collapse: collapse; } td, th { padding: .15rem 1.2rem .15rem 0; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #333; }
"""


@dataclass(frozen=True, slots=True)
class PageContents:
    """What the page is made of; ``lags`` is None where the cluster, or the table, could not be asked."""

    name: str
    state: RunState | None
    lines: Sequence[BookLine]
    lags: Sequence[PipelineLag] | FeedLag | None
    why_no_lags: str = ""
    maintenance: Sequence[Mapping[str, object]] = ()


def shown_of(pipeline: Pipeline, folder: PipelineFolder) -> PageContents:
    """What there is to show now; BrokenLine when the books cannot be read."""
    lags: Sequence[PipelineLag] | FeedLag | None = None
    why = ""
    try:
        lags = positions.lags(pipeline, folder) if pipeline.source.feed is None else feed_lag(pipeline, folder)
    except Exception as error:  # of the cluster, or the table: the books are shown without it, and the page says why
        why = first_line(error)
    tables = maintenance(pipeline, folder)
    return PageContents(pipeline.name, folder.state(), folder.books.newest(LINES_MOST), lags, why, tables)


def page(shown: PageContents, now_ms: int) -> str:
    """The page, as of a time."""
    last = shown.lines[-1] if shown.lines else None
    totals = BookTotals() if last is None else last.totals
    parts = [
        f"<h1>{escape(shown.name)}</h1>",
        _headline(shown, totals),
        _batches(shown.lines) if shown.lines else '<p class="note">No batch is in the books yet.</p>',
        _lags(shown),
        _sinks(totals),
        _maintenance(shown.maintenance),
        f'<p class="note">Written at {_clock(now_ms, whole=True)} UTC from the books; times are UTC.</p>',
    ]
    title = escape(f"{shown.name} - moldau pipeline")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _headline(shown: PageContents, totals: BookTotals) -> str:
    state = "new" if shown.state is None else shown.state.state
    message = f": {escape(shown.state.message)}" if shown.state is not None and shown.state.message else ""
    ok, out, dead = (books.outcomes(totals, one) for one in ("ok", "skip", "dlq"))
    balanced = books.balances(totals)
    verb, how = ("=", "good") if balanced else ("DIFFERS FROM", "bad")
    sides = f"{totals.read:,} read + {totals.replayed:,} replayed"
    sums = f"{sides} {verb} {ok:,} ok + {out:,} left out + {counted(dead, 'dead letter')}"
    return f'<p>State: <b>{escape(state)}</b>{message}</p>\n<p class="{how}"><b>{sums}</b></p>'


def _batches(lines: Sequence[BookLine]) -> str:
    """The plots over batches, below each other on one scale."""
    labels = [f"{_clock(one.at_ms)}" for one in lines]
    tips = [f"{one.kind} {one.batch}, {_clock(one.at_ms, whole=True)}" for one in lines]
    ok, out, dead = ([_count(one, outcome) for one in lines] for outcome in ("ok", "skip", "dlq"))
    total_out, total_dead = (
        [books.outcomes(one.totals, outcome) for one in lines] for outcome in ("skip", "dlq")
    )  # fmt: skip
    first, last = lines[0], lines[-1]
    scope = f"batches {first.sequence:,} to {last.sequence:,} of the books"
    if first.sequence:
        scope = f"the newest {len(lines):,} of {counted(last.sequence + 1, 'batch', 'batches')}"
    return "\n".join(
        [
            f'<h2>Batches</h2><p class="note">{scope}; each plot has the same batches above each other</p>',
            bars(
                "Records of each batch", labels, tips,
                [Series("ok", _OK, ok), Series("left out", _OUT, out), Series("dead letters", _DEAD, dead)],
            ),
            steps(
                "Left out and dead, in all so far", labels, tips,
                [Series("left out", _OUT, total_out), Series("dead letters", _DEAD, total_dead)],
            ),
            bars("Duration of each batch, in ms", labels, tips, [Series("ms", _TIME, [one.took_ms for one in lines])]),
        ]
    )  # fmt: skip


def _lags(shown: PageContents) -> str:
    lags = shown.lags
    if lags is None:
        return f'<h2>Lag</h2><p class="note">Not known: {escape(shown.why_no_lags)}</p>'
    if isinstance(lags, FeedLag):
        verb = "is" if lags.lag == 1 else "are"
        return f"<h2>Lag</h2><p>{counted(lags.lag, 'version')} of {escape(lags.table)} {verb} left to read.</p>"
    left = sum(one.lag for one in lags)
    names = [f"{one.topic}-{one.partition}" for one in lags]
    drawn = across([(name, one.lag) for name, one in zip(names, lags, strict=True)], _LAG) if left else ""
    where = f"{counted(left, 'offset')} in {counted(len(lags), 'partition')}"
    return f"<h2>Lag</h2><p>{where} {'is' if left == 1 else 'are'} left to read.</p>{drawn}"


def _sinks(totals: BookTotals) -> str:
    if not totals.sinks:
        return ""
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{count:,}</td></tr>' for name, count in totals.sinks.items()
    )
    return f'<h2>Sinks</h2><table><tr><th>sink</th><th class="n">rows</th></tr>{rows}</table>'


def _maintenance(tables: Sequence[Mapping[str, object]]) -> str:
    """When each table was maintained last, and what that did; a failure stands out."""
    told = [
        '<p class="{}">{}</p>'.format("bad" if one.get("failure") else "note", escape("{table}: {told}".format(**one)))
        for one in tables
        if one["told"]
    ]
    return "\n".join(["<h2>Maintenance of tables</h2>", *told]) if told else ""


def _count(line: BookLine, outcome: str) -> int:
    return sum(one.records for one in line.counts if one.outcome == outcome)


def _clock(at_ms: int, *, whole: bool = False) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S" if whole else "%H:%M:%S", time.gmtime(at_ms / 1000))
