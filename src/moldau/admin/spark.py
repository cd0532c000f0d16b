"""``moldau spark``: what a table that a Spark stream fills knows of the stream, and who may go on from where.

The calls of ``moldau.spark.tables.Table`` for a table that is opened by its place alone, while its stream is stopped.
Neither Spark nor a cluster is asked, so it runs wherever the table can be reached. Read next: spark/tables/table.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from moldau.admin.main import fail
from moldau.admin.options import DRY_RUN, OUTPUT, YES, F, confirm, refuse
from moldau.admin.output import note, say, show, show_one
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.spark.tables import LedgerEntry, Table


class PipelineOfTable(TypedDict):
    """Which pipeline of which table."""

    table: str
    pipeline: str
    kind: str
    catalog: str | None
    storage_options: tuple[str, ...]


def TABLE(command: F) -> F:
    """TABLE, --pipeline, --format, --catalog and --storage-option: what ``PipelineOfTable`` has."""
    for option in (
        click.option("--storage-option", "storage_options", multiple=True, metavar="KEY=VALUE",
                     help="AWS_ENDPOINT_URL=http://..., as delta-rs names it. Repeat it."),
        click.option("--catalog", metavar="NAME", help="Of Iceberg: a catalog of .pyiceberg.yaml; TABLE is db.name."),
        click.option("--format", "kind", type=click.Choice(("delta", "parquet", "iceberg")), default="delta",
                     show_default=True, help="What the table is."),
        click.option("--pipeline", default="default", show_default=True, help="The stream's name for the table."),
        click.argument("table", metavar="TABLE"),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def spark() -> None:
    """Look at tables that streams fill, and say who may go on from where.

    TABLE is a folder or a URI (s3://...). Stop the stream first: whoever writes meanwhile is refused or overtaken.
    """


@spark.command()
@TABLE
@OUTPUT
def table(output: str, **place: Unpack[PipelineOfTable]) -> None:
    """Show the newest batch of TABLE's pipeline, and where a stream goes on.

    \b
    moldau spark table /data/orders
    moldau spark table /data/orders --pipeline orders -o json
    """
    found = opened(place)
    with EndsOnTableError():
        last = line_of(found)
        row = {
            "pipeline": last.pipeline, "what": last.what, "batch": last.batch_id if last.batch_id >= 0 else None,
            "query": last.query_id, "rows": found.count(), "ends_at": found.positions(),
        }  # fmt: skip
    if not show_one(row, output):
        show([row], output, row)


@spark.command()
@TABLE
@click.option("--positions", metavar="JSON", help='Where the table ends, as {"topic": {"0": 23}}; what it says itself.')
@DRY_RUN
@YES
def adopt(positions: str | None, dry_run: bool, yes: bool, **place: Unpack[PipelineOfTable]) -> None:
    """Let a stream with a new checkpoint go on where TABLE ends.

    Changes no row: the table's ledger gets a line after which any query may follow, from that place alone.

    \b
    moldau spark adopt /data/orders --dry-run
    moldau spark adopt /data/orders --positions '{"orders": {"0": 23}}' --yes
    """
    found = opened(place)
    with EndsOnTableError():
        if positions is None:
            last, where = line_of(found), found.positions()
            note(
                f"{found.store}: no row changes; the next batch may come from any query, and not only {last.query_id}."
            )
        else:
            found.check_positions(where := positions)
            note(f"{found.store}: no row changes; the next batch may come from any query, and must begin where told.")
        if dry_run:
            note("nothing was changed.")
        else:
            confirm(f"Adopt {found.store} for any query that begins there?", yes)
            found.adopt(positions)
    note("start the stream with a new checkpoint and these startingOffsets:")
    say(where)


@spark.command()
@TABLE
@click.argument("batch", type=click.IntRange(min=0))
@DRY_RUN
@YES
def rewind(batch: int, dry_run: bool, yes: bool, **place: Unpack[PipelineOfTable]) -> None:
    """Take TABLE back to the end of BATCH; what came later is removed.

    \b
    moldau spark rewind /data/orders 41 --dry-run
    moldau spark rewind /data/orders 41 --yes
    """
    found = opened(place)
    with EndsOnTableError():
        before, after = found.count(), found.rows_at(batch)
        parts = f"{counted(after, 'stays', 'stay')}, {counted(before - after, 'goes', 'go')}"
        note(f"{found.store}: of {counted(before, 'row')} {parts}: all after batch {batch}.")
        if dry_run:
            note("nothing was changed.")
            return
        confirm(f"Remove {counted(before - after, 'row')} of {found.store}?", yes)
        where = found.rewind(batch)
    note("done. Start the stream with a new checkpoint and these startingOffsets:")
    say(where)


@spark.command()
@TABLE
@DRY_RUN
@YES
def reset(dry_run: bool, yes: bool, **place: Unpack[PipelineOfTable]) -> None:
    """Let TABLE take whatever batch comes next, with its gap or doubles.

    \b
    moldau spark reset /data/orders --dry-run
    moldau spark reset /data/orders --yes
    """
    found = opened(place)
    with EndsOnTableError():
        last = found.last()
        where = "an unknown place" if last is None or last.end is None else " and ".join(last.end)
        note(
            f"{found.store}: no row changes, and the place where the table ends is forgotten: {where}. The next batch "
            "is taken wherever it begins: rows may then be missing, or be there twice."
        )
        if dry_run:
            note("nothing was changed.")
            return
        confirm(f"Forget where {found.store} ends?", yes)
        found.reset()
    note("done.")


def opened(place: PipelineOfTable) -> Table:
    """The table at this place, which must be there; ends the command when what reads it is not installed."""
    options = dict(each.partition("=")[::2] for each in place["storage_options"])
    kind, catalog = place["kind"], place["catalog"]
    if (kind == "iceberg") != (catalog is not None):
        refuse("--format iceberg and --catalog NAME go together")
    try:
        from moldau.spark.tables import Table, TableError
        from moldau.spark.tables.delta import DeltaFormat
        from moldau.spark.tables.manifest import ParquetFormat
        from moldau.spark.tables.stores import open_store

        try:
            if catalog is not None:
                from moldau.spark.tables.iceberg import of_catalog

                return Table(of_catalog(catalog, place["table"], options), pipeline=place["pipeline"])
            store = open_store(place["table"], options)
            format = DeltaFormat(store) if kind == "delta" else ParquetFormat(store)
            return Table(format, pipeline=place["pipeline"])
        except TableError as error:
            fail(str(error))
    except ImportError as error:
        extra = "iceberg" if kind == "iceberg" and "pyiceberg" in str(error) else "spark"
        fail(f"tables need what is not installed here ({error}): pip install 'moldau[{extra}]'")


def line_of(found: Table) -> LedgerEntry:
    """The pipeline's newest line; ends the command when it has written nothing there."""
    last = found.last()
    if last is None:
        fail(f"{found.store}: pipeline {found.pipeline!r} has written nothing here (--pipeline names another)")
    return last


class EndsOnTableError:
    """Ends the command with what a table refuses, in its own words."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from deltalake.exceptions import DeltaError

        from moldau.spark.tables import TableError

        if isinstance(error, (TableError, DeltaError)):
            fail(str(error))
