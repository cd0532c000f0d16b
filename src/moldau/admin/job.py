"""``moldau job``: what a cluster keeps itself, as tables: who led when, whether replicas agree, how far groups are.

Reads files, of Moldau's nodes or of Apache Kafka's; no cluster need run, and none is asked: with ``--to`` one is
written to. The same tables in Spark: ``format("moldau_job")``, docs/cluster-pipelines.md. Exit 0 done, 1 a replica is
not well or nothing is readable, 2 usage, 4 replicas diverged, the logs of nodes contradict each other, or transactions
hang. Read next: job_results.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from moldau.admin.job_results import Result, with_result
from moldau.admin.main import fail
from moldau.admin.options import DURATION, INSTANT, MISMATCH
from moldau.admin.output import TABLES, note
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.clusterdata.columns import Column

PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path())
TOPICS = click.option("--topic", "topics", multiple=True, help="Only this topic; repeat it.")
GROUPS = click.option("--group", "groups", multiple=True, help="Only this group; repeat it.")
IDS = click.option("--transactional-id", "ids", multiple=True, help="Only this transactional id; repeat it.")
IMAGE_TABLES = ("topics", "partitions", "configs", "brokers", "features")


@click.group()
def job() -> None:
    """Make tables of what a cluster keeps itself, from the files of its nodes.

    \b
    moldau job splits moldau-data
    moldau job verify moldau-data
    moldau job load moldau-data -o json > load.json
    moldau job offsets moldau-data --group billing
    moldau job metadata moldau-data --table partitions --as-of-offset 1000

    PATHS are folders of nodes, or above them. Nothing is changed, and no cluster is asked; with --to each row is
    written to a topic as a record of JSON.
    """


@job.command()
@PATHS
@TOPICS
@with_result
def timeline(result: Result, paths: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Tell who led each partition when, and why it changed, from the state-change logs of all nodes."""
    _show("timeline", result, paths, topics=topics)


