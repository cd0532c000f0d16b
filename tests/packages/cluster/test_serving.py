"""A cluster is up when each of its brokers, asked itself, knows all of them and a controller."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest

from moldau.client.admin import Resource, ResourceType
from moldau.client.view import Outcome
from moldau.cluster.cluster import Cluster, ClusterError
from moldau.cluster.nodes import ClusterSpec, launch, wait_gone
from moldau.cluster.serving import foreign_zookeeper, is_told
from moldau.model import Code
from moldau.wire.messages.k60_describe_cluster import DescribeClusterResponse


class Asked:
    """A client to whom brokers answer, by id: (controller, brokers that it shows).

    Each is then asked whether it has that id: ``named`` says for which id one answers in truth, ``cluster`` of which
    cluster.
    """

    client = None

    def __init__(
        self, answers: dict[int, tuple[int, list[int]]], named: dict[int, int] | None = None, cluster: str = "ours"
    ) -> None:
        self._answers, self._named, self._cluster = answers, named or {}, cluster
        self._asked = iter(answers)
        self._now = -1

    def run(self, work: CoroutineType[Any, Any, Any]) -> Any:
        name = work.cr_code.co_name
        work.close()
        if name == "describe_configs":
            right = self._named.get(self._now, self._now) == self._now
            code = Code.NONE if right else Code.INVALID_REQUEST
            return {Resource(ResourceType.BROKER, str(self._now)): (Outcome(code), {})}
        self._now = next(self._asked)
        controller, brokers = self._answers[self._now]
        shown = [DescribeClusterResponse.DescribeClusterBroker(broker_id=id) for id in brokers]
        return DescribeClusterResponse(controller_id=controller, brokers=shown, cluster_id=self._cluster)


@pytest.mark.parametrize(
    ("answers", "up"),
    [
        ({1: (2, [1, 2]), 2: (2, [1, 2])}, True),
        ({1: (2, [1, 2]), 2: (-1, [1, 2])}, False),
        ({1: (2, [1, 2]), 2: (2, [1])}, False),
        ({1: (2, [1, 2]), 2: (-1, [])}, False),
    ],
)
def test_a_broker_that_has_been_told_nothing_keeps_its_cluster_from_being_up(
    answers: dict[int, tuple[int, list[int]]], up: bool
) -> None:
    asked: Any = Asked(answers)
    assert is_told(asked, list(answers), ["ours"]) is up


def test_who_answers_for_another_cluster_or_another_node_keeps_a_cluster_from_being_up() -> None:
    """While a node starts, a broker of another cluster may have its port, with the same ids and a controller."""
    answers = {1: (1, [1, 2]), 2: (1, [1, 2])}
    of_another: Any = Asked(answers, cluster="another")
    assert not is_told(of_another, [1, 2], ["ours"])
    another_node: Any = Asked(answers, named={2: 1})
    assert not is_told(another_node, [1, 2], ["ours"])


def test_a_cluster_that_never_ran_has_no_zookeeper_to_doubt(tmp_path: Path) -> None:
    assert foreign_zookeeper(ClusterSpec("", zookeeper="127.0.0.1:1", embedded=True)) is None


def test_a_node_that_lives_and_does_not_listen_is_told_of_in_clear_words(tmp_path: Path) -> None:
    """All that was said was that brokers do not serve, and that a connection was refused."""
    cluster = Cluster(1, data=tmp_path / "cluster")
    node = cluster.node(1)
    process = launch(node, [sys.executable, "-c", "import signal; signal.pause()"])
    try:
        with pytest.raises(ClusterError) as refused:
            cluster.wait_for_brokers([1], 0.1)
        said = f"node 1, whose process {process.pid} runs and takes no connections at 127.0.0.1:{node.port}"
        assert f"{said} (Connection refused)" in str(refused.value)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)  # it stands still now, on a busy machine as well
        with pytest.raises(ClusterError, match=f"stopped by a signal .`kill -CONT {process.pid}`"):
            cluster.wait_for_brokers([1], 0.1)
    finally:
        process.kill()
        wait_gone(node, process, 60)
    with pytest.raises(ClusterError, match="node 1 ended while it was starting"):
        cluster.wait_for_brokers([1], 0.1)
