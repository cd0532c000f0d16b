"""Where there are no rows, a script gets what it can read all the same: an empty list, or the names of the columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from moldau.admin.cli import cli

LINE = (
    "[2026-11-22 10:00:00,100] INFO [Controller id=1 epoch=5] Changed partition orders-0 from NewPartition to"
    " OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=0, isrWithBrokerEpoch=[], leaderRecoveryState="
    "RECOVERED, partitionEpoch=0) (state.change.logger)\n"
)


@pytest.mark.parametrize("words", [["job", "splits"], ["replica", "verify", "--folders"]], ids=" ".join)
def test_no_rows_are_an_empty_list_or_names_alone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(LINE)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=bW9sZGF1LW5vZGUtdGVzdA\n")

    def said(output: str) -> str:
        done = CliRunner().invoke(cli, [*words, str(tmp_path), "-o", output])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert json.loads(said("json")) == []
    assert yaml.safe_load(said("yaml")) == []
    (names,) = said("tsv").splitlines()
    assert "PARTITION" in names.split("\t")
    assert said("text") == ""
