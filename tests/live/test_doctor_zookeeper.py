"""What the doctor and the status say of a cluster on ZooKeeper whose brokers serve, though something is wrong there. It
is started as README.md shows it for a ZooKeeper of one's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka_peer import wait_until
from tests.packages.admin.test_examples import words_of
from znodes import in_zookeeper, znode

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.cluster.ensemble import LocalEnsemble
from moldau.model import Code, TopicPartition
from moldau.ports.zookeeper import Create, Delete
from moldau.wire.batch import build
from moldau.zookeeper.session import Session

STATE = "/brokers/topics/t/partitions/1/state"
NO_ISR = '{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[]}'
NAMES_99 = b'{"version":2,"brokerid":99,"timestamp":"1","kraftControllerEpoch":-1}'


def findings(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """What the doctor finds: severity and words, by what it is about."""
    run = CliRunner().invoke(cli, ["doctor", "-o", "json", "-b", cluster.bootstrap_servers])
    found = json.loads(run.stdout)
    assert (run.exit_code == 4) == any(one["severity"] in ("error", "warning") for one in found), run.output
    return {one["about"]: (one["severity"], one["what"]) for one in found}


@contextmanager
def started(connect: str, folder: Path) -> Iterator[Cluster]:
    """A cluster that the README's command runs on a ZooKeeper until it is told to stop, which the caller's end does."""
    (words,) = words_of("README.md", "up", "--zookeeper")
    words = [connect if word == "127.0.0.1:2181/kafka" else word for word in words]
    said = folder / "said"
    with said.open("wb") as out:
        command = [sys.executable, "-u", "-m", "moldau", *words, "--port", "0"]
        running = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait_until(lambda: "Ctrl-C stops" in said.read_text() or running.poll() is not None, "it serves", 240)
        assert running.poll() is None, said.read_text()
        with closing(Cluster(data=folder / "on-mine")) as cluster:
            yield cluster
        running.send_signal(signal.SIGINT)
        running.wait(240)
        assert "stopping ..." in said.read_text()
    finally:
        if running.poll() is None:
            down = [sys.executable, "-m", "moldau", "down", "--data", "on-mine"]
            subprocess.run(down, cwd=folder, capture_output=True, check=False)
            running.kill()
            running.wait()


def test_a_partition_whose_znode_is_garbage_is_named_and_so_is_a_zookeeper_that_is_gone(tmp_path: Path) -> None:
    """Brokers serve what they had, and all was well by the doctor."""
    with (
        LocalEnsemble(tmp_path / "ensemble") as ensemble,
        started(place := f"{ensemble.connect}/kafka", tmp_path) as cluster,
    ):
        cluster.create_topic("t", partitions=2, replication_factor=2, config={"min.insync.replicas": "1"})

        async def spoil(zk: Session) -> None:
            await zk.set(STATE, b"garbage")
            await zk.delete("/controller")

        in_zookeeper(place, spoil)
        wait_until(lambda: znode(place, "/controller") is not None, "another rules")

        def is_told(about: str, words: str) -> bool:
            severity, what = findings(cluster).get(about, ("", ""))
            return severity == "error" and words in what

        wait_until(lambda: is_told("t-1", "the controller does not know"), "it is named")

        ensemble.kill(1)
        wait_until(lambda: is_told("controller", "no leader is elected"), "that nobody decides is said")

        def status_is_told() -> bool:
            """One broker after the other hears that ZooKeeper is gone."""
            run = CliRunner().invoke(cli, ["status", "--data", str(cluster.folder), "-o", "json"])
            return run.exit_code == 1 and "no controller is active" in run.stderr

        wait_until(status_is_told, "the status says it too")
        ensemble.restart(1)
        wait_until(lambda: "controller" not in findings(cluster), "somebody decides again")


@pytest.mark.parametrize("data", [b"garbage", b"", NAMES_99], ids=["garbage", "empty", "a broker that is not there"])
def test_a_controllers_znode_that_names_nobody_is_told_of_by_brokers_and_commands_with_the_way_out(
    tmp_path: Path, data: bytes
) -> None:
    """Brokers said it once or not at all, and commands that none answers."""
    with Cluster(1, mode="zookeeper", data=tmp_path / "cluster") as cluster:
        assert cluster.ensemble is not None
        place = cluster.ensemble.connect

        async def replace(zk: Session) -> None:
            await zk.multi([Delete(path="/controller"), Create(path="/controller", data=data)])

        def doctor_tells() -> bool:
            severity, what = findings(cluster).get("controller", ("", ""))
            return severity == "error" and "nobody can be controller: " in what and "delete /controller" in what

        in_zookeeper(place, replace)
        wait_until(doctor_tells, "the doctor tells")
        log = Path(cluster.node(1).folder) / "logs/server.log"
        wait_until(lambda: "nobody can be controller: " in log.read_text(), "the broker's log tells")
        servers = ["-b", cluster.bootstrap_servers]
        made = CliRunner().invoke(cli, ["topic", "create", "late", *servers])
        assert made.exit_code == 1
        assert "delete /controller" in made.stderr
        brokers = CliRunner().invoke(cli, ["broker", "list", "-o", "json", *servers])
        assert "delete /controller" in brokers.stderr
        assert not any(one["controller"] for one in json.loads(brokers.stdout)), "it is no controller"
        moves = CliRunner().invoke(cli, ["reassign", "list", *servers])
        assert "delete /controller" in moves.stderr

        in_zookeeper(place, lambda zk: zk.delete("/controller"))
        wait_until(lambda: "controller" not in findings(cluster), "somebody decides again")
        cluster.create_topic("late")


def test_partitions_in_whose_states_nobody_is_in_sync_are_named_and_others_serve(tmp_path: Path) -> None:
    """One that nobody led, by its znode, was led no more."""
    with Cluster(1, mode="zookeeper", data=tmp_path / "cluster") as cluster:
        assert cluster.ensemble is not None
        place = cluster.ensemble.connect
        cluster.create_topic("t", partitions=3)

        async def spoil(zk: Session) -> None:
            for number, leader in ((0, 1), (1, -1)):
                await zk.set(f"/brokers/topics/t/partitions/{number}/state", (NO_ISR % leader).encode())
            await zk.delete("/controller")

        def led() -> dict[int, int]:
            return {number: one.leader for number, one in cluster.client().topics()["t"].partitions.items()}

        in_zookeeper(place, spoil)
        wait_until(
            lambda: "controller does not know" in findings(cluster).get("t-0, t-1", ("", ""))[1], "both are named"
        )
        assert led() == dict.fromkeys(range(3), 1), "who led leads on"
        cluster.restart(1)
        wait_until(lambda: led() == {0: -1, 1: -1, 2: 1}, "one is led, and all are told")
        log = (Path(cluster.node(1).folder) / "logs/server.log").read_text()
        for number in (0, 1):
            assert f"left out: znode /brokers/topics/t/partitions/{number}/state: nobody is in sync" in log
        written = cluster.client().produce(TopicPartition("t", 2), build([(0, None, b"it serves", ())]))
        assert written.code is Code.NONE
