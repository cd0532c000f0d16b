"""Takes dead letters through the pipeline again, each once: those that are well now go to the sinks.

A replay is planned before it is carried out: ``replays/N.json`` names the dead letters, by the batch that buried them
and the stage, so that one that was cut off is finished first, with the same dead letters. What cannot be taken again is
a dead letter again, of batch ``replay-N``. Read next: batches.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.model.counted import counted
from moldau.pipeline import books
from moldau.pipeline.batches import ForeachBatch, RefusedBatch
from moldau.pipeline.begun import refuse_while_cut_off, told_of_abandon
from moldau.pipeline.books import BookLine, names_of
from moldau.pipeline.clusters import cluster_of
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.feed.open import refuse_feed
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.plans import name_of, next_number
from moldau.pipeline.replay_plans import FOLDER, PlannedReplay, line_of, planned
from moldau.pipeline.resetting import let_in
from moldau.pipeline.said import FAULTS, words
from moldau.pipeline.sinks import is_written
from moldau.pipeline.spec import Pipeline
from moldau.pipeline.unfinished import abandon, unfinished
from moldau.spark.tables import BatchKey, Table, TableError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_PLACES_MOST = 5
_RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


class ReplayFailed(RuntimeError):
    """A replay that could not be carried out; the message names its dead letters, why, and what goes on."""


class TakenMeanwhile(RuntimeError):
    """Dead letters that another replay took up since they were looked at."""


class NoDeadLetters(Exception):
    """The pipeline keeps no dead letters in a table."""


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of one batch and stage; ``reason`` is that of the first."""

    batch: str
    stage: str
    records: int
    topic: str
    first: str
    reason: str
    died_at: str


