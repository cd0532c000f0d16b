"""Whether a broker's process ended, from outside."""

from __future__ import annotations

import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.admin import asking
from moldau.admin.cli import cli
from moldau.admin.foreign_nodes import _held, _votes_against
from moldau.admin.waiting import came_about
from moldau.client import admin
from moldau.client.client import Refused, Unreachable
from moldau.client.view import Broker, Outcome
from moldau.cluster.nodes import ClusterSpec, NodeSpec
from moldau.model import Code
from moldau.wire.messages.k55_describe_quorum import DescribeQuorumResponse


def test_a_process_has_ended_when_it_closes_what_was_held_and_no_sooner() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker = Broker(1, *server.getsockname()[:2])
        with _held(broker) as process:
            connection, _ = server.accept()
            assert not process.ended()
            assert not process.ended(), "looking takes nothing away"
            connection.close()
            assert came_about(process.ended, 60)
    with _held(broker) as process:
        assert process.ended(), "none listened before"


class Asked:
    """A cluster whose answers are known."""

    client = None

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            work.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("it waits for something")


@pytest.mark.parametrize(
    ("caught_up_ms", "id", "left"),
    [
        ({1: 50_000, 2: 49_900, 3: 49_000}, 2, None),
        ({1: 50_000, 2: 49_900, 3: 20_000}, 2, "1 of 3"),
        ({1: 50_000, 2: 49_900, 3: -1}, 2, "1 of 3"),
        ({1: 50_000, 2: 49_900, 3: 20_000}, 3, None),
        ({1: 50_000, 2: 49_900, 3: 20_000}, 7, None),
        ({1: 50_000}, 1, "0 of 1"),
    ],
    ids=["all there", "one is paused", "one never came", "the dead one", "no controller", "the only one"],
)
def test_a_stop_that_leaves_controllers_without_majority_is_advised_against(
    caught_up_ms: dict[int, int], id: int, left: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    voters = [
        DescribeQuorumResponse.ReplicaState(replica_id=id, last_caught_up_timestamp=time)
        for id, time in caught_up_ms.items()
    ]

    async def describe_quorum(client: object, *, timeout_ms: int) -> object:
        return Outcome(Code.NONE), DescribeQuorumResponse.PartitionData(current_voters=voters)

    monkeypatch.setattr(admin, "describe_quorum", describe_quorum)
    found = _votes_against(Asked(), id)  # type: ignore[arg-type]  # of a cluster it uses no more
    assert [one[:6] for one in found] == ([] if left is None else [left])


@pytest.mark.parametrize("error", [Unreachable("nobody answers"), Refused(Code.NOT_CONTROLLER, "who leads")])
def test_a_stop_without_an_active_controller_is_advised_against_and_no_failure(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe_quorum(client: object, *, timeout_ms: int) -> object:
        raise error

    monkeypatch.setattr(admin, "describe_quorum", describe_quorum)
    assert _votes_against(Asked(), 2) == [  # type: ignore[arg-type]  # as above
        "no controller is active: nobody would lead in its place"
    ]


@pytest.mark.parametrize("words", ["stop 9 --check", "stop 9", "roll --command true --dry-run"])
def test_a_stop_and_a_roll_ask_the_brokers_of_the_variable_as_other_commands_do(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(asking, "NOBODY_S", 0.0)
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", "127.0.0.1:9")
    for folder in (tmp_path, tmp_path / "moldau-data"):  # where there is no cluster, and where another one is
        folder.mkdir(exist_ok=True)
        ClusterSpec("c", [NodeSpec(7, "broker", str(tmp_path / "moldau-data" / "7"), port=1)]).save(folder)
        asked = CliRunner().invoke(cli, ["broker", *words.split()])
        assert asked.exit_code == 1
        assert "127.0.0.1:9: nobody listens there" in asked.output


def test_a_variable_that_names_the_cluster_of_the_folder_or_gives_way_to_data_leaves_the_folder_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "moldau-data"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    with Popen([sys.executable, "-c", "input()", str(folder)], stdin=PIPE) as node:
        try:
            ClusterSpec("c", [NodeSpec(7, "broker", str(folder / "7"), port=19_092, pid=node.pid)]).save(folder)
            for servers, more in (("elsewhere:1,localhost:19092", ()), ("elsewhere:9092", ("--data", str(folder)))):
                monkeypatch.setenv("MOLDAU_BOOTSTRAP", servers)
                asked = CliRunner().invoke(cli, ["broker", "stop", "9", "--check", *more])
                assert (asked.exit_code, "no node 9: this cluster has 7" in asked.output) == (2, True), asked.output
        finally:
            node.communicate()
