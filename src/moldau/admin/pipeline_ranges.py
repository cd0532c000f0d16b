"""``moldau pipeline backfill`` and ``replay``, which read ranges beside the stream, ``abandon`` and ``groups``.

Read next: pipeline/backfill.py, pipeline/groups.py.
"""

from __future__ import annotations

from pathlib import Path

import click

from moldau.admin.completing import groups as complete_groups
from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail
from moldau.admin.options import OUTPUT, confirm
from moldau.admin.output import note, say, show
from moldau.admin.pipeline_files import DRY_RUN, FILE, YES, explained, open_file, start_spark, tell
from moldau.model.counted import counted

POSITIONS = 'earliest, latest, -10m, group:ID, {"topic":{"0":23}}, 2026-11-23T12:00:00Z'
TOPICS = click.option(
    "--topic", "topics", multiple=True, shell_complete=complete_topics,
    help="Only this topic; may be given several times.",
)  # fmt: skip


@click.command()
@FILE
@click.option("--from", "start", default="earliest", show_default=True, help=POSITIONS)
@click.option("--to", "end", help="The same; without it, up to where the pipeline began.")
@TOPICS
@DRY_RUN
@YES
def backfill(file: Path, start: str, end: str | None, topics: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Read into the same tables and topics what lay before the pipeline began; what it has read is refused.

    A pipeline that never ran goes on, when it runs, where the backfill ended. One that is cut off is finished by the
    next, with the same batches. The pipeline must be stopped for it.
    """
    _read(file, start, end, topics, dry_run=dry_run, yes=yes, again=False)


@click.command()
@FILE
@click.option("--from", "start", required=True, help=POSITIONS)
@click.option("--to", "end", required=True, help="The same.")
@TOPICS
@DRY_RUN
@YES
def replay(file: Path, start: str, end: str, topics: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Read a range of offsets or times again, with the file as it is now. Rows of it then stand in tables twice, but
    in those with keys. The pipeline must be stopped for it."""
    _read(file, start, end, topics, dry_run=dry_run, yes=yes, again=True)


@click.command()
@FILE
@DRY_RUN
@YES
def abandon(file: Path, dry_run: bool, yes: bool) -> None:
    """Give up what was begun and cannot be finished: a batch that is half written, a replay or backfill cut off.

    Tables lose what they have of it, where that can be told apart (Delta without keys); topics and others keep it.
    Records of the batch are then taken anew, with the file as it is; dead letters of a replay wait again; a backfill
    keeps what is in the books. --dry-run says which places have what. The pipeline must be stopped for it.
    """
    from moldau.pipeline.unfinished import abandon as give_up
    from moldau.pipeline.unfinished import unfinished

    pipeline, folder = open_file(file)
    with explained():
        found = unfinished(pipeline, folder)
        for one in found:
            say("\n  ".join([one.to_text(), *one.cost()]))
        if not found:
            say("\n".join(folder.contradictions()) or "nothing is unfinished")
        if dry_run or not found:
            return
        state = folder.state()
        if not folder.store.local and state is not None and state.state == "running":
            note(f"process {state.pid} said last that it runs this: in a store nothing keeps the two apart, so stop it")
        confirm("Give it up?", yes)
        with folder.locked(after_cut_off_reset=True):
            now = unfinished(pipeline, folder, exactly=True)
            if [one.to_text() for one in now] != [one.to_text() for one in found]:
                fail("what is unfinished has changed meanwhile: nothing was done, look again")
            for one in now:
                for sentence in give_up(folder, one):
                    note(sentence)
    note("done")


@click.command()
@FILE
@click.option(
    "--group", "groups", multiple=True, shell_complete=complete_groups,
    help="Only this group, of those that the file names; also with *.",
)  # fmt: skip
@click.option("--backwards", is_flag=True, help="Move groups that are further on the target back, too.")
@DRY_RUN
@OUTPUT
def groups(file: Path, groups: tuple[str, ...], backwards: bool, dry_run: bool, output: str) -> None:
    """Translate offsets of consumer groups to the copy of their topic on another cluster, as a run does by itself.

    Written are groups without members there, never past what was copied, and never backwards unless it is asked for.
    All coordinators are asked at once, for 10 s at most; groups of one that does not answer are named, and the others
    are translated. Exit 1 when there is one, or the target refused one.
    """
    from moldau.pipeline.clusters import cluster_of
    from moldau.pipeline.groups import PositionOutcome, translate, unanswered_text

    pipeline, folder = open_file(file)
    with explained():
        cluster = cluster_of(pipeline)
        found = translate(pipeline, folder, cluster, groups=groups, backwards=backwards, dry_run=dry_run)
    rows = [
        {"group": one.group, "topic": one.topic, "partition": one.partition, "source": one.source,
         "before": one.before, "target": one.target, "outcome": one.outcome.value, "reason": one.reason}
        for one in found.moved
    ]  # fmt: skip
    show(rows, output, ("group", "topic", "partition", "source", "before", "target", "outcome"))
    refused = sorted({f"{one.group}: {one.reason}" for one in found.moved if one.outcome is PositionOutcome.REFUSED})
    if refused or found.unanswered:
        fail("; ".join([*refused, *([unanswered_text(found.unanswered)] if found.unanswered else [])]))


def _read(
    file: Path, start: str, end: str | None, topics: tuple[str, ...], *, dry_run: bool, yes: bool, again: bool
) -> None:
    from moldau.pipeline.backfill import BackfillError, Backfills

    pipeline, folder = open_file(file)
    with explained():
        backfills = Backfills(pipeline, folder)
        unfinished = any(one.waits for one in backfills.planned())
        if unfinished and not dry_run:
            note("a backfill was cut off and is finished first")
            with folder.locked():
                backfills.finish(start_spark(pipeline), modules=file.parent, on_line=tell)
        wanted = backfills.wanted(start, end, topics)
        twice = sum(one.size for one in wanted.again)
        for span in wanted.spans:
            if span.size:
                where = f"{span.source.topic}-{span.source.partition}: {span.start} to {span.end}"
                say(f"{where}, {counted(span.size, 'offset')}")
        for span in wanted.expired:
            where = f"{span.source.topic}-{span.source.partition}: {span.start} to {span.end}"
            say(f"{where}, {counted(span.size, 'offset')}: expired, and read by nobody any more")
        size, them = counted(wanted.size, "offset"), "it" if wanted.size == 1 else "them"
        say(f"{size} would be read, {twice:,} of {them} again" if dry_run else size)
        if twice and not again:
            first = wanted.again[0]
            raise BackfillError(
                f"{twice:,} of these offsets the pipeline has read, or will when it runs ({first.source.topic}-"
                f"{first.source.partition} from {first.start}): `moldau pipeline replay` reads a range again"
            )
        if dry_run or not wanted.size:
            return
        confirm("Do it?", yes)
        with folder.locked():
            backfills.carry_out(start_spark(pipeline), wanted, modules=file.parent, on_line=tell)
    if wanted.go_on is not None:
        note(f"the first run begins at {wanted.go_on}")
