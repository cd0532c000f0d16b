"""Whom moves wait for, asked of clusters of which a broker is dead, that do not know, or that answer in part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moldau.admin import each_broker
from moldau.admin.asking import Talk
from moldau.admin.reassignment import status_command, waits, waves
from moldau.admin.reassignment.waits import (
    Answering,
    Downs,
    Sizes,
    WaitFacts,
    WaitReporter,
    sizes_of,
    text_of,
    waits_of,
)
from moldau.admin.reassignment.waves import ObservedPartition
from moldau.client.admin import Reassignment
from moldau.client.client import Refused
from moldau.client.lines import UnsupportedApi
from moldau.client.view import Broker
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse
from tests.packages.admin.doubles import Driven, TalkDouble
from tests.packages.client.mini_cluster import MiniCluster, in_thread

P = TopicPartition("t", 0)
DEAD = ("127.0.0.1", 1)
"""Nobody listens there."""


@pytest.fixture
def mini() -> Iterator[MiniCluster]:
    with in_thread(MiniCluster(2, {"t": 1})) as cluster:
        yield cluster


def begun() -> Talk:
    """A conversation whose only bootstrap server has died since it answered."""
    return Talk(":".join(map(str, DEAD)), answered=DEAD)


def moving(adding: int) -> tuple[ObservedPartition, Reassignment]:
    return ObservedPartition([1, adding], 1, [1], []), Reassignment([1, adding], [adding], [])


def directory(size: int) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    kind = DescribeLogDirsResponse
    part = kind.DescribeLogDirsPartition(partition_index=0, partition_size=size)
    topics = [kind.DescribeLogDirsTopic(name="t", partitions=[part])] if size else []
    return kind.DescribeLogDirsResult(log_dir="/d", topics=topics)


def test_another_conversation_reaches_brokers_that_the_first_one_knows(mini: MiniCluster) -> None:
    """It knew the bootstrap server alone, which was dead: `moldau reassign apply` ended in the middle with exit 1."""
    known = {id: Broker(id, "127.0.0.1", node.port) for id, node in enumerate(mini.nodes)}
    with begun() as talk:
        talk.cluster.client.view.brokers = known
        with talk.apart(2_000) as other:
            assert len(other.cluster.brokers()) == 2


def test_a_look_for_sizes_that_reaches_nobody_costs_the_sizes_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(each_broker, "DIRECTORIES_S", 0.05)
    monkeypatch.setattr(each_broker, "silent_brokers", lambda talk, ids: {})
    with begun() as talk:
        assert sizes_of(talk, [2, 3]).of == {}
    said = capsys.readouterr().err
    assert "what is in its directories is not known" in said
    assert "moldau:" not in said


@pytest.mark.parametrize("error", [Refused(Code.NOT_CONTROLLER, "x"), ConnectionError("x"), UnsupportedApi("x")])
def test_whom_moves_wait_for_is_told_where_the_sizes_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fails(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(waits, "sizes_of", fails)
    monkeypatch.setattr(waits, "FIRST_PAUSE_S", 0.0)
    shown, one = moving(2)
    talk: Any = None  # nobody is asked
    reporter = WaitReporter(talk)
    for _ in range(2):
        assert reporter.tell({P: shown}, {P: one}, [1, 2]) == []
    assert "t-0 waits: broker 2 is catching up\n" in capsys.readouterr().err


class Apart(Talk):
    """A conversation that ends every question with an error."""

    def __init__(self, error: Exception) -> None:
        self.bootstrap, self._error = "localhost:9092", error
        self.cluster = Driven()

    def ask(self, *_: object, **__: object) -> NoReturn:
        raise self._error


@pytest.mark.parametrize("error", [UnsupportedApi("no version"), ConnectionError("nobody answers")])
def test_a_quorum_that_cannot_be_asked_is_no_error_and_is_not_asked_at_every_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """Each look told of an error: that the brokers were too old, or that nobody answered."""
    asked: list[int] = []

    class Asking(TalkDouble):
        def apart(self, patience_ms: int) -> Talk:
            asked.append(patience_ms)
            return Apart(error)

    talk = Asking()
    downs = Downs()
    for _ in range(3):
        assert downs.poll(talk, [2], [1, 3]) == {}
    assert len(asked) == 1
    assert capsys.readouterr().err == ""
    assert downs.poll(talk, [2, 3], [1]).keys() == {3}, "the one that went meanwhile"
    assert len(asked) == 2, "of another broker it is asked"
    monkeypatch.setattr(waits, "ASKED_AGAIN_S", 0.0)
    downs.poll(talk, [2, 3], [1])
    assert len(asked) == 3


def test_a_broker_that_does_not_tell_its_sizes_is_not_taken_for_one_that_has_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was told to be as far behind as the whole replica is large."""
    told = {1: [directory(1_000)], 2: [directory(0)], 3: []}
    monkeypatch.setattr(waits, "told_directories", lambda talk, ids: {id: told[id] for id in ids if id in told})
    talk: Any = None
    behind: dict[int, int | None] = {}
    for broker in (2, 3, 4):
        shown, one = moving(broker)
        known = WaitFacts([1, 2, 3, 4], sizes_of(talk, [1, broker]))
        (wait,) = waits_of(P, shown, one, known)
        behind[broker] = wait["bytes_behind"]
    assert behind == {2: 1_000, 3: None, 4: None}
    assert text_of([wait]) == "broker 4 is catching up"


