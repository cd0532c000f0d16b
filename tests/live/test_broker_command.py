"""`moldau broker`: a look at brokers, a refused and a forced stop with progress, and a roll; what nodes' pages say."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau import Cluster
from moldau.admin.cli import cli


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster that commands find in its folder, as after `moldau up --detach`."""
    data = tmp_path_factory.mktemp("commands") / "cluster"
    # Nobody loses the lead of the quorum or its session because a machine is slow: a roll goes by who leads.
    patience = {"controller.quorum.fetch.timeout.ms": "10000", "broker.session.timeout.ms": "18000"}
    Cluster(3, data=data, config={"http.listener": "127.0.0.1:0", **patience}).start().leave()
    yield data
    assert run("down", "--data", data).exit_code == 0
    assert Cluster(data=data).alive() == []


@pytest.fixture
def find(folder: Path) -> Iterator[Callable[[], Cluster]]:
    """Finds the cluster as the folder tells of it now: commands start and stop its nodes."""
    with ExitStack() as stack:

        def found() -> Cluster:
            cluster = Cluster(data=folder)
            stack.callback(cluster.leave)
            return cluster

        yield found


def test_brokers_are_stopped_with_reasons_and_progress_and_rolled(folder: Path, find: Callable[[], Cluster]) -> None:
    def broker(verb: str, *words: object) -> Result:
        return run("broker", verb, *words, "--data", folder)

    cluster = find()
    cluster.create_topic("safe", partitions=6, replication_factor=3)
    assert broker("stop", 9).exit_code == 2
    cluster.wait_until_in_sync()

    def fine() -> bool:
        """Whether it may be stopped, which it may not while a controller is behind."""
        said = broker("stop", 2, "--dry-run")
        return (said.exit_code, said.stdout) == (0, "node 2 can be stopped.\n")

    cluster.wait_until(fine, "node 2 can be stopped")
    last = cluster.controller()
    rolled = broker("roll")
    assert rolled.exit_code == 0, rolled.output
    order = [*(id for id in (1, 2, 3) if id != last), last]
    assert [line.split(" after")[0] for line in rolled.stdout.splitlines() if " after " in line] == [
        f"node {id}: {what}" for id in order for what in ("stopped", "serves")
    ]
    cluster = find()
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

    def listed() -> dict[int, dict[str, object]]:
        said = run("broker", "list", "--bootstrap-server", cluster.bootstrap_servers, "-o", "json").stdout
        return {row["broker"]: row for row in json.loads(said)}

    cluster.wait_until(
        lambda: (
            {id: row["state"] for id, row in listed().items()}
            == {id: "fenced" if id == holder else "serves" for id in (1, 2, 3)}
        ),
        "whoever was stopped is listed as such, and so are the others",
    )
    cluster.wait_until(
        lambda: [id for id, row in listed().items() if row["controller"]] == [cluster.controller()],
        "the controller is the quorum's leader",
    )
    next_one = next(id for id in (1, 2, 3) if id != holder)
    cluster.wait_until(lambda: "no majority" in broker("stop", next_one, "--dry-run").output, "no other may go")
    assert broker("start", holder).exit_code == 0
    cluster.wait_until_in_sync()


RESTART = """
import os
import sys
from moldau import Cluster

data, id, marker, refused = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
with open(marker, "a") as told:
    told.write(f"{id}\\n")
if os.path.exists(refused) and open(refused).read() == str(id):
    sys.exit(7)
Cluster(data=data).restart(id, wait=False)
"""


