"""What `moldau publish` refuses before it asks a cluster, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.cli import cli


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "state-change.jsonl").write_text('{"time_ms":1,"node":4}\n')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("{logs}/gone", 1, "gone is not there; name a folder of a node, or above those of several"),
        ("{logs}/state-change.jsonl", 1, "state-change.jsonl is no folder"),
        ("{logs} --every 10ms", 2, "--every: at least 1s"),
        ("{logs} --metrics a --state-changes a", 2, "--state-changes and --metrics are both a"),
        ("{logs} --page 1", 2, "--page '1': NODE=HOST:PORT is expected, as 1=127.0.0.1:9308"),
        ("{logs} --page 1=127.0.0.1:1", 2, "--page 1=...: there is no node 1, there are 4"),
        ("{logs} --once -b 127.0.0.1:1", 1, "127.0.0.1:1: nobody listens there"),
        ("{logs} --patient -b host:port", 2, "--bootstrap-server host:port"),
        ("", 2, "Missing argument 'PATHS...'"),
    ],
)
def test_what_cannot_be_published_is_told_in_a_line(logs: Path, words: str, status: int, says: str) -> None:
    done = CliRunner().invoke(cli, ["publish", *words.format(logs=logs).split()])
    assert says in done.stderr
    assert (done.exit_code, done.stdout) == (status, "")


def test_a_folder_without_nodes_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["publish", str(tmp_path)])
    assert done.exit_code == 1
    assert "neither a state-change.jsonl nor a server.properties of a node is in it or below" in done.stderr