def test_a_replica_that_has_no_room_for_the_rest_is_told_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was catching up, 10.8 MB behind, for ever: its directory was full."""
    told = {1: [directory(10_000)], 2: [directory(2_000)], 3: [directory(0)], 4: [directory(2_000)]}
    for broker, free in ((2, 40), (3, 9_999), (4, 8_000)):
        told[broker][0].usable_bytes = free
    monkeypatch.setattr(waits, "told_directories", lambda talk, ids: {id: told[id] for id in ids})
    talk: Any = None
    found = {}
    for broker in (2, 3, 4):
        shown, one = moving(broker)
        (wait,) = waits_of(P, shown, one, WaitFacts([1, 2, 3, 4], sizes_of(talk, [1, broker])))
        found[broker] = text_of([wait])
    assert found == {
        2: "broker 2 is catching up, 8.0 kB behind, and only 40 B free for that",
        3: "broker 3 is catching up, 10.0 kB behind, and only 10.0 kB free for that",
        4: "broker 4 is catching up, 8.0 kB behind",
    }


def row(adding: list[int], sizes: Sizes, offline: list[int] | None = None, state: str = waves.MOVING) -> Any:
    shown, one = ObservedPartition([1, *adding], 1, [1], offline or []), Reassignment([1, *adding], adding, [])
    moves = state == waves.MOVING
    return status_command._row(P, (state, shown), [1, *adding], one if moves else None, sizes)


def report(*rows: Any) -> Any:
    moving = sum(one["status"] == waves.MOVING for one in rows)
    counts = {waves.FINISHED: len(rows) - moving, waves.MOVING: moving, waves.WAITING: 0}
    return {
        "state": "running", "applied": True, "rate": None, "throttled": False, "counts": counts, "missing_brokers": [],
        "bytes_per_second": None, "partitions": list(rows),
    }  # fmt: skip


def test_how_far_a_move_is_of_which_a_broker_does_not_tell_is_unknown_and_not_0_percent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of = {(P, 1): 1_000, (P, 2): 250}
    assert row([2], Sizes(of, [1, 2]))["percent"] == 25.0
    assert row([3], Sizes(of, [1, 3]))["percent"] == 0.0, "it has said that it has nothing"
    for silent in (row([3], Sizes(of, [1, 2])), row([2, 3], Sizes(of, [1, 2])), row([2], Sizes(of, [1, 2]), [2])):
        assert (silent["percent"], silent["bytes_copied"]) == (None, None)
    status_command._print(report(row([3], Sizes(of, [1]))), False, "text", Path("p"))
    _, told, words = capsys.readouterr().out.splitlines()
    assert told.split()[:8] == ["t", "0", "moving", "1,3", "1,3", "unknown", "1000", "unknown"]
    assert words == "0 done, 1 moving, 0 waiting; of 1 move it is not known how far it is; the plan is running"
    status_command._print(report(row([2], Sizes())), False, "text", Path("p"))
    assert "unknown" in capsys.readouterr().out


def test_the_speed_is_of_moves_of_which_both_looks_know_how_far_they_are() -> None:
    """A move that had ended took what it had copied out of the sum, and one that was told of again added it anew."""
    of = {(P, 1): 1_000, (P, 2): 250}
    early, late = row([2], Sizes(of, [1, 2])), row([2], Sizes(of | {(P, 2): 750}, [1, 2]))
    silent, ended = row([2], Sizes(of, [1])), row([2], Sizes(of, [1, 2]), state=waves.FINISHED)
    speed = status_command._speed
    assert speed([early], [late], 2.0) == 250
    assert speed([early], [ended], 2.0) == 375, "the rest of it, which it has now"
    assert speed([silent], [late], 2.0) is None
    assert speed([early], [silent], 2.0) is None
    assert speed([late], [early], 2.0) == 0, "the leader's log was cut"


def test_a_broker_that_has_just_died_is_not_said_to_have_lost_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment a cluster tells of it among those that live, with its replicas offline."""
    asked: list[set[int]] = []

    def silent(talk: object, ids: set[int]) -> dict[int, str]:
        asked.append(ids)
        return {2: "nobody listens there"} if 2 in ids else {}

    monkeypatch.setattr(waits, "silent_brokers", silent)
    shown, one = ObservedPartition([1, 2, 3], 1, [1], [2, 3]), Reassignment([1, 2, 3], [2, 3], [])
    talk: Any = None
    answering = Answering()
    alive = answering.still_alive(talk, {P: waits_of(P, shown, one, WaitFacts([1, 2, 3]))}, [1, 2, 3])
    assert alive == {1, 3}
    assert asked == [{2, 3}]
    assert [wait["state"] for wait in waits_of(P, shown, one, WaitFacts(alive))] == ["down", "directory offline"]
    assert answering.still_alive(talk, {P: waits_of(P, *moving(2), WaitFacts([1, 2]))}, [1, 2]) == {1, 2}
    assert len(asked) == 1, "where no replica is offline nobody is asked"
    monkeypatch.setattr(waits, "_last_heard_of", lambda talk: {})
    assert WaitReporter(talk).tell({P: shown}, {P: one}, [1, 2, 3]) == [2]


