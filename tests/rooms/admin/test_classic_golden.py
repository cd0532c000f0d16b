"""Without a cluster, and without a JVM, Moldau's classic tools say what was recorded of Apache Kafka 4.3.1's."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from moldau.admin.classic.registry import CLASSES, SCRIPTS
from moldau.admin.classic.run import run
from tests.golden.classic_lines import LINES, masked

GOLDEN = json.loads((Path(__file__).resolve().parents[2] / "golden" / "classic-4.3.json").read_text())


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_answered_as_kafka_does(line: str) -> None:
    script, *words = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(script, words)
    assert [status, masked(out.getvalue()), masked(err.getvalue())] == GOLDEN[line], "see record_classic_tools.py"


def test_every_recorded_tool_is_there_and_every_class_has_a_module() -> None:
    assert {line.split()[0] for line in LINES} <= set(SCRIPTS)
    for module in {*SCRIPTS.values(), *CLASSES.values()}:
        assert find_spec(f"moldau.admin.classic.{module}") is not None
