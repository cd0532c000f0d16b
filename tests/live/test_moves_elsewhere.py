"""`moldau reassign` and `moldau broker roll` in ZooKeeper mode and on Apache Kafka 4.3.1.

A plan outlives kill -9 of its process and of the controller, is paused, called off and rolled back, and leaves no
throttle behind; all brokers are restarted by a command. On Moldau's quorum: test_reassign_apply.py,
test_broker_command.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_peer import KafkaPeer, wait_until
from throttles import later, throttles

from conftest import SYSTEMS
from moldau.client import admin
from moldau.client.admin import NewTopic
from moldau.client.sync import Cluster
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build

PARTITIONS = 4
PATIENCE_S = 240


@pytest.fixture(scope="module", params=["zookeeper", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaPeer]:
    system = {"zookeeper": "moldau-zookeeper"}.get(request.param, request.param)
    with SYSTEMS[system](nodes=3, properties={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


class Moldau:
    """The command, in processes of its own."""

    def __init__(self, cluster: KafkaPeer) -> None:
        self.environment = {**os.environ, "MOLDAU_BOOTSTRAP": cluster.bootstrap_servers}

    def start(self, *words: object) -> subprocess.Popen[str]:
        pipe, command = subprocess.PIPE, [sys.executable, "-m", "moldau", *map(str, words)]
        return subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        said, told = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(list(map(str, words)), process.returncode, said, told)

    def status(self, plan: Path) -> dict[str, Any]:
        ended = self.run("reassign", "status", "--plan", plan, "-o", "json")
        assert ended.returncode in (0, 3, 4), ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def wait_until_moving(self, plan: Path) -> None:
        wait_until(lambda: self.status(plan)["counts"]["moving"] > 0, "moves are under way", PATIENCE_S)


def make(cluster: KafkaPeer, name: str, batches: int, partitions: int = PARTITIONS) -> None:
    """A topic on brokers 1 and 2 with records that one fetch does not take."""
    with Cluster(cluster.bootstrap_servers) as client:
        wish = NewTopic(name=name, assignment=dict.fromkeys(range(partitions), [1, 2]))
        assert client.run(admin.create_topics(client.client, [wish]))[name].ok
        wait_until(lambda: is_led(client, name, partitions), "every partition is led")
        for number in range(partitions):
            place = TopicPartition(name, number)
            for _ in range(batches):
                assert client.produce(place, build([(0, None, bytes(400_000), ())])).code is Code.NONE


def is_led(client: Cluster, name: str, partitions: int) -> bool:
    topic = client.topics([name]).get(name)
    return topic is not None and [part.leader > 0 for part in topic.partitions.values()] == [True] * partitions


def replicas(cluster: KafkaPeer, name: str) -> list[list[int]]:
    with Cluster(cluster.bootstrap_servers) as client:
        return [part.replicas for _, part in sorted(client.topics([name])[name].partitions.items())]


def left_behind(cluster: KafkaPeer, name: str) -> dict[str, str | None]:
    with Cluster(cluster.bootstrap_servers) as client:
        return throttles(client, name, client.brokers())


def rates(cluster: KafkaPeer, name: str) -> set[str | None]:
    """Those that brokers have, one and the same when all are set."""
    found = left_behind(cluster, name)
    return {found.get(f"{id} leader.replication.throttled.rate") for id in cluster.ports}


def controller(moldau: Moldau) -> int:
    rows = json.loads(moldau.run("broker", "list", "-o", "json").stdout)
    return next((int(row["broker"]) for row in rows if row["controller"]), -1)


def write_plan(path: Path, name: str, wanted: list[int], partitions: int = PARTITIONS) -> Path:
    entries = [{"topic": name, "partition": n, "replicas": wanted} for n in range(partitions)]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


@pytest.mark.timeout(600)
def test_a_plan_outlives_its_process_and_the_controller_and_is_rolled_back(cluster: KafkaPeer, tmp_path: Path) -> None:
    moldau = Moldau(cluster)
    make(cluster, "moved", batches=3)
    plan = write_plan(tmp_path / "plan.json", "moved", [3, 1])
    words = ("reassign", "apply", "--plan", plan, "--max-moves", "2", "--throttle")
    first = moldau.start(*words, "100kB")
    wait_until(Path(f"{plan}.journal").exists, "it has begun")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert moldau.status(plan)["state"] == "running"
    again = moldau.start(*words, "2MB")
    # The controller is to die while this one moves.
    wait_until(lambda: rates(cluster, "moved") == {"2000000"}, "the new rate is set")
    dead = controller(moldau)
    cluster.kill(dead)
    cluster.restart(dead)
    said, told = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, said + told
    wait_until(lambda: replicas(cluster, "moved") == [[3, 1]] * PARTITIONS, "all is as planned")
    if verify := later(told):  # the moves need no broker 2: they may end before it is back
        assert moldau.run(*verify).returncode == 0
    wait_until(lambda: left_behind(cluster, "moved") == {}, "no throttle stays")
    back = moldau.run("reassign", "rollback", "--plan", plan, "--yes")
    assert back.returncode == 0, back.stderr
    wait_until(lambda: replicas(cluster, "moved") == [[1, 2]] * PARTITIONS, "all is where it was")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("cluster", ["zookeeper"], indirect=True)
def test_a_plan_pauses_goes_on_and_is_called_off(cluster: KafkaPeer, tmp_path: Path) -> None:
    """Not on Kafka, which moves a megabyte before it applies a throttle: moves may have ended before the pause."""
    moldau = Moldau(cluster)
    make(cluster, "paused", batches=4, partitions=16)  # of which each takes seconds, one after the other
    plan = write_plan(tmp_path / "plan.json", "paused", [3, 2], partitions=16)
    running = moldau.start("reassign", "apply", "--plan", plan, "--max-moves", "1", "--throttle", "150kB")
    moldau.wait_until_moving(plan)
    would = json.loads(moldau.run("reassign", "pause", "--plan", plan, "--dry-run", "-o", "json").stdout)
    assert {row["would"] for row in would} <= {"go on moving", "wait", "stay"}
    paused = moldau.run("reassign", "pause", "--plan", plan)
    assert paused.returncode == 0, paused.stderr
    assert running.wait(PATIENCE_S) == 3, running.communicate()
    running.communicate()
    state = moldau.status(plan)
    assert (state["state"], state["counts"]["moving"], state["throttled"]) == ("paused", 0, False)
    resumed = moldau.start("reassign", "resume", "--plan", plan)
    moldau.wait_until_moving(plan)
    off = moldau.run("reassign", "cancel", "--plan", plan, "--timeout", str(PATIENCE_S))
    assert off.returncode == 0, off.stderr
    assert re.search(r"\d moves? called off", off.stderr)
    assert resumed.wait(PATIENCE_S) == 3, resumed.communicate()
    resumed.communicate()
    wait_until(
        lambda: all(sorted(one) in ([1, 2], [2, 3]) for one in replicas(cluster, "paused")), "nothing is in between"
    )
    wait_until(lambda: left_behind(cluster, "paused") == {}, "no throttle stays")


@pytest.mark.timeout(600)
def test_all_brokers_are_restarted_one_after_the_other(cluster: KafkaPeer, tmp_path: Path) -> None:
    moldau = Moldau(cluster)
    wishes = tmp_path / "wishes"
    wishes.mkdir()
    script = f"touch {wishes}/{{id}}; while [ -e {wishes}/{{id}} ]; do sleep 0.1; done"
    state = tmp_path / "roll.json"
    words = ("broker", "roll", "-b", cluster.bootstrap_servers, "--timeout", "200", "--state", state, "--command")
    would = moldau.run(*words, script, "--dry-run")
    assert sorted(re.findall(r"^node (\d) would be restarted", would.stdout, re.MULTILINE)) == ["1", "2", "3"], would
    roll = moldau.start(*words, script)
    restarted: list[int] = []

    def ended() -> bool:
        for wish in wishes.iterdir():
            restarted.append(int(wish.name))
            cluster.stop_node(int(wish.name))
            cluster.restart(int(wish.name))
            wish.unlink()
        return roll.poll() is not None

    wait_until(ended, "the roll has ended", 500)
    said, told = roll.communicate()
    assert roll.returncode == 0, said + told
    assert sorted(restarted) == [1, 2, 3]
    assert not state.exists()
