"""What every command of a pipeline begins with: its file and options, and errors told in a line.

Read next: pipeline.py, pipeline_ranges.py (the commands).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.admin.main import fail, reason
from moldau.admin.output import note
from moldau.model.counted import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.pipeline.books import BookLine
    from moldau.pipeline.folder import PipelineFolder
    from moldau.pipeline.spec import Pipeline

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
YES = click.option("--yes", is_flag=True, help="Do it without asking.")
CONF = click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", callback=lambda _, __, given: _settings(given),
    help="A setting of Spark's, as spark.master=spark://HOST:7077; may be given several times.",
)  # fmt: skip
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")


def _settings(given: Sequence[str]) -> dict[str, str]:
    """The settings of ``--conf``."""
    pairs = [one.partition("=") for one in given]
    if wrong := [
        one for one, pair in zip(given, pairs, strict=True) if not pair[0].startswith("spark.") or not pair[2]
    ]:
        raise click.BadParameter(f"{wrong[0]!r}: NAME=VALUE is expected, with a name that begins with 'spark.'")
    return {name: value for name, _, value in pairs}


@contextmanager
def explained() -> Iterator[None]:
    """End the command with a line for what users can mend; faults of the program are raised."""
    try:
        yield
    except click.ClickException:
        raise
    except (AssertionError, AttributeError, IndexError, KeyError, NameError, TypeError):
        raise  # a fault of this program, whose place is worth more than a line
    except BrokenPipeError:
        raise  # whoever read our output has gone: for all commands alike
    except ImportError as error:
        fail(f"{error}. A pipeline needs: pip install 'moldau[pipeline]'")
    except (
        Exception
    ) as error:  # of files, tables, registries, the cluster, Spark and the steps of users: each says what
        from moldau.pipeline.said import words

        fail(reason(error) if isinstance(error, OSError) and error.strerror else words(error))


def open_file(file: Path) -> tuple[Pipeline, PipelineFolder]:
    from moldau.pipeline.reading import PipelineError, load

    with explained():
        try:
            found = load(file)
        except PipelineError as error:
            fail(str(error))
        from moldau.pipeline.folder import PipelineFolder

        folder = PipelineFolder(found)
        folder.refuse_other()
        return found, folder


def start_spark(pipeline: Pipeline) -> SparkSession:
    """A session whose command is ended by Ctrl-C as any other is: PySpark would first talk to the JVM about it, in the
    middle of what is being said to it."""
    from moldau.spark.local import session, tell_once

    before = signal.getsignal(signal.SIGINT)
    found = session(pipeline.name)
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)
    tell_once(found)
    return found


def write_page(pipeline: Pipeline, folder: PipelineFolder, path: Path) -> None:
    """Write the page so that whoever looks meanwhile sees the old one or the new one."""
    from moldau.pipeline.page import page, shown_of

    text, fresh = (
        page(shown_of(pipeline, folder), round(time.time() * 1000)),
        path.with_name(f"{path.name}.{os.getpid()}"),
    )
    try:
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        fail(f"{path} cannot be written: {error.strerror}")


def tell(line: BookLine) -> None:
    """A batch in a line, for people."""
    parts = [f"{line.read:,} read"]
    for one in ("skip", "dlq"):
        count = sum(each.records for each in line.counts if each.outcome == one)
        parts += [f"{count:,} left out" if one == "skip" else counted(count, "dead letter")] if count else []
    parts += [f"{wrote.rows:,} to {name.rsplit('/', 1)[-1]}" for name, wrote in line.sinks.items()]
    note(f"{time.strftime('%H:%M:%S')} {line.kind} {line.batch}: {', '.join(parts)} ({line.took_ms:,} ms)")
