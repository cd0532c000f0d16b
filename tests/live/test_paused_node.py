"""A node that a signal holds (SIGSTOP) is told from one that starts, and no roll leaves it with an order to stop."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from moldau import Cluster
from moldau.admin.cli import cli


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def test_a_paused_node_is_not_answering_and_a_roll_ends_before_it_tells_it_to_stop(tmp_path: Path) -> None:
    counts_as_alive = {"broker.session.timeout.ms": "600000"}  # however long all that is asked takes
    with Cluster(2, controllers=1, data=tmp_path, config=counts_as_alive) as cluster:
        cluster.create_topic("t", partitions=2, replication_factor=2)
        cluster.wait_until(lambda: run("status", "--data", tmp_path).exit_code == 0, "all is well")
        cluster.pause(2)
        try:
            shown = run("status", "--data", tmp_path, "-o", "json")
            assert shown.exit_code == 1
            states = {row["node"]: row["state"] for row in json.loads(shown.stdout)["nodes"]}
            assert states == {1: "serving", 2: "not answering", 101: "serving"}
            assert "kill -CONT" in shown.stderr

            for words in (["roll", "--timeout", 1], ["roll", "--force"], ["stop", 2, "--force"]):
                refused = run("broker", *words, "--data", tmp_path)
                assert refused.exit_code == 1, refused.output
                assert "node 2 does not answer, and was not told to stop" in refused.stderr
            assert not (tmp_path / "roll.json").exists()
            listed = run("group", "list", "-b", cluster.bootstrap_servers)
            assert listed.exit_code == 4, listed.output
            assert "broker 2 does not answer" in listed.stderr
            state, command = tmp_path / "state", f"touch {tmp_path / 'begun'}"
            gone_on = {"cluster": cluster.cluster_id, "done": [1], "command": command}
            state.write_text(json.dumps(gone_on))
            words = ["--bootstrap-server", cluster.bootstrap_servers, "--state", state, "--command"]
            rolled = run("broker", "roll", "--timeout", 60, *words, command)
            assert rolled.exit_code == 1, rolled.output
            assert not (tmp_path / "begun").exists(), "the command was run for a broker that does not answer"
        finally:
            cluster.resume(2)
        assert cluster.alive() == [1, 2, 101]
        cluster.wait_until_in_sync()
        assert run("broker", "stop", 2, "--check", "--data", tmp_path).exit_code in (0, 1), "nothing was left to it"
        assert 2 in cluster.alive()
