"""A week of micro-batches of a pipeline, without waiting for it: ``python -m bench.week``.

The source is made up: each batch has records of three topics, some late, left out, dead or with a field more. Of a
batch everything is done that a pipeline keeps of it, in a folder and tables on disk: the note before anything is
written, a commit to a Delta table of rows and to one of dead letters, the line in the books, the state, and the
maintenance of both tables when it is due by the week's clock, by which the files of their logs are as old as they would
be. Spark is not there, whose part of a batch knows no batch before. Printed for each day: milliseconds of processor
time of a batch (median, and the mean of all, in which the costly ones and maintenance are), that of the costliest,
calls of functions, milliseconds of a new process until it knows where it is, and the files of a table's log at the
end of the day.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import statistics
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.spark_tables import SCHEMA, file
from moldau.pipeline.begun import BegunBatch
from moldau.pipeline.books import BATCH, BookLine, BookTotals, Count, Drift, Newest, SinkRows, balances
from moldau.pipeline.folder import PipelineFolder
from moldau.pipeline.maintaining import Maintaining
from moldau.pipeline.spec import Decode, Maintain, Pipeline, Source, TableSink, ValueFormat
from moldau.spark.tables import BatchKey, Table
from moldau.spark.tables.files import DataFile
from moldau.spark.tables.stores import Store

DAY_MS = 86_400_000
TOPICS = ("orders", "returns", "visits")
EACH = 1000
"""Records of each topic in a batch."""


def key(number: int) -> BatchKey:
    """The name and offsets of a batch."""

    def offsets(at: int) -> tuple[str, ...]:
        return (json.dumps({topic: {str(part): at * EACH // 2 for part in range(2)} for topic in TOPICS}),)

    return BatchKey("week", number, offsets(number), offsets(number + 1))


def rows() -> bytes:
    """A file of rows as a batch of executors writes it."""
    content = BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(EACH), pa.int64())}, SCHEMA), content, compression="zstd")
    return content.getvalue()


ROWS = rows()


def written(store: Store, number: int) -> DataFile:
    """The file of a batch, on disk: maintenance reads it."""
    found = file(number)
    store.write(found.path, ROWS)
    return found._replace(size=len(ROWS))


def note(text: str) -> None:
    """Say what maintenance did beside the figures."""
    print(text, file=sys.stderr, flush=True)


def line(number: int, at_ms: int) -> BookLine:
    """What the books say of a batch."""
    counts = [Count(topic, "ok", None, EACH - 7, f"{topic}-0@{number * EACH}") for topic in TOPICS]
    counts += [Count(topic, "skip", "known", 4, f"{topic}-0@{number * EACH + 4}", "no id") for topic in TOPICS]
    counts += [Count(topic, "dlq", "decode", 3, f"{topic}-0@{number * EACH + 8}", "no JSON") for topic in TOPICS]
    rows = sum(one.records for one in counts if one.outcome == "ok")
    drift = [Drift("fields that are no columns: gate", None, f"orders-0@{number * EACH}", 9)] if number % 3 == 0 else []
    return BookLine(
        sequence=-1, kind=BATCH, batch=number, query="week", at_ms=at_ms, took_ms=900, start=key(number).start,
        end=key(number).end, counts=counts, drift=drift, rows_out=rows, late=5, late_first=f"orders-0@{number}",
        sinks={"rows": SinkRows(rows)}, dead=9, dead_in="dead", totals=BookTotals(),
    )  # fmt: skip


class Run:
    """A process that has the pipeline: it looks where it is, and takes batches."""

    def __init__(self, pipeline: Pipeline, home: Path) -> None:
        self._folder, self._at_ms = PipelineFolder(pipeline), 0
        self._maintaining = Maintaining(pipeline, self._folder, say=note, now_ms=lambda: self._at_ms)
        self.books, self._begun = self._folder.books, BegunBatch(self._folder.store, BATCH)
        self._rows, self._dead = (Table(home / name, pipeline=pipeline.name) for name in ("rows", "dead"))
        newest = self.books.last()
        self.next = 0 if newest is None else newest.batch + 1

    def take(self, at_ms: int) -> None:
        """The next batch."""
        number, at = self.next, key(self.next)
        self.books.follows(at.query_id, at.batch_id)
        self._begun.begin(at, f"judged {number}", f"rows {number}", list, TOPICS)
        for table in (self._dead, self._rows):
            table.format.prepare(SCHEMA, evolve=False)
            table.add([written(table.store, number)], at)
        self.books.add(line(number, at_ms), Newest(at_ms, f"orders-0@{number}", at_ms))
        self._at_ms = at_ms
        self._maintaining.look()
        self._folder.say("running")
        self.next += 1


class Ages:
    """Has the files of a table's log be as old as they would be by the week's clock: delta-rs expires what is old."""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._born_ms: dict[str, float] = {}

    def set(self, clock_ms: int) -> None:
        """At the end of a day, through which its files came one after the other."""
        there = sorted(one.name for one in self._log.iterdir() if one.name[0].isdigit())
        new = [name for name in there if name not in self._born_ms]
        for at, name in enumerate(new, 1):
            self._born_ms[name] = clock_ms - DAY_MS + at * DAY_MS / len(new)
        for name in there:
            then = time.time() - (clock_ms - self._born_ms[name]) / 1000
            os.utime(self._log / name, (then, then))

    def __len__(self) -> int:
        return sum(1 for _ in self._log.iterdir())


def calls_of(run: Run, at_ms: int, batches: int = 20) -> float:
    """How many calls of functions a batch makes: the same whatever else the machine does."""
    profile = cProfile.Profile()
    with profile:
        for _ in range(batches):
            run.take(at_ms)
    return sum(one.callcount for one in profile.getstats()) / batches


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.week", description=__doc__)
    parser.add_argument("--every", type=int, default=60, help="seconds of the week between two batches")
    parser.add_argument("--maintain", default="24h", help="how often tables are maintained, or off (default: 24h)")
    parser.add_argument("--retention", default="168h", help="how long old versions are kept (default: 168h)")
    parser.add_argument("--days", type=int, default=7, help="how long the week is (default: 7)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        how = None if arguments.maintain == "off" else Maintain(every=arguments.maintain, retention=arguments.retention)
        sinks = tuple(TableSink(table=str(home / name), maintain=how) for name in ("rows", "dead"))
        source = Source(topics=TOPICS)
        decode = Decode(format=ValueFormat.JSON, fields={"id": "long"})
        pipeline = Pipeline(
            name="week", cluster=None, folder=str(home / "state"), source=source, decode=decode, sinks=sinks
        )
        clock_ms, ages = 1_700_000_000_000, [Ages(home / name) for name in ("rows", "dead")]
        for day in range(1, arguments.days + 1):
            began = time.process_time()
            run = Run(pipeline, home)
            start_ms = (time.process_time() - began) * 1000
            spent: list[float] = []
            for _ in range(86_400 // arguments.every):
                clock_ms += arguments.every * 1000
                began = time.process_time()
                run.take(clock_ms)
                spent.append((time.process_time() - began) * 1000)
            said = {"day": day, "batches": run.next, "start_ms": start_ms, "median_ms": statistics.median(spent)}
            said |= {"mean_ms": statistics.fmean(spent), "most_ms": max(spent), "calls": calls_of(run, clock_ms)}
            said |= {"log_files": sum(map(len, ages)) / len(ages)}
            print(json.dumps({name: round(value, 1) for name, value in said.items()}), flush=True)
            for each in ages:
                each.set(clock_ms)
        last = run.books.last()
        assert last is not None
        assert balances(last.totals)
        print(json.dumps({"read": last.totals.read, "balances": True}))


if __name__ == "__main__":
    main()
