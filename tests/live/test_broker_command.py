"""`moldau broker`: a look at brokers, a refused and a forced stop with progress, and a roll under acks=all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau import Cluster
from moldau.admin.cli import cli


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cluster that commands find in its folder, as after `moldau up --detach`."""
    data = tmp_path / "cluster"
    Cluster(3, data=data).start()
    yield data
    assert run("down", "--data", data).exit_code == 0
    assert Cluster(data=data).alive() == []


def test_brokers_are_stopped_with_reasons_and_progress_and_rolled(folder: Path) -> None:
    def broker(verb: str, *words: object) -> Result:
        return run("broker", verb, *words, "--data", folder)

    Cluster(data=folder).create_topic("safe", partitions=6, replication_factor=3)
    assert broker("stop", 9).exit_code == 2
    fine = broker("stop", 2, "--dry-run")
    assert (fine.exit_code, fine.stdout) == (0, "node 2 can be stopped.\n"), fine.output
    rolled = broker("roll")
    assert rolled.exit_code == 0, rolled.output
    assert [line.split(" after")[0] for line in rolled.stdout.splitlines() if " after " in line] == [
        f"node {id}: {what}" for id in (1, 2, 3) for what in ("stopped", "serves")
    ]
    cluster = Cluster(data=folder)
    cluster.create_topic("alone", partitions=3, replication_factor=1)
    holder = cluster.leader("alone", 0)
    refused = broker("stop", holder)
    assert refused.exit_code == 1
    assert "would have no leader: nobody else is in sync: alone-0" in refused.output
    assert holder in cluster.alive()
    stopped = broker("stop", holder, "--force")
    assert stopped.exit_code == 0, stopped.output
    assert f"node {holder}: stopped after" in stopped.stdout
    assert broker("stop", holder).stdout == f"node {holder} does not run.\n"
    rows = run("broker", "list", "--bootstrap-server", cluster.bootstrap_servers, "-o", "tsv").stdout.splitlines()
    assert [int(row.split("\t")[0]) for row in rows[1:]] == sorted({1, 2, 3} - {holder})
    next_one = next(id for id in (1, 2, 3) if id != holder)
    assert "no majority" in broker("stop", next_one, "--dry-run").output
    assert broker("start", holder).exit_code == 0
    cluster.wait_until_in_sync()
