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
from tests.golden.classic_lines import BAD_JSON, LINES, LINES_OF_2_8, masked

HERE = Path(__file__).resolve().parents[2] / "golden"
GOLDEN = {name: json.loads((HERE / f"classic-{name}.json").read_text()) for name in ("4.3", "2.8")}
BAD_JSON_SAID = json.loads((HERE / "bad-json-4.3.json").read_text())


@pytest.mark.parametrize(
    ("release", "line"), [*(("4.3", line) for line in LINES), *(("2.8", line) for line in LINES_OF_2_8)]
)
def test_a_line_is_answered_as_kafka_does(release: str, line: str) -> None:
    script, *words = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(script, words)
    assert [status, masked(out.getvalue()), masked(err.getvalue())] == GOLDEN[release][line], (
        "see record_classic_tools.py"
    )


@pytest.mark.parametrize("text", BAD_JSON)
def test_a_plan_that_is_no_json_is_refused_as_kafka_does(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan").write_text(text)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        words = ["--bootstrap-server", "127.0.0.1:1", "--execute", "--reassignment-json-file", str(tmp_path / "plan")]
        assert run("kafka-reassign-partitions.sh", words) == 1
    assert out.getvalue() == BAD_JSON_SAID[text], "see record_classic_tools.py"


def test_every_recorded_tool_is_there_and_every_class_has_a_module() -> None:
    assert {line.split()[0] for line in (*LINES, *LINES_OF_2_8)} <= set(SCRIPTS)
    for module in {*SCRIPTS.values(), *CLASSES.values()}:
        assert find_spec(f"moldau.admin.classic.{module}") is not None