def test_brokers_of_another_cluster_are_stopped_and_rolled_by_a_command(
    folder: Path, find: Callable[[], Cluster], tmp_path: Path
) -> None:
    cluster = find()
    cluster.wait_until_in_sync()
    (tmp_path / "restart.py").write_text(RESTART)
    marker, state = tmp_path / "restarted", tmp_path / "state.json"
    fails = tmp_path / "fails"
    script = f"{sys.executable} {tmp_path / 'restart.py'} {folder} {{id}} {marker} {fails}"

    def foreign(verb: str, *words: object) -> Result:
        return run("broker", verb, *words, "--bootstrap-server", cluster.bootstrap_servers)

    assert foreign("stop", 9).stderr == "moldau: broker 9 is not alive; alive are 1, 2, 3\n"
    holder = cluster.leader("alone", 0)
    assert foreign("stop", holder, "--check").exit_code == 1
    refused = foreign("stop", holder, "--command", script)
    assert (refused.exit_code, "would have no leader" in refused.stderr, marker.exists()) == (1, True, False)
    told = foreign("stop", holder, "--force")
    assert (told.exit_code, "send it SIGTERM" in told.stdout) == (0, True)
    assert foreign("roll").exit_code == 2

    order = [*(id for id in (1, 2, 3) if id != cluster.controller()), cluster.controller()]
    words = ("--force", "--state", state, "--command")
    fails.write_text(str(order[1]))
    broken = foreign("roll", *words, script)
    assert broken.exit_code == 1, broken.output
    assert f"the roll ends at broker {order[1]}" in broken.stderr
    assert "ended with 7" in broken.stderr
    assert json.loads(state.read_text())["done"] == order[:1]
    assert "of a roll by another command" in foreign("roll", *words, f"{script} other").stderr
    fails.unlink()
    going_on = foreign("roll", *words, script)
    assert going_on.exit_code == 0, going_on.output
    assert f"restarted before: {order[0]}" in going_on.stderr
    told_of = [int(line) for line in marker.read_text().split()]
    assert told_of[:2] == order[:2]
    assert sorted(set(told_of)) == [1, 2, 3]
    assert len(told_of) == 4, "nobody twice but for the one that failed"
    assert not state.exists()
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"cluster": "another", "done": []}')
    assert "is of a roll of cluster another" in foreign("roll", "--state", elsewhere, "--command", "true").stderr


def get(cluster: Cluster, id: int, path: str) -> tuple[int, str]:
    """Status and body of a node's page; its log says where it is."""
    ports = re.findall(
        r"metrics and health at http://127.0.0.1:(\d+)/", (cluster.node(id).logs / "server.log").read_text()
    )
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def figures(cluster: Cluster, id: int) -> dict[str, float]:
    status, text = get(cluster, id, "/metrics")
    assert status == 200
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_pages_say_who_rules_what_is_offline_and_who_may_go(find: Callable[[], Cluster]) -> None:
    cluster = find()
    cluster.wait_until_in_sync()
    cluster.create_topic("watched", partitions=3, replication_factor=3)
    cluster.wait_until_in_sync()
    controller, manager = "kafka_controller_kafkacontroller_", "kafka_server_replicamanager_"

    def at_rest() -> bool:
        """Nodes are asked one after the other, and leads may be given back meanwhile."""
        seen = [figures(cluster, id) for id in (1, 2, 3)]
        offline = sum(one[controller + "offlinepartitionscount"] for one in seen)
        led = sum(one[manager + "leadercount"] for one in seen)
        active = sum(one[controller + "activecontrollercount"] for one in seen)
        return offline == 0 and active == 1 and led == seen[0][controller + "globalpartitioncount"]

    cluster.wait_until(at_rest, "one controller, and every partition led once")
    all_of = {id: figures(cluster, id) for id in (1, 2, 3)}
    name = 'kafka_cluster_partition_insyncreplicascount{topic="watched",partition="0"}'
    assert {one.get(name) for one in all_of.values()} <= {3, None}, "told by the leader"
    for path in ("/livez", "/readyz", "/safe-to-restart"):
        cluster.wait_until(lambda path=path: get(cluster, 1, path) == (200, "ok\n"), path)  # type: ignore[misc]
    cluster.wait_until(lambda: get(cluster, 1, "/healthz")[0] == 200, "healthy")
    assert get(cluster, 1, "/")[0] == 404

    cluster.kill(3)

    def seen() -> bool:
        found = figures(cluster, 1)
        counts = (found[controller + "activebrokercount"], found[controller + "fencedbrokercount"])
        return counts == (2, 1) and found[manager + "underreplicatedpartitions"] > 0

    cluster.wait_until(seen, "its death is in the figures")
    cluster.restart(3)
    cluster.wait_until_in_sync()
