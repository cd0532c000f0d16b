"""``moldau pipeline``: declared pipelines - look at their files, test them, run them, see where every record went.

Each verb loads what it needs: ``lint`` neither Spark nor a client. What a pipeline is, docs/pipelines.md tells.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.admin.completing import topics as complete_topics
from moldau.admin.main import fail
from moldau.admin.options import BOOTSTRAP, IN_PROGRESS, MISMATCH, OUTPUT, WATCH, confirm
from moldau.admin.output import note, say, show, show_one, watch
from moldau.admin.pipeline_files import (
    CONF,
    DRY_RUN,
    FILE,
    YES,
    explained,
    open_file,
    start_spark,
    tell,
    write_page,
)
from moldau.admin.pipeline_ranges import abandon, backfill, groups, replay
from moldau.admin.pipeline_status import draw_status
from moldau.model.counted import counted

if TYPE_CHECKING:
    from moldau.pipeline.replays import DeadLetterGroup


@click.group()
def pipeline() -> None:
    """Run pipelines that a file declares: topics are decoded, checked, transformed and written to tables and topics.

    \b
    moldau pipeline init orders --topic orders
    moldau pipeline lint orders.yaml
    moldau pipeline test orders.yaml
    moldau pipeline run orders.yaml --once
    moldau pipeline status orders.yaml
    moldau pipeline dlq list orders.yaml

    Each table has every record once, whatever is killed when; `status` shows what became of all that was read.
    """


pipeline.add_command(abandon)
pipeline.add_command(backfill)
pipeline.add_command(replay)
pipeline.add_command(groups)


@pipeline.command()
@click.argument("name")
@click.option(
    "--topic", shell_complete=complete_topics,
    help="The topic that is read (default: NAME). Its newest records tell what fields there are.",
)  # fmt: skip
@BOOTSTRAP("Brokers to ask, which the file names then (or MOLDAU_BOOTSTRAP).")
@click.option("--out", type=click.Path(path_type=Path), help="The file (default: NAME.yaml).")
def init(name: str, topic: str | None, bootstrap: str, out: Path | None) -> None:
    """Write a file to begin with: its cluster, and the format and fields of the topic's newest records.

    The file can be linted and run as it is written. Of a topic without JSON objects it keeps values as text or bytes.
    """
    from moldau.admin.asking import Talk
    from moldau.pipeline.reading import read_text
    from moldau.pipeline.sampling import sample_topic
    from moldau.pipeline.spec import ValueFormat
    from moldau.pipeline.template import template

    out = out or Path(f"{name}.yaml")
    if out.exists():
        fail(f"{out} is there already; --out names another file")
    topic = topic or name
    with explained(), Talk(bootstrap) as talk:
        talk.existing([topic])
        sample = sample_topic(talk.cluster, topic)
    text = template(name, topic, bootstrap, sample)
    problems = [one for one in read_text(text, {}).problems if one.error]
    if problems:
        fail(f"{name}: {problems[0].message}", 2)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}")
    if sample.format is not ValueFormat.JSON:
        found = (
            f"{counted(sample.seen, 'record was', 'records were')} looked at, none a JSON object"
            if sample.seen
            else "no record to look at"
        )
        note(f"{topic}: {found}; its values are kept as {sample.format.value}")
    note(f"{out} is written. Look at it, then: moldau pipeline lint {out}")


@pipeline.command()
@click.argument("files", type=click.Path(exists=True, dir_okay=False, path_type=Path), nargs=-1, required=True)
@OUTPUT
def lint(files: tuple[Path, ...], output: str) -> None:
    """Say what is wrong with files, without Spark or a cluster. Exit 1 when there is an error."""
    from moldau.pipeline.lint import lint_file

    with explained():
        found = [(path, one) for path in files for one in lint_file(path)]
    errors = sum(one.error for _, one in found)
    if output == "text":
        for path, one in found:
            say(one.to_text(str(path)))
        note(f"{counted(len(files), 'file')}: {counted(errors, 'error')}, {counted(len(found) - errors, 'warning')}")
    else:
        rows = [
            {"file": str(path), "line": one.place.line, "column": one.place.column,
             "severity": "error" if one.error else "warning", "message": one.message}
            for path, one in found
        ]  # fmt: skip
        show(rows, output, ("file", "line", "column", "severity", "message"))
    raise SystemExit(1 if errors else 0)


@pipeline.command()
@FILE
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The new folder of the project.")
@click.option(
    "--table-format", type=click.Choice(("parquet", "delta", "iceberg", "orc")),
    help="Of all tables (default: what the file says).",
)  # fmt: skip
def export(file: Path, target: Path, table_format: str | None) -> None:
    """Write the pipeline as a project of Spark's Declarative Pipelines: stages as views, sinks as tables and flows.

    What there is no counterpart for (dedup, keyed tables, feeds of tables) is refused by name. Books are not exported.
    """
    from moldau.pipeline.clusters import cluster_of
    from moldau.pipeline.export import RUN
    from moldau.pipeline.export import export as write

    found, _ = open_file(file)
    with explained():
        try:
            code = write(found, cluster_of(found), target, modules=file.absolute().parent, table_format=table_format)
        except FileExistsError:
            fail(f"{target} is there already; --to names a new folder")
    note(f"{code} is written. Look at it, then in {target}: spark-pipelines dry-run, {RUN}")


@pipeline.command()
@FILE
@OUTPUT
def plan(file: Path, output: str) -> None:
    """Show what a run would do now: where it begins, which tables are new, what is left to read. Writes nothing."""
    from moldau.pipeline import positions

    pipeline, folder = open_file(file)
    with explained():
        steps = positions.plan(pipeline, folder)
    rows = [{"what": one.what, "how": one.how, "changes": one.changes} for one in steps]
    show(rows, output, ("what", "how", "changes"))


@pipeline.command("dry-run")
@FILE
@click.option("--records", default=1000, show_default=True, type=click.IntRange(min=1), help="How many at most.")
@OUTPUT
def dry_run(file: Path, records: int, output: str) -> None:
    """Take the next records through all stages and show what would be written. Writes nothing."""
    from moldau.pipeline import rehearsal

    pipeline, folder = open_file(file)
    with explained():
        found = rehearsal.rehearse(start_spark(pipeline), pipeline, folder, records, modules=file.parent)
    if not show_one(found.to_row(), output):
        show(found.outcomes, output, ("topic", "outcome", "stage", "records", "first", "reason"))
        rows = counted(len(found.rows), "row")
        note(f"{counted(found.read, 'record')} read, {rows} would be written to each sink; the first:")
        for row in found.rows[:10]:
            say(str(dict(row)))


@pipeline.command()
@FILE
@click.argument("tests", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@OUTPUT
def test(file: Path, tests: Path | None, output: str) -> None:
    """Run the cases of a test file (default: FILE with .test.yaml), without a cluster. Exit 4 when one fails.

    The test file is a list of cases: what goes in, and what is to come of it.

    \b
    - name: an order without an amount is a dead letter
      records:
        - {value: {id: 1, amount: 2.5}}
        - {value: no JSON, offset: 7, key: a, headers: {source: web}}
      rows: [{id: 1, amount: 2.5}]
      dead: [{stage: decode, offset: 7}]
      left_out: 0

    A mapping as value is encoded as the file's decode says: JSON, or Avro or Protobuf by the schema of the columns,
    behind its id where a registry has it. value_base64 gives bytes; topic, partition and timestamp may be given too. A
    record without timestamp is of 2000-01-01 (UTC), so that a case gives the same on every day: say one where the file
    looks at it, as `late: {ahead: 1h}` does. Only the columns that are named are compared, in any order of rows.
    `refused: {stage: decode}` expects that the batch is refused, by a policy of pause or fail.
    """
    from moldau.pipeline import trial
    from moldau.pipeline.decode.encoding import encoder
    from moldau.pipeline.decode.plan import plan_decode
    from moldau.pipeline.feed.open import refuse_feed

    pipeline, _ = open_file(file)
    with explained():
        refuse_feed(pipeline, "a test of records")
    path = tests or file.with_suffix(".test.yaml")
    if not path.exists():
        fail(f"{path} is not there; `moldau pipeline test --help` says what stands in it", 2)
    with explained():
        try:
            cases = trial.read_cases(path)
        except trial.BadTest as error:
            fail("\n".join(one.to_text(str(path)) for one in error.problems))
        decoding = plan_decode(pipeline.decode, pipeline.source.topics)
        encode, spark = encoder(pipeline.decode, pipeline.source.topics), start_spark(pipeline)
        cases = [replace(case, encode=encode) for case in cases]
        found = [trial.run_case(spark, pipeline, decoding, case, file.parent) for case in cases]
    rows = [
        {"case": one.case.name, "verdict": "failed" if one.differences else "passed", "differences": one.differences}
        for one in found
    ]
    show(rows, output, ("verdict", "case"))
    bad = [one for one in found if one.differences]
    for one in bad:
        for text in one.differences:
            note(f"{one.case.name}: {text}")
    note(f"{len(found) - len(bad)} passed, {len(bad)} failed")
    raise SystemExit(MISMATCH if bad else 0)


@pipeline.command()
@FILE
@click.option("--once", is_flag=True, help="Write what is there now, and end. Exit 3 when a record pauses it.")
@click.option("--schedule", metavar="CRON", help='Write what is there at these times, in UTC: "*/5 * * * *", @hourly.')
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Show books and lag to Prometheus there (0: any).")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address for that.")
@CONF
def run(
    file: Path, once: bool, schedule: str | None, metrics_port: int | None, metrics_host: str, conf: dict[str, str]
) -> None:
    """Run a pipeline until it is stopped (SIGTERM, Ctrl-C), from where it was; or --once, as from cron.

    One process runs a pipeline at a time. A query that ended for a reason that may pass is begun again; a record whose
    policy is `pause` is tried again, with the file as it is then. With a schedule, from the file or from --schedule,
    runs follow each other; times that come while one is under way are told and left out.
    """
    from moldau.pipeline.feed.running import runner as runner_of
    from moldau.pipeline.lint import lint_file
    from moldau.pipeline.metrics import MetricsServer, metrics
    from moldau.pipeline.running import Ended, Runner, session_of, sound, stopped_by_signals
    from moldau.pipeline.schedule import parse_schedule
    from moldau.pipeline.ticking import Ticks

    errors = [one for one in lint_file(file) if one.error]
    if errors:
        fail("\n".join(one.to_text(str(file)) for one in errors))
    pipeline, folder = open_file(file)
    times = None if once else schedule or pipeline.schedule
    spark = partial(session_of, conf=conf)
    with explained(), ExitStack() as stack:
        if metrics_port is not None:
            server = MetricsServer(lambda: metrics(pipeline, folder), metrics_host, metrics_port)
            stack.enter_context(server)
            note(f"metrics at http://{metrics_host}:{server.port}/metrics")
        runner: Runner | Ticks
        if times is None:
            runner = runner_of(pipeline, file=file, once=once, say=note, on_line=tell, session=spark)
        else:

            def begin() -> Runner:
                return runner_of(sound(file), file=file, once=True, say=note, on_line=tell, session=spark)

            runner = Ticks(parse_schedule(times), begin, say=note)
        with stopped_by_signals(runner):
            ended = runner.run()
    if ended is Ended.PAUSED:
        state = folder.state()
        note(f"paused: {state.message if state is not None else ''}")
        raise SystemExit(IN_PROGRESS)


@pipeline.command()
@FILE
@click.option("--verify", is_flag=True, help="Count the rows of the tables and hold them against the books.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with plots there, too.")
@WATCH
@OUTPUT
def status(file: Path, verify: bool, html: Path | None, every_s: float | None, output: str) -> None:
    """Show what became of every record that was read. Exit 4 when the books do not balance.

    --html writes one file without anything to load: records, rows left out and dead, and durations by batch, and lag.
    """
    pipeline, folder = open_file(file)
    codes: list[int] = []

    def draw() -> None:
        with explained():
            codes[:] = [draw_status(pipeline, folder, output, verify=verify)]
            if html is not None:
                write_page(pipeline, folder, html)

    watch(draw, every_s)
    raise SystemExit(codes[0])


@pipeline.command()
@FILE
@WATCH
@OUTPUT
def lag(file: Path, every_s: float | None, output: str) -> None:
    """Show where the pipeline is in each partition, and how many offsets are left (of a table: versions).

    Exit 4 when records were lost.

    Lost is what was not read and is there no more: a topic that was made anew, a log whose end was cut off, records
    that expired.
    """
    from moldau.pipeline import positions
    from moldau.pipeline.feed.positions import feed_lag
    from moldau.pipeline.said import LOSS

    pipeline, folder = open_file(file)
    lost: list[str] = []

    def draw() -> None:
        with explained():
            if pipeline.source.feed is not None:
                show([asdict(feed_lag(pipeline, folder))], output, ("table", "position", "end", "lag"))
                return
            found = positions.lags(pipeline, folder)
        rows = [
            {"topic": one.topic, "partition": one.partition, "position": one.position, "end": one.end, "lag": one.lag,
             "loss": None if one.loss is None else one.loss.kind.value}
            for one in found
        ]  # fmt: skip
        show(rows, output, ("topic", "partition", "position", "end", "lag"))
        lost[:] = [
            f"{one.loss}: {counted(one.lag, 'offset is', 'offsets are')} unread"
            for one in found
            if one.loss is not None
        ]
        for text in lost:
            note(text)
        if lost and pipeline.source.on_loss == "fail":
            note(f"a run is refused. {LOSS}")

    watch(draw, every_s)
    raise SystemExit(MISMATCH if lost else 0)


@pipeline.command()
@FILE
@click.option(
    "--to", "start", required=True,
    help='earliest, latest, -10m, group:ID, {"topic":{"0":23}}; of a table: snapshot, earliest, latest, a version',
)  # fmt: skip
@click.option(
    "--accept-missing", is_flag=True,
    help="Let the books count no more what tables hold fewer than they say, as `status --verify` shows it.",
)  # fmt: skip
@DRY_RUN
@YES
def reset(file: Path, start: str, accept_missing: bool, dry_run: bool, yes: bool) -> None:
    """Let the next run begin elsewhere: with a new checkpoint, the old one set aside. Rows in tables stay.

    What lies before the pipeline's position is read again, and stands in the tables twice; what lies behind it and
    before the new one is left out. --dry-run says how much that is.

    Rows of tables that `moldau spark rewind` took back are counted no more; others that are missing (deleted, say)
    only with --accept-missing.
    """
    from moldau.pipeline import positions
    from moldau.pipeline.books import BACKFILL, BATCH
    from moldau.pipeline.feed.positions import check_start, reset_cost
    from moldau.pipeline.resetting import reset as carry_out
    from moldau.pipeline.taken_back import taken_back
    from moldau.pipeline.unfinished import unfinished

    pipeline, folder = open_file(file)
    with explained():
        if pipeline.source.feed is not None:
            begins = check_start(pipeline, start)
            price = reset_cost(pipeline, folder, begins)
            say(f"{pipeline.name} would begin at {start} of {pipeline.source.feed.name}{price}")
        else:
            to, again, left_out = positions.reset_cost(pipeline, folder, start)
            start = positions.as_start(to)
            told = f"{counted(again, 'offset')} would be read again, {left_out:,} would be left out"
            say(f"{pipeline.name} would begin at {start}: {told}")
            for one in unfinished(pipeline, folder):
                if one.kind == BATCH:
                    say(f"{one.to_text()}: call `moldau pipeline abandon FILE` before, or its rows stand there twice")
                elif one.kind == BACKFILL:
                    say(
                        f"{one.to_text()}: the next `backfill` reads the rest of it, also what a run from there on has "
                        "read; `moldau pipeline abandon FILE` gives it up"
                    )
        for name, rows in taken_back(pipeline, folder, accept=accept_missing).rows.items():
            why = "misses rows" if accept_missing else "was taken back"
            say(f"{name} {why}: the books count {counted(rows, 'row')} of it no more")
        if dry_run:
            return
        confirm("Do it?", yes)
        with folder.locked(after_cut_off_reset=True):
            if pipeline.source.feed is None and positions.reset_cost(pipeline, folder, start)[1] > again:
                fail("the pipeline has read more since this was looked at: nothing was done, look again")
            latest = begins if pipeline.source.feed is not None and start == "latest" else None
            back = taken_back(pipeline, folder, accept=accept_missing)
            aside = carry_out(pipeline, folder, start, back, latest=latest)
    note(f"done; the checkpoint until now is {aside}" if aside else "done; there was no checkpoint")


@pipeline.group()
def dlq() -> None:
    """Look at dead letters, and take them up again."""


@dlq.command("list")
@FILE
@click.option("--stage", help="Only those of one stage: decode, or the name of a check.")
@OUTPUT
def dlq_list(file: Path, stage: str | None, output: str) -> None:
    """Show the dead letters that no replay has taken up: by batch and stage, with the first of each and its reason."""
    found = _waiting(file, stage)
    rows = [
        {"batch": one.batch, "stage": one.stage, "records": one.records, "first": one.first, "reason": one.reason,
         "died_at": one.died_at}
        for one in found
    ]  # fmt: skip
    show(rows, output, ("batch", "stage", "records", "first", "died_at", "reason"))


@dlq.command("replay")
@FILE
@click.option("--stage", help="Only those of one stage: decode, or the name of a check.")
@DRY_RUN
@YES
def dlq_replay(file: Path, stage: str | None, dry_run: bool, yes: bool) -> None:
    """Take dead letters through the pipeline as its file is now, each once. What fails again is a dead letter again."""
    from moldau.pipeline.feed.open import refuse_feed
    from moldau.pipeline.replays import Replays

    pipeline, folder = open_file(file)
    with explained():
        refuse_feed(pipeline, "a replay of dead letters")
    found = _waiting(file, stage)
    with explained():
        replays = Replays(pipeline, folder)
        unfinished = [one for one in replays.planned() if one.waits]
        count = sum(one.records for one in found)
        say(
            f"{counted(count, 'dead letter')} in {counted(len(found), 'group')}"
            + (", after a replay that was cut off" * bool(unfinished))
        )
        if dry_run or not (found or unfinished):
            return
        confirm("Take them up again?", yes)
        with folder.locked():
            replays.replay(start_spark(pipeline), found, modules=file.parent, on_line=tell)


def _waiting(file: Path, stage: str | None) -> list[DeadLetterGroup]:
    """The dead letters that wait, of all stages or one; ends the command where there is no such stage: that nothing
    waits would look as if all had been taken up."""
    from moldau.admin.advice import no_such
    from moldau.pipeline.lateness import checks_of
    from moldau.pipeline.replays import Replays
    from moldau.pipeline.spec import DECODE, DEDUP

    pipeline, folder = open_file(file)
    with explained():
        found = Replays(pipeline, folder).waiting()
    stages = dict.fromkeys([DECODE, *(one.name for one in checks_of(pipeline))])
    stages |= dict.fromkeys([DEDUP] if pipeline.dedup is not None else []) | dict.fromkeys(one.stage for one in found)
    if stage is not None and stage not in stages:
        fail(no_such("stage", stage, stages, f"There are {', '.join(stages)}"))
    return [one for one in found if stage in (None, one.stage)]