def test_a_broker_that_has_lost_a_directory_is_asked_once_until_something_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look opened a connection to it, twice a second for as long as its move waited."""
    asked: list[set[int]] = []
    mute: set[int] = set()

    def silent(talk: object, ids: set[int]) -> dict[int, str]:
        asked.append(ids)
        return dict.fromkeys(ids & mute, "nobody listens there")

    monkeypatch.setattr(waits, "silent_brokers", silent)
    shown, one = ObservedPartition([1, 2], 1, [1], [2]), Reassignment([1, 2], [2], [])
    talk: Any = None
    reporter, other = WaitReporter(talk), TopicPartition("t", 1)
    for _ in range(3):
        assert reporter.tell({P: shown}, {P: one}, [1, 2]) == []
    assert asked == [{2}]
    both = {P: shown, other: shown}
    reporter.tell(both, dict.fromkeys(both, one), [1, 2])
    assert asked == [{2}, {2}], "another replica is offline: it may have died now"
    reporter.tell({P: ObservedPartition([1, 2], 1, [1])}, {P: one}, [1, 2])
    mute.add(2)
    monkeypatch.setattr(waits, "_last_heard_of", lambda talk: {})
    for _ in range(2):
        assert reporter.tell({P: shown}, {P: one}, [1, 2]) == [2]
    assert len(asked) == 4, "one that does not answer is asked again"
    mute.clear()
    assert reporter.tell({P: shown}, {P: one}, [1, 2]) == []


def test_of_a_plan_that_nobody_has_begun_it_is_told_that_nobody_carries_it_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was "1 waiting", with exit 3, which a script waits for."""
    told = report(row([2], Sizes(), state=waves.WAITING))
    told |= {"state": None, "applied": False, "counts": {waves.FINISHED: 0, waves.MOVING: 0, waves.WAITING: 1}}
    status_command._print(told, False, "text", Path("p"))
    assert "1 waiting; nobody carries it out: `moldau reassign apply --plan p` does" in capsys.readouterr().out
    status_command._print(told | {"applied": True}, False, "text", Path("p"))
    assert "nobody" not in capsys.readouterr().out
