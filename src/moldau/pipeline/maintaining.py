"""Maintains the tables that a pipeline writes, between two of its batches: small files are merged, old ones removed.

When each table was maintained stands in ``FOLDER/maintained.json``. What goes wrong is told and tried again, and costs
no batch. Read next: maintained.py (what is known of each), ../spark/tables/table.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from moldau.pipeline.books import names_of
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.maintain_options import again_ms, retention_hours, target_bytes
from moldau.pipeline.maintained import Maintained, MaintainedTable, as_text, is_due, keep, maintained, places
from moldau.pipeline.said import one_line, words
from moldau.pipeline.sinks import open_table
from moldau.pipeline.spec import Pipeline, TableSink
from moldau.pipeline.unfinished import Unfinished, unfinished
from moldau.spark.tables import Table, TableError
from moldau.spark.tables.stores import Store

BEGUN = "it was begun and has not ended: it is under way, or its process was killed"
_PARTS = ("/_delta_log/", "/_moldau/log/", "/metadata/")
"""Folders of a table, of Delta, of Parquet with a manifest, of Iceberg: below the top they are another's."""


class Maintaining:
    """Looks, whenever it is called, which tables of a pipeline are due, and maintains them.

    By whoever holds the pipeline, and never while a batch is written: nobody of ours writes a table meanwhile.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        folder: PipelineFolder,
        *,
        say: Callable[[str], None] = lambda text: None,
        stopping: Callable[[], bool] = lambda: False,
        now_ms: Callable[[], int] = lambda: round(time.time() * 1000),
        open_one: Callable[[TableSink, str], Table] = open_table,
    ) -> None:
        self._pipeline, self._folder, self._say, self._stopping = pipeline, folder, say, stopping
        self._now_ms, self._open = now_ms, open_one
        self._known: dict[str, Maintained] | None = None

    def look(self) -> None:
        """Maintain what is due. Nothing of it fails whoever calls: a failure is told, kept, and tried again later."""
        try:
            self._look()
        except Exception as error:  # of the folder or the books, which say it themselves when they are needed
            self._say(f"tables were not maintained: {_cause(error)}")

    def _look(self) -> None:
        last = self._folder.books.last()
        if last is None:
            return
        now_ms, known = self._now_ms(), self._kept()
        wanted = {one.sink.table: one for one in places(self._pipeline, [*last.totals.topics])}
        begun = {name: Maintained(now_ms, line=last.sequence) for name in wanted if name not in known}
        if begun:
            known |= begun
            self._keep()
        cut_off = cache(lambda: unfinished(self._pipeline, self._folder))  # which asks every table
        for name, place in wanted.items():
            if not self._stopping() and is_due(known[name], place.maintain, now_ms, last.sequence):
                before = known[name]
                # Noted as failed until it has ended: if the process is killed by it, for want of memory say, the next
                # one is to take batches before it tries again.
                known[name] = replace(before, failed_ms=now_ms, failure=BEGUN)
                self._keep()
                known[name] = self._maintain(place, replace(before, line=last.sequence), cut_off)
                self._keep()

    def _kept(self) -> dict[str, Maintained]:
        if self._known is None:
            try:
                self._known = maintained(self._folder.store)
            except ValueError as error:
                self._say(f"{error}: the clock of each table begins anew")
                self._known = {}
        return self._known

    def _keep(self) -> None:
        """Write what is known. A folder that is full now may not be later: this process knows it meanwhile."""
        try:
            keep(self._folder.store, self._known or {})
        except OSError as error:
            self._say(f"when tables were maintained could not be written down: {_cause(error)}")

    def _maintain(
        self, place: MaintainedTable, before: Maintained, cut_off: Callable[[], Sequence[Unfinished]]
    ) -> Maintained:
        """What is known of the table after it was maintained, or after a try that failed."""
        name, began = place.sink.table, time.monotonic()
        try:
            did = self._carry_out(place, cut_off())
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of delta-rs is no Exception
            failed_ms, why = self._now_ms(), _cause(error)
            self._say(f"{name} was not maintained: {why}. It is tried again in {_span(again_ms(place.maintain))}")
            # A time ahead of now, of a clock that was set back since, would make the table due with each batch.
            at_ms = None if before.at_ms is None else min(before.at_ms, failed_ms)
            return replace(
                before, since_ms=min(before.since_ms, failed_ms), at_ms=at_ms, failed_ms=failed_ms, failure=why
            )
        took_ms, now_ms = round((time.monotonic() - began) * 1000), self._now_ms()
        if did is None:
            return Maintained(now_ms, line=before.line)
        self._say(f"{name} was maintained: {as_text(did, took_ms)}")
        return Maintained(min(before.since_ms, now_ms), now_ms, took_ms, did, line=before.line)

    def _carry_out(self, place: MaintainedTable, cut_off: Sequence[Unfinished]) -> dict[str, int] | None:
        """What was done, in numbers; None where the pipeline has no such table yet."""
        if cut_off:
            raise TableError(
                f"{cut_off[0].to_text()}: it can be given up only while its files are as they were written"
            )
        table = self._open(place.sink, self._pipeline.name)
        if table.last() is None:
            return None
        if place.sink.format != "iceberg":  # which removes no files by what lies in the folder
            refuse_within(table.store)
        how = place.maintain
        did = table.maintain(
            target_bytes=target_bytes(how), retention_hours=retention_hours(how), names=names_of(self._pipeline.name)
        )
        return dict(did)


def refuse_within(store: Store) -> None:
    """TableError where another table lies in this one: its files would be removed as ones that no version needs."""
    for name in store.names(""):
        for part in _PARTS:
            inner, found, _ = name.partition(part)
            if found and inner:
                raise TableError(
                    f"table {inner} lies in it, and would lose its files: move one of them, or say `maintain: off`"
                )


def _cause(error: BaseException) -> str:
    return one_line(" ".join(words(error).split()))


def _span(ms: int) -> str:
    minutes = ms / 60_000
    return f"{minutes:,.0f} min" if minutes < 120 else f"{minutes / 60:,.1f} h"
