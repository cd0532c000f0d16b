"""``moldau migrate`` where there is nothing to do: it says so, and what there is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.admin.migrate import migrate
from moldau.cluster.nodes import ClusterSpec, NodeSpec


def on_the_quorums_plane(folder: Path) -> None:
    node = NodeSpec(1, "broker", str(folder / "node-1"), port=1)
    node.properties.parent.mkdir(parents=True)
    node.properties.write_text("process.roles=broker\nnode.id=1\n")
    ClusterSpec("id", [node]).save(folder)


def test_without_a_cluster_it_says_how_to_make_one(tmp_path: Path) -> None:
    done = CliRunner().invoke(migrate, ["status", "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "moldau up --mode zookeeper" in done.output


def test_a_cluster_on_the_quorums_plane_has_nothing_to_migrate(tmp_path: Path) -> None:
    on_the_quorums_plane(tmp_path)
    done = CliRunner().invoke(migrate, ["status", "-o", "json", "--data", str(tmp_path)])
    assert json.loads(done.output) == {"progress": "finished", "brokers": {"1": "quorum"}, "next": "nothing"}


@pytest.mark.parametrize("step", ["start", "brokers", "rollback"])
def test_no_step_is_taken_on_it(tmp_path: Path, step: str) -> None:
    on_the_quorums_plane(tmp_path)
    done = CliRunner().invoke(migrate, [step, "--data", str(tmp_path)])
    assert done.exit_code == 1
    assert "moldau: " in done.output


def test_finalise_may_be_called_again_once_it_is_done(tmp_path: Path) -> None:
    on_the_quorums_plane(tmp_path)
    done = CliRunner().invoke(migrate, ["finalise", "--data", str(tmp_path)])
    assert done.exit_code == 0
    assert "finished" in done.output
