"""Controllers that come and go while brokers serve: Kafka's own kafka-metadata-quorum adds, shows and removes them
(KIP-853). One cluster of three controllers and two brokers, real processes; the quorum begins with one controller. What
Moldau's own command does is asked for as docs/decisions/0013-dynamic-voters.md shows it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import ToolRun, ask_cluster, free_port, java_tool, spawn, wait_until
from moldau_peer import COMMAND
from proof import Proof
from tests.packages.admin.test_examples import words_of

from moldau.client.admin import describe_quorum
from moldau.client.sync import Cluster

CONTROLLERS, BROKERS = (1, 2, 3), (11, 12)
WAIT_S = 120


def as_shown(*command: str) -> list[str]:
    """The words of the line of the page that has these."""
    (words,) = [words for words in words_of("0013-dynamic-voters.md") if set(command) <= set(words)]
    return words


def told(words: list[str], **instead: object) -> list[str]:
    """The words with this cluster's ids and files for those that are shown."""
    here = {
        "server.properties": instead.get("file"), "CLUSTER_ID": instead.get("cluster"), "ID": instead.get("directory"),
        "1": instead.get("controller"),
    }  # fmt: skip
    return [str(here.get(word) or word) for word in words]


class Quorum:
    """The processes, and Kafka's tool pointed at them."""

    cluster_id = "Z5vVXEQ4SKqk8vTQ4jAHSg"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {id: free_port() for id in (*CONTROLLERS, *BROKERS)}
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        for id in self.ports:
            (folder / str(id)).mkdir()
            self.config_file(id).write_text("".join(f"{key}={value}\n" for key, value in self.properties(id).items()))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[id]}" for id in BROKERS)

    def config_file(self, id: int) -> Path:
        return self.folder / str(id) / "server.properties"

    def properties(self, id: int) -> dict[str, object]:
        name = "CONTROLLER" if id in CONTROLLERS else "PLAINTEXT"
        return {
            "process.roles": "controller" if id in CONTROLLERS else "broker",
            "node.id": id,
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{self.ports[one]}" for one in CONTROLLERS),
            "listeners": f"{name}://127.0.0.1:{self.ports[id]}",
            "advertised.listeners": f"{name}://127.0.0.1:{self.ports[id]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / str(id) / "data",
            "offsets.topic.replication.factor": 2,
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 6000,  # a controller that stands still for a while leads on
        }

    def format(self, id: int) -> None:
        first = "--standalone" if id == 1 else "--no-initial-controllers"
        words = told(as_shown("storage", "format", first), cluster=self.cluster_id, file=self.config_file(id))
        if id in BROKERS:
            words.remove(first)
        subprocess.run([str(COMMAND), *words], check=True, capture_output=True, timeout=150)

    def start(self, *ids: int) -> None:
        for id in ids:
            self.running[id] = spawn([str(COMMAND), "node", str(self.config_file(id))], self.folder / str(id) / "log")

    def kill(self, id: int) -> None:
        process = self.running.pop(id)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for id in list(self.running):
            self.kill(id)

    def serves(self) -> bool:
        try:
            return all(set(ask_cluster(self.ports[id]).brokers) == set(BROKERS) for id in BROKERS)
        except OSError:
            return False

    def tool(self, *words: object, check: bool = True, by_controllers: bool = False) -> ToolRun:
        where = ["--bootstrap-server", self.bootstrap_servers]
        if by_controllers:
            where = ["--bootstrap-controller", ",".join(f"127.0.0.1:{self.ports[id]}" for id in CONTROLLERS)]
        return java_tool("kafka-metadata-quorum", *where, *words, check=check)

    def moldau(self, words: list[str], *, check: bool = True) -> str:
        """What Moldau's command says, which finds this cluster by the environment."""
        environment = {**os.environ, "MOLDAU_BOOTSTRAP": self.bootstrap_servers}
        command = [str(COMMAND), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def adding(self, id: int) -> list[str]:
        """The words that add a controller."""
        return told(as_shown("quorum", "add-controller"), file=self.config_file(id))

    def removing(self, id: int) -> list[str]:
        """The words that remove one; nobody is there to be asked."""
        words = told(as_shown("quorum", "remove-controller"), controller=id, directory=self.directory_id(id))
        return [*words, "--yes"]

    def add(self, id: int, *, check: bool = True) -> ToolRun:
        return self.tool("--command-config", self.config_file(id), "add-controller", check=check)

    def remove(self, id: int, **more: Any) -> ToolRun:
        wish = ("remove-controller", "--controller-id", id, "--controller-directory-id", self.directory_id(id))
        return self.tool(*wish, **more)

    def directory_id(self, id: int) -> str:
        meta = (self.folder / str(id) / "data" / "meta.properties").read_text()
        return dict(line.split("=", 1) for line in meta.splitlines() if "=" in line)["directory.id"]

    def status(self) -> dict[str, str]:
        said = self.tool("describe", "--status").stdout
        return {key: value.strip() for key, value in (line.split(":", 1) for line in said.splitlines() if ":" in line)}

    def voters(self) -> tuple[int, set[int]]:
        """Leader and voters, as the leader says; -1 and nobody while there is none. No tool: it takes a second."""
        with Cluster(self.bootstrap_servers) as client:
            _, part = client.run(describe_quorum(client.client))
        if part is None:
            return -1, set()
        return part.leader_id, {one.replica_id for one in part.current_voters}

    def has_voters(self, *wanted: int) -> None:
        """Whatever a test before has left: every process runs, and these controllers vote, no others."""
        self.start(*(id for id in self.ports if id not in self.running))
        wait_until(self.serves, "both brokers serve", WAIT_S)

        def vote() -> bool:
            leader, voters = self.voters()
            if leader >= 0 and voters == set(wanted):
                return True
            for id in sorted(set(wanted) - voters if leader >= 0 else ()):
                self.moldau(self.adding(id), check=False)  # asked again until it is so
            for id in sorted(voters - set(wanted) if voters >= set(wanted) else ()):
                self.moldau(self.removing(id), check=False)
            return False

        wait_until(vote, f"controllers {wanted} vote", WAIT_S)


def load(quorum: Quorum, topic: str) -> Proof:
    """Writers and a reader on a topic of their own; nothing acknowledged may be lost."""
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers})
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=2)])[topic].result(WAIT_S)
    return Proof(quorum, topic, 2)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    made = Quorum(tmp_path_factory.mktemp("voters"))
    try:
        for id in made.ports:
            made.format(id)
        yield made
    finally:
        made.stop()


