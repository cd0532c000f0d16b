"""Whether a broker's process ended, from outside."""

from __future__ import annotations

import socket
from collections.abc import Coroutine
from typing import Any

import pytest

from moldau.admin.foreign_nodes import _held, _votes_against
from moldau.admin.waiting import came_about
from moldau.client import admin
from moldau.client.client import Refused, Unreachable
from moldau.client.view import Broker, Outcome
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
