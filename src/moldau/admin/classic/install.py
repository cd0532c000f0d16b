"""``moldau install-scripts``: Kafka's scripts in a folder, each of them a call of this very Moldau."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from moldau.admin.classic.line_reader import STDIN_FAULT
from moldau.admin.classic.registry import RUN_CLASS, SCRIPTS
from moldau.admin.main import fail, reason


@click.command("install-scripts")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace files of these names, whatever they are.")
def install_scripts(folder: Path, force: bool) -> None:
    """Write kafka-topics.sh and its like into FOLDER, which is made if it is not there.

    They need neither Java nor Apache Kafka. Files that are there already stay, unless they are ours.
    """
    names = sorted((*SCRIPTS, RUN_CLASS))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = [name for name in names if (folder / name).exists() and not _is_ours(folder / name)]
        if strangers and not force:
            fail(f"{folder} has {', '.join(strangers)} of somebody else; --force replaces them")
        for name in names:
            _write(folder / name)
    except OSError as error:
        fail(reason(error))
    print(f"{len(names)} scripts in {folder}")


_MARK = "# by `moldau install-scripts`"
_NO_FOLDER = f"[ ! -d /dev/stdin ] || {{ export {STDIN_FAULT}='Is a directory'; exec </dev/null; }}"
"""Python does not start with a folder as its standard input; Java does, and fails where it is read."""


def _is_ours(path: Path) -> bool:
    return _MARK.encode() in path.read_bytes()


def _write(path: Path) -> None:
    """Put the script in place whole: one that is replaced while it runs is read to its end."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(
        f'#!/bin/sh\n{_MARK}\n{_NO_FOLDER}\nexec {shlex.quote(sys.executable)} -P -m moldau {path.name} "$@"\n'
    )
    new.chmod(0o755)
    new.replace(path)