def test_one_controller_grows_to_three_and_the_active_one_goes_without_losing_a_record(quorum: Quorum) -> None:
    quorum.has_voters(1)
    with load(quorum, "growing") as proof:
        for id in (2, 3):
            assert f"Added controller {id}" in quorum.add(id).stdout
            proof.flows(f"controller {id} was added")
        wait_until(lambda: quorum.voters() == (1, {1, 2, 3}), "all three vote", WAIT_S)
        status = quorum.status()
        assert status["LeaderId"] == "1"
        assert all(
            f'"id": {id}, "directoryId": "{quorum.directory_id(id)}"' in status["CurrentVoters"] for id in (1, 2, 3)
        )
        features = java_tool("kafka-features", "--bootstrap-server", quorum.bootstrap_servers, "describe").stdout
        assert re.search(r"Feature: kraft\.version\s.*FinalizedVersionLevel: 1\s", features)
        refused = quorum.add(3, check=False)
        assert "DuplicateVoterException" in refused.stdout + refused.stderr
        assert "KRaft controller 1 with directory id" in quorum.remove(1).stdout
        proof.flows("the active controller was removed")
        wait_until(lambda: quorum.voters() in ((2, {2, 3}), (3, {2, 3})), "another leads the two that are left", WAIT_S)
        gone = quorum.remove(1, check=False)
        assert "VoterNotFoundException" in gone.stdout + gone.stderr

        def looks_on() -> bool:
            replicas = quorum.tool("describe", "--replication").stdout
            return [line.split()[-1] for line in replicas.splitlines() if line.startswith("1 ")] == ["Observer"]

        wait_until(looks_on, "controller 1 is an observer", WAIT_S)


def test_a_kill_during_a_change_leaves_one_decided_set(quorum: Quorum) -> None:
    """kill -9 of the leader while a controller is added: all controllers end with the same voters, and serve."""
    quorum.has_voters(2, 3)
    with load(quorum, "changing") as proof:
        before, _ = quorum.voters()
        assert before in (2, 3)
        other = 5 - before
        adding = subprocess.Popen(
            [str(COMMAND), *quorum.adding(1), "--bootstrap-server", quorum.bootstrap_servers],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        quorum.kill(before)
        quorum.start(before)
        said, _ = adding.communicate(timeout=150)
        proof.flows("the leader was killed during a change")
        wait_until(lambda: quorum.voters()[1] in ({2, 3}, {1, 2, 3}), f"a decided set; {said}", WAIT_S)
        if quorum.voters()[1] == {2, 3}:
            assert quorum.moldau(quorum.adding(1)) == "Controller 1 votes."
        quorum.kill(other)
        proof.flows("two of three controllers are alive")
        quorum.start(other)
        wait_until(lambda: quorum.voters()[1] == {1, 2, 3}, "all three vote", WAIT_S)
        other = 2 if quorum.voters()[0] != 2 else 3
        assert quorum.moldau(quorum.removing(other)).endswith(f"Controller {other} votes no more.")
        wait_until(lambda: quorum.voters()[1] == {1, 2, 3} - {other}, "two vote", WAIT_S)


def test_three_controllers_shrink_to_one_that_was_added(quorum: Quorum) -> None:
    def goes(id: int) -> bool:
        # A leader that was removed may be gone before its answer: asked again, another knows of no such voter.
        done = quorum.remove(id, check=False, by_controllers=True)
        return done.status == 0 or "VoterNotFoundException" in done.stdout + done.stderr

    quorum.has_voters(1, 2, 3)
    with load(quorum, "shrinking") as proof:
        for id in (1, 3):
            wait_until(partial(goes, id), f"{id} goes", WAIT_S)
            proof.flows(f"controller {id} was removed")
        wait_until(lambda: quorum.voters() == (2, {2}), "controller 2 alone", WAIT_S)
        wanted = [["2", "leader"], *([str(id), "observer"] for id in (1, 3, *BROKERS))]

        def shown() -> bool:
            return [line.split()[:2] for line in quorum.moldau(as_shown("quorum", "status")).splitlines()[1:]] == wanted

        wait_until(shown, "one leads, the others look on", WAIT_S)
        for id in (1, 3):
            quorum.kill(id)
        proof.flows("the others are gone")
        quorum.kill(2)
        quorum.start(2)
        proof.flows("the one that is left has restarted")
