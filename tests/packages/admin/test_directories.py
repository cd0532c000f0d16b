"""Replicas that are not in the log directories of a plan: what is told of them, by brokers that answer in part."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.admin import directories, reassign
from moldau.admin.directories import misplaced, state_of
from moldau.admin.reassignment import status_command, waits, waves
from moldau.client.view import Broker, Partition, Topic
from moldau.model import Code, TopicPartition
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse

P = TopicPartition("t", 0)
KIND = DescribeLogDirsResponse


def directory(
    path: str, size: int | None = None, *, free: int = 10**9, copy: bool = False, code: Code = Code.NONE
) -> KIND.DescribeLogDirsResult:
    part = KIND.DescribeLogDirsPartition(partition_index=0, partition_size=size or 0, is_future_key=copy)
    topics = [] if size is None else [KIND.DescribeLogDirsTopic(name="t", partitions=[part])]
    return KIND.DescribeLogDirsResult(
        error_code=code, log_dir=path, topics=topics, total_bytes=10**9, usable_bytes=free
    )


class Talks:
    """A conversation with a cluster of brokers 1 and 2, and of a topic whose only partition they hold."""

    def __init__(self) -> None:
        self.cluster = self

    def brokers(self) -> dict[int, Broker]:
        return {id: Broker(id, "127.0.0.1", id) for id in (1, 2)}

    def topics(self, _: object) -> dict[str, Topic]:
        part = Partition(0, leader=1, leader_epoch=0, replicas=[1, 2], isr=[1, 2], offline=[])
        return {"t": Topic("t", b"", {0: part})}


@pytest.mark.parametrize(
    ("found", "state", "told"),
    [
        ([directory("/a", 5_000), directory("/b", free=2_000)], "otherwise",
         "is to have it in /b and has it in /a: 2.0 kB are free there, and it takes 5.0 kB"),
        ([directory("/a", 5_000), directory("/b")], "otherwise",
         "has it in /a: nothing copies it: nobody has asked for that, or the copy was given up"),
        ([directory("/a", 5_000), directory("/b", free=-1)], "otherwise", "has it in /a: nothing copies it"),
        ([directory("/a", 5_000), directory("/b", code=Code.KAFKA_STORAGE_ERROR)], "otherwise",
         "has it in /a: that directory is offline (KAFKA_STORAGE_ERROR)"),
        ([directory("/a", 5_000), directory("/c")], "otherwise", "has it in /a: it has no such directory, but /a, /c"),
        ([directory("/a"), directory("/b")], "otherwise", "has no replica that it tells of: nothing copies it"),
        ([directory("/a", 5_000), directory("/b", 10, copy=True)], "moving", ""),
        ([], "unknown", ""),
    ],
)  # fmt: skip
def test_it_is_told_what_was_to_lie_where_and_where_it_lies_and_why(
    found: list[KIND.DescribeLogDirsResult],
    state: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A replica for which its new directory had no space was "otherwise", with the brokers that the plan wanted."""
    monkeypatch.setattr(directories, "told_directories", lambda *_: {2: found})
    talk: Any = Talks()
    (replicas,) = misplaced(talk, {(P, 2): "/b"}).values()
    assert [one["state"] for one in replicas] == [state]
    assert state_of(replicas) == state
    directories.tell({P: replicas})
    said = capsys.readouterr().err
    assert said.startswith(f"t-0: broker 2 {told}" if told.startswith("is to") else "t-0: broker 2" if told else "")
    assert told in said
    assert bool(said) == bool(told)


def test_a_directory_with_a_slash_at_its_end_is_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker takes it for the same, and the plan was never done."""
    monkeypatch.setattr(directories, "told_directories", lambda *_: {2: [directory("/b", 5_000)]})
    talk: Any = Talks()
    assert misplaced(talk, {(P, 2): "/b/"}) == {}


def test_verify_and_status_show_the_replica_that_is_in_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {2: [directory("/a", 5_000), directory("/b", free=2_000)]}
    monkeypatch.setattr(directories, "told_directories", lambda *_: found)
    monkeypatch.setattr(status_command, "listed", lambda *_: {})
    talk: Any = Talks()
    placed = {(P, 2): "/b"}
    (row,) = reassign._look(talk, {P: [1, 2]}, placed, {})
    report = status_command._look(talk, ({P: [1, 2]}, placed), (None, False), (waits.Downs(), waits.Answering()))
    (shown,) = report["partitions"]
    assert (row["status"], shown["status"]) == ("otherwise", waves.WAITING)
    for one in (row, shown):
        (replica,) = one["misplaced"]
        assert replica == {
            "broker": 2, "wanted": "/b", "directory": "/a", "state": "otherwise",
            "why": "2.0 kB are free there, and it takes 5.0 kB",
        }  # fmt: skip


def test_a_plan_that_is_otherwise_at_its_brokers_is_not_told_of_for_its_directories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directories, "told_directories", lambda *_: pytest.fail("nobody need be asked"))
    talk: Any = Talks()
    (row,) = reassign._look(talk, {P: [2, 1]}, {(P, 2): "/b"}, {})
    assert (row["status"], row["misplaced"]) == ("otherwise", [])
