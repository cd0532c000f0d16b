"""``moldau job``: what a cluster keeps itself, as tables: who led when, whether replicas agree, how far groups are.

Reads files, of Moldau's nodes or of Apache Kafka's; no cluster need run, and none is asked. The same tables in Spark:
``format("moldau_job")``, docs/cluster-pipelines.md. Exit 0 done, 1 a replica is not well or nothing is readable, 2
usage, 4 replicas diverged, the logs of nodes contradict each other, or transactions hang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from moldau.admin.main import fail
from moldau.admin.options import DURATION, INSTANT, MISMATCH, OUTPUT
from moldau.admin.output import TABLES, note, show
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

    PATHS are folders of nodes, or above them. Nothing is changed, and no cluster is asked.
    """


@job.command()
@PATHS
@TOPICS
@OUTPUT
def timeline(paths: tuple[str, ...], topics: tuple[str, ...], output: str) -> None:
    """Tell who led each partition when, and why it changed, from the state-change logs of all nodes."""
    _show("timeline", output, paths, topics=topics)


@job.command()
@PATHS
@TOPICS
@OUTPUT
def splits(paths: tuple[str, ...], topics: tuple[str, ...], output: str) -> None:
    """Find what must not be in the state-change logs of all nodes; exit 4 when something is found.

    That is: two leaders or two controllers in one epoch, a leader epoch that goes back, an ISR that is not among the
    replicas.
    """
    if _show("splits", output, paths, topics=topics):
        raise SystemExit(MISMATCH)
    note("nothing of the kind is in these logs.")


@job.command()
@PATHS
@TOPICS
@OUTPUT
def verify(paths: tuple[str, ...], topics: tuple[str, ...], output: str) -> None:
    """Compare the replicas of each partition, out of the log directories of all brokers.

    As `moldau replica verify --folders`, and in Spark with a task for each partition. A replica that the metadata
    log in the same folders assigns, and that is not there, is MISSING.
    """
    verdicts = {row["verdict"] for row in _show("verify", output, paths, topics=topics)}
    if "DIVERGED" in verdicts:
        raise SystemExit(MISMATCH)
    raise SystemExit(1 if verdicts - {"OK"} else 0)


@job.command()
@PATHS
@TOPICS
@click.option("--every", type=DURATION, default="1h", show_default=True, help="How long each span of time is.")
@OUTPUT
def load(paths: tuple[str, ...], topics: tuple[str, ...], every: int, output: str) -> None:
    """Count the bytes and records of each replica over time, from its segments.

    `-o json > load.json` is what `moldau reassign plan --load load.json` reads.
    """
    if every < 1:
        fail("--every: at least 1ms", 2)
    _show("load", output, paths, topics=topics, every_ms=every)


@job.command()
@PATHS
@GROUPS
@OUTPUT
def offsets(paths: tuple[str, ...], groups: tuple[str, ...], output: str) -> None:
    """Tell the newest committed offset of each group and partition, from __consumer_offsets; tombstones too."""
    _show("offsets", output, paths, groups=groups)


@job.command("groups")
@PATHS
@GROUPS
@OUTPUT
def groups_command(paths: tuple[str, ...], groups: tuple[str, ...], output: str) -> None:
    """Tell the newest state of each group, from __consumer_offsets; tombstones too."""
    _show("groups", output, paths, groups=groups)


@job.command()
@PATHS
@TOPICS
@GROUPS
@OUTPUT
def lag(paths: tuple[str, ...], topics: tuple[str, ...], groups: tuple[str, ...], output: str) -> None:
    """Tell how far each commit was behind the end of its partition when it was made."""
    _show("lag", output, paths, topics=topics, groups=groups)


@job.command()
@PATHS
@IDS
@OUTPUT
def transactions(paths: tuple[str, ...], ids: tuple[str, ...], output: str) -> None:
    """Tell the newest state of each transactional id, from __transaction_state; tombstones too.

    Apache Kafka's coordinators write that topic; a node of Moldau may hold a replica of it. A record of an unknown
    version, or a damaged one, is a row with the reason.
    """
    _show("transactions", output, paths, ids=ids)


@job.command("transaction-history")
@PATHS
@IDS
@OUTPUT
def transaction_history(paths: tuple[str, ...], ids: tuple[str, ...], output: str) -> None:
    """Tell all states of each transactional id that compaction has left in __transaction_state, in their order."""
    _show("transaction-history", output, paths, ids=ids)


@job.command("hanging-transactions")
@PATHS
@TOPICS
@click.option(
    "--max-transaction-timeout", "longest", type=DURATION, default="15m", show_default=True,
    help="How long any transaction may last: transaction.max.timeout.ms of the brokers.",
)  # fmt: skip
@OUTPUT
def hanging_transactions(paths: tuple[str, ...], topics: tuple[str, ...], longest: int, output: str) -> None:
    """Find transactions that partitions have open and that no coordinator knows; exit 4 when something is found.

    As Kafka's `kafka-transactions.sh find-hanging` does, from the segments and __transaction_state: those of which
    nothing was written for longer than any transaction may last. `kafka-transactions.sh abort` ends one, by topic,
    partition and start offset.
    """
    if _show("hanging-transactions", output, paths, topics=topics, longest_ms=longest):
        raise SystemExit(MISMATCH)
    note("no transaction hangs in these logs.")


@job.command()
@click.argument("path", type=click.Path())
@click.option("--table", type=click.Choice(("records", *IMAGE_TABLES, "diff")), default="records", show_default=True)
@click.option("--as-of-offset", type=click.IntRange(min=0), help="The image up to this offset of the metadata log.")
@click.option("--as-of-time", type=INSTANT, help="The image at this time.")
@click.option("--from-offset", type=click.IntRange(min=0), help="Of diff: the earlier image, up to this offset.")
@click.option("--from-time", type=INSTANT, help="Of diff: the earlier image, at this time.")
@OUTPUT
def metadata(
    path: str,
    table: str,
    output: str,
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
    show([dict(zip(names, row, strict=True)) for row in rows], output, names)


def _show(
    name: str,
    output: str,
    paths: tuple[str, ...],
    *,
    topics: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    ids: tuple[str, ...] = (),
    every_ms: int = 3_600_000,
    longest_ms: int = 0,
) -> list[dict[str, object]]:
    """Print a job's table; its rows. Ends with 1 when what was asked for is not there, which would look sound."""
    from moldau.clusterdata.jobs import JOBS, tell
    from moldau.clusterdata.jobs.wish import Wish
    from moldau.storage.errors import BrokenFile

    names = [one.name for one in JOBS[name].columns]
    try:
        told = tell(name, Wish(paths, topics, groups, every_ms, ids, longest_ms))
        rows = [dict(zip(names, row, strict=True)) for row in told.rows]
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    except BrokenFile as error:
        fail(str(error))
    if rows or output not in TABLES:
        show(rows, output, names)
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