class Replays:
    """The dead letters of one pipeline, and which of them were taken up again."""

    def __init__(self, pipeline: Pipeline, folder: PipelineFolder) -> None:
        if pipeline.dead_letters.table is None:
            raise NoDeadLetters(f"pipeline {pipeline.name} has no dlq.table, so there is nothing to list or to replay")
        self._pipeline, self._folder = pipeline, folder
        self._table = Table(pipeline.dead_letters.table, pipeline=pipeline.name)

    def waiting(self, stage: str | None = None) -> list[DeadLetterGroup]:
        """The dead letters that no replay has taken up, by batch and stage."""
        taken = self._taken()
        rows = self._rows()
        if rows is None:
            return []
        found = rows.select(["batch", "stage", "topic", "partition", "offset", "reason", "died_at"]).to_pylist()
        groups: dict[tuple[str, str], list[dict[str, object]]] = {}
        for row in found:
            name = (str(row["batch"]), str(row["stage"]))
            if name not in taken and stage in (None, row["stage"]):
                groups.setdefault(name, []).append(row)
        return [_group(name, of) for name, of in sorted(groups.items(), key=lambda one: str(one[1][0]["died_at"]))]

    def planned(self) -> list[PlannedReplay]:
        """Every replay so far, in order."""
        return planned(self._folder)

    def line_of(self, planned: PlannedReplay) -> BookLine | None:
        """The line of the books that a replay has, None while it has none."""
        return line_of(self._folder, planned)

    def replay(
        self,
        spark: SparkSession,
        groups: Sequence[DeadLetterGroup],
        *,
        modules: Path | None,
        on_line: Callable[[BookLine], None],
    ) -> BookLine | None:
        """Finish a replay that was cut off, if there is one, then take up ``groups``; the last line of the books.

        RefusedBatch when a policy of the pipeline forbids it: then these dead letters stay as they are. TakenMeanwhile
        where another replay took some of them up since they were looked at.
        """
        refuse_feed(self._pipeline, "a replay of dead letters")
        line = None
        for one in self.planned():
            if one.waits:
                with told_of_abandon(f"replay {one.number}"):
                    line = self._carry_out(spark, one, modules, on_line)
        if groups:
            self._refuse_taken(groups)
            refuse_while_cut_off(self._pipeline, self._folder, "a replay")
            number = next_number(self._folder.store, FOLDER)
            taken = [(one.batch, one.stage) for one in groups]
            chosen = PlannedReplay(number, taken, self._query(), self._folder.books.next())
            content = {"number": number, "groups": taken, "query": chosen.query, "line": chosen.line}
            plan = f"{FOLDER}/{number:09d}.json"
            self._folder.store.put_if_absent(plan, json.dumps(content).encode())
            try:
                line = self._carry_out(spark, chosen, modules, on_line)
            except (
                RefusedBatch
            ):  # before anything was written: the dead letters are as they were, and hold up no others
                self._folder.store.delete(plan)
                raise
        return line

    def _refuse_taken(self, groups: Sequence[DeadLetterGroup]) -> None:
        """TakenMeanwhile where some of these wait no more: nobody kept others from the pipeline while somebody was
        asked."""
        taken = self._taken()
        there = [one for one in groups if (one.batch, one.stage) in taken]
        if there:
            told = counted(sum(one.records for one in there), "dead letter was", "dead letters were")
            raise TakenMeanwhile(
                f"{told} taken up by another replay since this was looked at: nothing was done, look again"
            )

    def _taken(self) -> set[tuple[str, str]]:
        """The batches and stages whose dead letters a replay took up, or will."""
        return {(group[0], group[1]) for one in self.planned() if not one.abandoned for group in one.groups}

    def _carry_out(
        self, spark: SparkSession, planned: PlannedReplay, modules: Path | None, on_line: Callable[[BookLine], None]
    ) -> BookLine:
        pipeline = self._pipeline
        done = f"{FOLDER}/{planned.number:09d}.done"
        line = self.line_of(planned)
        if line is not None:  # it was cut off after its line: a second one would count its records twice
            self._folder.store.write(done, b"")
            return line
        rows = self._rows()
        assert rows is not None, "there are dead letters"
        wanted = set(planned.groups)
        places = zip(rows["batch"].to_pylist(), rows["stage"].to_pylist(), strict=True)
        chosen = rows.filter(_mask([place in wanted for place in places])).select(list(_RECORD))
        as_replay = replace(pipeline, name=f"{pipeline.name}.{books.REPLAY}")
        let_in(as_replay, self._folder, planned.query)
        batches = ForeachBatch(
            as_replay,
            plan_decode(pipeline.decode, pipeline.source.topics),
            self._folder.books,
            cluster_of(pipeline),
            checkpoint=self._folder.checkpoint,
            modules=modules,
            on_line=on_line,
            kind=books.REPLAY,
            store=self._folder.store,
        )
        key = BatchKey(planned.query, planned.number)
        try:
            line = batches.take(spark.createDataFrame(chosen), key, f"replay-{planned.number}")
        except RefusedBatch:
            raise
        except Exception as error:
            if type(error) in FAULTS or self.line_of(planned) is not None:
                raise
            told = f"replay {planned.number} of {places_of(chosen)} failed: {words(error)}"
            raise ReplayFailed(f"{told}\n{self._leads_on(planned)}") from error
        self._folder.store.write(done, b"")
        return line

    def _leads_on(self, planned: PlannedReplay) -> str:
        """What can be done about a replay that failed. One of which no sink has anything is given up at once: its dead
        letters wait again, and those that it wrote are copies of them. Where a table cannot be read nobody knows."""
        again = "`moldau pipeline dlq replay FILE`"
        key = (planned.query, planned.number)
        try:
            there = [one for one in unfinished(self._pipeline, self._folder, exactly=True) if one.key[:2] == key]
        except (TableError, OSError):
            there = []
        letters = self._pipeline.dead_letters.table
        parts = [part for one in there for part in one.parts]
        topics = [f"topic {name}" for one in there for name in one.topics]
        if there and not topics and all(part.sink == letters and part.removable for part in parts):
            for one in there:
                abandon(self._folder, one)
            return f"No sink has any of them, and they wait as before: mend it, then {again}"
        has = ", ".join([*(f"{part.place} ({counted(part.entry.rows, 'row')})" for part in parts), *topics])
        return (
            f"What was written before is in {has or 'doubt'}: mend it, and {again} writes the rest with the file as it "
            f"is; `moldau pipeline abandon FILE` gives the replay up (--dry-run says what that takes back)"
        )

    def _query(self) -> str:
        """The name of this folder's replays: their numbers begin anew in another folder, and other pipelines have the
        same ones, so that tables and readers of topics that more than one fills would take them for these."""
        return name_of(self._folder.store, FOLDER, "replay")

    def _rows(self) -> pa.Table | None:
        """All dead letters of this pipeline, None before the first batch: others may use the same table."""
        place = str(self._table.store.uri)
        if not is_written(lambda name: Table(place, pipeline=name), self._pipeline.name):
            return None
        rows, ours = self._table.read(), set(names_of(self._pipeline.name))
        return rows.filter(_mask([name in ours for name in rows["pipeline"].to_pylist()]))


def places_of(records: pa.Table) -> str:
    """How many dead letters, and where the records lay: by partition the first and the last offset."""
    spans: dict[tuple[str, int], list[int]] = {}
    for row in records.select(["topic", "partition", "offset"]).to_pylist():
        spans.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    told = [
        f"{topic}-{partition}@{min(of)}" + (f" to {max(of)}" if len(of) > 1 else "")
        for (topic, partition), of in sorted(spans.items())
    ]
    left = len(told) - _PLACES_MOST
    more = f" and {counted(left, 'more partition')}" if left > 0 else ""
    return f"{counted(records.num_rows, 'dead letter')} ({', '.join(told[:_PLACES_MOST])}{more})"


def _group(name: tuple[str, str], of: Sequence[dict[str, object]]) -> DeadLetterGroup:
    first = min(of, key=lambda row: (str(row["topic"]), int(str(row["partition"])), int(str(row["offset"]))))
    return DeadLetterGroup(
        batch=name[0],
        stage=name[1],
        records=len(of),
        topic=str(first["topic"]),
        first=f"{first['topic']}-{first['partition']}@{first['offset']}",
        reason=str(first["reason"]),
        died_at=str(first["died_at"])[:19],
    )


def _mask(chosen: Sequence[bool]) -> pa.Array:
    import pyarrow as pa

    return pa.array(chosen, pa.bool_())  # of none the type cannot be told
