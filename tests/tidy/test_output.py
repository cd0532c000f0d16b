"""What commands tell goes by ``output.py``, where escape sequences in names from a cluster lose their effect."""

from __future__ import annotations

import ast
from pathlib import Path

ADMIN = Path(__file__).resolve().parents[2] / "src" / "moldau" / "admin"
OWN = {
    "output.py",
    "main.py",  # loads `output` when it fails, and no sooner
    "node.py",  # a node, which tells of its own file and has no cluster yet
    "completing.py",  # the script for a shell, as click gives it
    "cli.py",  # the end of the line in which a terminal shows ^C
}
APART = ("classic", "demo")
"""Kafka's tools, whose output is Kafka's byte for byte; and a demonstration, of names that it makes."""
STREAMS = ("sys.stdout.write", "sys.stderr.write", "click.echo", "click.secho")


def written(path: Path) -> list[str]:
    """The calls in a file that write text as it is."""
    calls = [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)]
    names = [(one.lineno, ast.unparse(one.func)) for one in calls]
    return [f"{path}:{line}: {name}" for line, name in names if name == "print" or name in STREAMS]


def test_no_command_prints_but_through_output() -> None:
    files = [
        path for path in sorted(ADMIN.rglob("*.py"))
        if path.name not in OWN and not set(APART) & set(path.relative_to(ADMIN).parts)
    ]  # fmt: skip
    assert len(files) > 50
    assert [line for path in files for line in written(path)] == []