@job.command()
@PATHS
@TOPICS
@with_result
def splits(result: Result, paths: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Find what must not be in the state-change logs of all nodes; exit 4 when something is found.

    That is: two leaders or two controllers in one epoch, a leader epoch that goes back, an ISR that is not among the
    replicas.
    """
    if _show("splits", result, paths, topics=topics):
        raise SystemExit(MISMATCH)
    note("nothing of the kind is in these logs.")


@job.command()
@PATHS
@TOPICS
@with_result
def verify(result: Result, paths: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Compare the replicas of each partition, out of the log directories of all brokers.

    As `moldau replica verify --folders`, and in Spark with a task for each partition. A replica that the metadata
    log in the same folders assigns, and that is not there, is MISSING.
    """
    verdicts = {row["verdict"] for row in _show("verify", result, paths, topics=topics)}
    if "DIVERGED" in verdicts:
        raise SystemExit(MISMATCH)
    raise SystemExit(1 if verdicts - {"OK"} else 0)


@job.command()
@PATHS
@TOPICS
@click.option("--every", type=DURATION, default="1h", show_default=True, help="How long each span of time is.")
@with_result
def load(result: Result, paths: tuple[str, ...], topics: tuple[str, ...], every: int) -> None:
    """Count the bytes and records of each replica over time, from its segments.

    `-o json > load.json` is what `moldau reassign plan --load load.json` reads.
    """
    if every < 1:
        fail("--every: at least 1ms", 2)
    _show("load", result, paths, topics=topics, every_ms=every)


@job.command()
@PATHS
@GROUPS
@with_result
def offsets(result: Result, paths: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Tell the newest committed offset of each group and partition, from __consumer_offsets; tombstones too."""
    _show("offsets", result, paths, groups=groups)


@job.command("groups")
@PATHS
@GROUPS
@with_result
def groups_command(result: Result, paths: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Tell the newest state of each group, from __consumer_offsets; tombstones too."""
    _show("groups", result, paths, groups=groups)


@job.command()
@PATHS
@TOPICS
@GROUPS
@with_result
def lag(result: Result, paths: tuple[str, ...], topics: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """Tell how far each commit was behind the end of its partition when it was made."""
    _show("lag", result, paths, topics=topics, groups=groups)


@job.command()
@PATHS
@IDS
@with_result
def transactions(result: Result, paths: tuple[str, ...], ids: tuple[str, ...]) -> None:
    """Tell the newest state of each transactional id, from __transaction_state; tombstones too.

    Apache Kafka's coordinators write that topic; a node of Moldau may hold a replica of it. A record of an unknown
    version, or a damaged one, is a row with the reason.
    """
    _show("transactions", result, paths, ids=ids)


@job.command("transaction-history")
@PATHS
@IDS
@with_result
def transaction_history(result: Result, paths: tuple[str, ...], ids: tuple[str, ...]) -> None:
    """Tell all states of each transactional id that compaction has left in __transaction_state, in their order."""
    _show("transaction-history", result, paths, ids=ids)


@job.command("hanging-transactions")
@PATHS
@TOPICS
@click.option(
    "--max-transaction-timeout", "longest", type=DURATION, default="15m", show_default=True,
    help="How long any transaction may last: transaction.max.timeout.ms of the brokers.",
)  # fmt: skip
@with_result
def hanging_transactions(result: Result, paths: tuple[str, ...], topics: tuple[str, ...], longest: int) -> None:
    """Find transactions that partitions have open and that no coordinator knows; exit 4 when something is found.

    As Kafka's `kafka-transactions.sh find-hanging` does, from the segments and __transaction_state: those of which
    nothing was written for longer than any transaction may last. `kafka-transactions.sh abort` ends one, by topic,
    partition and start offset.
    """
    if _show("hanging-transactions", result, paths, topics=topics, longest_ms=longest):
        raise SystemExit(MISMATCH)
    note("no transaction hangs in these logs.")


@job.command()
@click.argument("path", type=click.Path())
@click.option("--table", type=click.Choice(("records", *IMAGE_TABLES, "diff")), default="records", show_default=True)
@click.option("--as-of-offset", type=click.IntRange(min=0), help="The image up to this offset of the metadata log.")
@click.option("--as-of-time", type=INSTANT, help="The image at this time.")
@click.option("--from-offset", type=click.IntRange(min=0), help="Of diff: the earlier image, up to this offset.")
@click.option("--from-time", type=INSTANT, help="Of diff: the earlier image, at this time.")
@with_result
def metadata(
    result: Result,
    path: str,
    table: str,
    *,
    as_of_offset: int | None,
    as_of_time: int | None,
    from_offset: int | None,
    from_time: int | None,
) -> None:
    """Read a KRaft node's metadata log: its records, the cluster as it was at an offset or a time, or what changed.

    Of several logs below PATH the one that goes furthest is read. The end of a log need not be committed.
    """
    from moldau.clusterdata import metadata as made

    after, before = made.Point(as_of_offset, as_of_time), made.Point(from_offset, from_time)
    if None not in after or None not in before:
        fail("an offset or a time, not both", 2)
    if table == "records" and after != made.Point():
        fail("--as-of-... is of images; records have offsets and times in their columns", 2)
    if (table == "diff") != (before != made.Point()):
        fail("--table diff, and nothing else, needs --from-offset or --from-time", 2)
    try:
        files = made.files(path)
        columns: tuple[Column, ...]
        if table == "records":
            columns, rows = made.RECORD_COLUMNS, list(made.record_rows(files))
        elif table == "diff":
            columns = made.DIFF_COLUMNS
            rows = list(made.diff_rows(made.image_at(files, before), made.image_at(files, after)))
        else:
            columns, rows = made.TABLES[table], list(made.table_rows(made.image_at(files, after), table))
        end = made.end_offset(files)
        for option, point in (("--as-of-offset", after), ("--from-offset", before)):
            if point.offset is not None and point.offset > end:
                note(f"{option} {point.offset}: the log in {path} ends with offset {end}; that image is shown")
    except made.MetadataError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    names = [one.name for one in columns]
    result.tell([dict(zip(names, row, strict=True)) for row in rows], names)


def _show(
    name: str,
    result: Result,
    paths: tuple[str, ...],
    *,
    topics: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    ids: tuple[str, ...] = (),
    every_ms: int = 3_600_000,
    longest_ms: int = 0,
) -> list[dict[str, object]]:
    """Tell a job's table; its rows. Ends with 1 when what was asked for is not there, which would look sound."""
    from moldau.clusterdata.jobs import JOBS, tell
    from moldau.clusterdata.jobs.options import JobOptions
    from moldau.storage.errors import BrokenFile

    names = [one.name for one in JOBS[name].columns]
    try:
        told = tell(name, JobOptions(paths, topics, groups, every_ms, ids, longest_ms))
        rows = [dict(zip(names, row, strict=True)) for row in told.rows]
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    except BrokenFile as error:
        fail(str(error))
    result.tell(rows, names, empty=result.output not in TABLES)
    if told.unread_lines:
        lines = counted(told.unread_lines, "line is no entry", "lines are no entries")
        note(f"{lines} of a state-change log, nor of a stack trace in one: left out")
    for file, why in told.damaged.items():
        note(f"moldau: {file}: {why}")
    where = ", ".join(paths)
    if told.absent:
        note(f"not in {where}: {', '.join(told.absent)}")
    if told.nothing:
        asked = [*(f"topic {one}" for one in topics), *(f"group {one}" for one in groups)]
        asked += [f"transactional id {one}" for one in ids]
        note(f"nothing to read for `moldau job {name}` is in {where}" + f" ({', '.join(asked)})" * bool(asked))
    found = (name in ("splits", "hanging-transactions") and rows) or "DIVERGED" in {row.get("verdict") for row in rows}
    if (told.nothing or told.absent or told.damaged) and not found:
        raise SystemExit(1)
    return rows
