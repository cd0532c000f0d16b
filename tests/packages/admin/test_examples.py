"""Every command line that a help text or a page shows is one that the commands take: words, options, kinds of values.

What they do is told by the tests that run them as they are shown, on clusters (RUN_BY).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from moldau.admin.cli import cli
from tests.packages.admin.native import NATIVE

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES.remove(ROOT / "docs" / "reference-cli.md")  # made of the help texts
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[|(]\s*|\$\s+|&&\s+)(?:\.venv/bin/)?moldau ((?:[a-z-]+)(?: .*)?)$")
ENDS = {"|", ">", "<", "2>", "&", "&&", "||", ";"}
"""Where a shell ends the words of a command."""
TESTS = ROOT / "tests"
RUN_BY = {
    **{f"moldau {noun}": ("live/test_command_line.py",) for noun in NATIVE},
    **{
        f"moldau {noun}": ("live/test_reassign_apply.py",)
        for noun in ("reassign", "leader", "quorum", "replica", "log")
    },
    "moldau broker": ("live/test_command_line.py", "live/test_reassign_apply.py"),
    "moldau doctor": ("live/test_command_line.py", "live/test_adopt.py"),
    "moldau adopt": ("live/test_adopt.py",),
    "moldau job": ("live/test_cluster_pipelines.py",),
    "moldau publish": ("live/test_publish.py",),
    "moldau spark": ("packages/spark/test_table_commands.py",),
    "moldau pipeline": ("live/test_snippets.py",),  # as tutorial.md and pipelines.md show the same lines
    "README.md": ("live/test_snippets.py", "live/test_doctor_zookeeper.py", "packages/simulator/test_runs.py"),
    "CONTRIBUTING.md": ("packages/simulator/test_runs.py",),
    "adopt.md": ("live/test_adopt.py", "live/test_mixed_kraft.py"),
    "cli.md": ("live/test_command_line.py",),
    "cluster-pipelines.md": ("live/test_cluster_pipelines.py",),
    "0013-dynamic-voters.md": ("live/test_dynamic_voters.py",),
    "migration.md": ("live/test_migration.py",),
    "package.md": ("live/test_snippets.py",),
    "pipelines.md": ("live/test_snippets.py", "live/test_pipeline_groups.py", "live/test_pipeline_export.py"),
    "spark.md": ("packages/spark/test_table_commands.py",),
    "testing-method.md": ("packages/simulator/test_runs.py",),
    "tools.md": ("live/test_reassign_apply.py",),
    "tutorial.md": ("live/test_snippets.py",),
    "tutorial-pipelines.md": ("live/test_pipeline_tutorial.py",),
}
"""The tests that run what a page, or the help texts below a noun, show."""


def words(line: str) -> list[str] | None:
    """The words behind `moldau` in a line of a shell, without its comment; None when it calls something else."""
    found = COMMAND.search(re.sub(r"\$\([^)]*\)", "ID", line.strip()))
    if found is None:
        return None
    out = []
    for word in shlex.split(found[1], comments=True):
        if word in ENDS:
            break
        out.append(word)
    return out


def helps(command: click.Command, name: str = "") -> Iterator[tuple[str, str]]:
    """The lines of a help text and of those below it that are examples, with the command's name."""
    for line in (command.help or "").splitlines():
        if words(line.strip("\b ")) is not None and "`" not in line:
            yield f"moldau {name} --help", line.strip("\b ")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from helps(found, f"{name} {below}".strip())


def shown() -> list[tuple[str, str]]:
    """Where a command line is shown, and the line."""
    lines = list(helps(cli))
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text()):
            joined = block.replace("\\\n", " ") if language in ("", "sh", "text", "console") else ""
            lines += [(page.name, line) for line in joined.splitlines() if words(line) is not None]
    return lines


def words_of(place: str, *begins: str) -> list[list[str]]:
    """The words of each command line that a page or a help text shows and that begins so, for the test that runs it."""
    found = [words(line) or [] for where, line in shown() if where == place]
    return [given for given in found if tuple(given[: len(begins)]) == begins]


def parsed(given: list[str]) -> str:
    """The name of the command that takes these words; UsageError where none does. Nothing is run, no file need be."""
    command: click.Command = cli
    context = click.Context(cli, info_name="moldau")
    name: list[str] = []
    while isinstance(command, click.Group):
        if not given:
            assert command.invoke_without_command, f"moldau {' '.join(name)} wants another word"
            break
        below = command.get_command(context, given[0])
        if below is None:
            raise click.UsageError(f"moldau {' '.join(name)} has no {given[0]}")
        name.append(given[0])
        command, given = below, given[1:]
        context = click.Context(command, info_name=name[-1], parent=context)
    command.make_context(name[-1], given, parent=context.parent)
    return " ".join(name)


@pytest.fixture(autouse=True)
def no_file_need_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(str(value)))


def test_the_examples_are_found() -> None:
    found = shown()
    assert len(found) > 100
    assert {"README.md", "tutorial.md", "pipelines.md", "moldau topic --help"} <= {place for place, _ in found}


def test_whatever_shows_an_example_is_named_with_the_tests_that_run_it() -> None:
    places = {place if place.endswith(".md") else " ".join(place.split()[:2]) for place, _ in shown()}
    assert places <= RUN_BY.keys(), "say which test runs what is shown there"
    for place, tests in RUN_BY.items():
        for test in tests:
            text = (TESTS / test).read_text()
            named = place.removeprefix("moldau ")  # a page, or a noun: by its name, or as one of NATIVE
            assert re.search(rf"\b{re.escape(named)}\b", text) or (named in NATIVE and "NATIVE" in text), (test, place)


@pytest.mark.parametrize(("place", "line"), shown())
def test_every_example_is_a_command_line_that_is_taken(place: str, line: str) -> None:
    given = words(line)
    assert given is not None
    try:
        parsed(given)
    except click.UsageError as error:
        pytest.fail(f"{place} shows {line!r}: {error.format_message()}")
