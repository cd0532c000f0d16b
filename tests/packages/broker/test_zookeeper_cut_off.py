"""No broker has a connection with ZooKeeper: records are served, nothing is decided, and whoever asks is told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.metrics.health import not_ready
from moldau.model import Code
from moldau.ports.zookeeper import Link
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.packages.broker.data_cluster import run, until
from tests.packages.broker.test_zookeeper_plane import topic
from tests.packages.broker.zookeeper_nodes import Nodes


async def code_of_moves(nodes: Nodes) -> Code:
    """What the controller answers whoever asks what moves."""
    return Code(
        (await nodes.controller.controller_channel.send(ListPartitionReassignmentsRequest(topics=None))).error_code
    )


def test_a_broker_is_not_ready_when_its_session_is_lost_or_must_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/readyz` said ready for as long as nothing answered: a session ends where ZooKeeper is, unheard."""

    async def scenario() -> None:
        async with Nodes(tmp_path, 2) as nodes:
            one = nodes.nodes[1]
            await until(lambda: not not_ready(one), "it is ready")
            monkeypatch.setattr(type(one.plane.zk), "session_timeout_ms", 600_000)
            for session in nodes.server.opened:
                session.suspend()
            await until(lambda: one.plane.cut_off_ms > 0, "it is noticed")
            assert not_ready(one) == [], "the session may live, and nobody else leads"
            monkeypatch.setattr(type(one.plane.zk), "session_timeout_ms", 100)
            await until(lambda: not_ready(one), "it is over")
            (reason,) = not_ready(one)
            assert reason.startswith("no connection with ZooKeeper for ")
            assert "which lasts 0.1 s, is over" in reason
            for session in nodes.server.opened:
                session.heal()
            await until(lambda: not not_ready(one), "it is back")
            one.plane._follow_link(Link.LOST)
            one.lifecycle.lost()
            assert not_ready(one) == [
                "the session with ZooKeeper is lost: the broker registers again as soon as it has another"
            ]
            one.plane._news.set()
            await until(lambda: not not_ready(one), "it has another")

    run(scenario)


def test_a_controller_without_zookeeper_does_not_say_that_it_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answered what moves from memory, and `moldau doctor` and `moldau status` showed health."""
    monkeypatch.setattr("moldau.broker.zookeeper.plane.CUT_OFF_MS", 50)

    async def scenario() -> None:
        async with Nodes(tmp_path) as nodes:
            await topic(nodes, "t")
            assert await code_of_moves(nodes) is Code.NONE
            for session in nodes.server.opened:
                session.suspend()
            active = nodes.controller
            await until(lambda: all(node.plane.is_cut_off for node in nodes.nodes.values()), "it is noticed")
            assert nodes.controller is active, "its session may still live"
            assert await code_of_moves(nodes) is Code.NOT_CONTROLLER
            for session in nodes.server.opened:
                session.heal()
            await until(lambda: not any(node.plane.is_cut_off for node in nodes.nodes.values()), "it is back")
            await until(lambda: len(nodes.controllers) == 1, "somebody rules")
            assert await code_of_moves(nodes) is Code.NONE

    run(scenario)
