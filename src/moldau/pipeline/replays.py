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

from moldau.pipeline import books
from moldau.pipeline.batches import Batches, Refused
from moldau.pipeline.books import Line
from moldau.pipeline.decode.plan import plan_decode
from moldau.pipeline.feed.open import refuse_feed
from moldau.pipeline.folder import Folder
from moldau.pipeline.running import cluster_of
from moldau.pipeline.spec import Pipeline
from moldau.spark.tables import BatchKey, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

QUERY = "replay"
_FOLDER = "replays"
_RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


class NoDeadLetters(Exception):
    """The pipeline keeps no dead letters in a table."""


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters of one batch and stage; ``reason`` is that of the first."""

    batch: str
    stage: str
    records: int
    topic: str
    first: str
    reason: str
    died_at: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A replay: its number, and the (batch, stage) of the dead letters that it takes."""

    number: int
    groups: Sequence[tuple[str, str]]
    done: bool


class Replays:
    """The dead letters of one pipeline, and which of them were taken up again."""

    def __init__(self, pipeline: Pipeline, folder: Folder) -> None:
        if pipeline.dead_letters.table is None:
            raise NoDeadLetters(f"pipeline {pipeline.name} has no dlq.table, so there is nothing to list or to replay")
        self._pipeline, self._folder = pipeline, folder
        self._table = Table(pipeline.dead_letters.table, pipeline=pipeline.name)

    def waiting(self, stage: str | None = None) -> list[Group]:
        """The dead letters that no replay has taken up, by batch and stage."""
        taken = {tuple(group) for one in self.planned() for group in one.groups}
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

    def planned(self) -> list[Planned]:
        """Every replay so far, in order."""
        store = self._folder.store
        found = []
        for name in store.names(_FOLDER, ".json"):
            content = json.loads(store.read(name) or b"{}")
            number = int(content["number"])
            groups = [(str(batch), str(stage)) for batch, stage in content["groups"]]
            found.append(Planned(number, groups, store.read(f"{_FOLDER}/{number:09d}.done") is not None))
        return sorted(found, key=lambda one: one.number)

    def replay(
        self, spark: SparkSession, groups: Sequence[Group], *, modules: Path | None, heard: Callable[[Line], None]
    ) -> Line | None:
        """Finish a replay that was cut off, if there is one, then take up ``groups``; the last line of the books.

        Refused when a policy of the pipeline forbids it: then these dead letters stay as they are.
        """
        refuse_feed(self._pipeline, "a replay of dead letters")
        line = None
        for one in self.planned():
            if not one.done:
                line = self._carry_out(spark, one, modules, heard)
        if groups:
            number = len(self.planned())
            chosen = Planned(number, [(one.batch, one.stage) for one in groups], False)
            content = {"number": number, "groups": [list(one) for one in chosen.groups]}
            plan = f"{_FOLDER}/{number:09d}.json"
            self._folder.store.put_if_absent(plan, json.dumps(content).encode())
            try:
                line = self._carry_out(spark, chosen, modules, heard)
            except Refused:  # before anything was written: the dead letters are as they were, and hold up no others
                self._folder.store.delete(plan)
                raise
        return line

    def _carry_out(
        self, spark: SparkSession, planned: Planned, modules: Path | None, heard: Callable[[Line], None]
    ) -> Line:
        pipeline = self._pipeline
        rows = self._rows()
        assert rows is not None, "there are dead letters"
        wanted = set(planned.groups)
        places = zip(rows["batch"].to_pylist(), rows["stage"].to_pylist(), strict=True)
        chosen = rows.filter(_mask([place in wanted for place in places])).select(list(_RECORD))
        batches = Batches(
            replace(pipeline, name=f"{pipeline.name}.replay"),
            plan_decode(pipeline.decode, pipeline.source.topics),
            self._folder.books,
            cluster_of(pipeline),
            checkpoint=self._folder.checkpoint,
            modules=modules,
            heard=heard,
            kind=books.REPLAY,
            store=self._folder.store,
        )
        key = BatchKey(QUERY, planned.number)
        line = batches.take(spark.createDataFrame(chosen), key, f"replay-{planned.number}")
        self._folder.store.write(f"{_FOLDER}/{planned.number:09d}.done", b"")
        return line

    def _rows(self) -> pa.Table | None:
        """All dead letters of the table, None before the first batch."""
        if self._table.last() is None:
            return None
        return self._table.read()


def _group(name: tuple[str, str], of: Sequence[dict[str, object]]) -> Group:
    first = min(of, key=lambda row: (str(row["topic"]), int(str(row["partition"])), int(str(row["offset"]))))
    return Group(
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

    return pa.array(chosen)
