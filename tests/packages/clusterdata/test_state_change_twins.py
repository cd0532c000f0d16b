"""What logs tell with the JSON lines beside them: every decision once, with its own reason, deletions too."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.admin import log as log_commands
from moldau.admin.log import log
from moldau.clusterdata.jobs import splits
from moldau.clusterdata.jobs import timeline as job
from moldau.clusterdata.jobs.options import JobOptions
from moldau.clusterdata.state_changes import twins
from moldau.clusterdata.state_changes.history import PartitionChange
from moldau.clusterdata.state_changes.twins import DELETED, completed, told
from moldau.controller.requests import (
    AlterPartitionReassignments,
    BrokerRefused,
    DeleteTopics,
    ElectLeaders,
    Move,
    UnregisterBroker,
)
from moldau.controller.state_change import Author
from tests.packages.clusterdata.logged import Decision, LoggedHarness
from tests.packages.clusterdata.state_lines import by_follower, events

UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def deletes(harness: LoggedHarness, topic: str) -> None:
    harness.submit(DeleteTopics(topics=(topic,)))


def dies(harness: LoggedHarness, broker: int) -> None:
    harness.submit(BrokerRefused(broker_id=broker, broker_epoch=harness.broker(broker).epoch))


def shown(*words: str | Path) -> list[dict[str, Any]]:
    """The rows of ``moldau log timeline``."""
    said = CliRunner().invoke(log, ["timeline", "orders-0", *map(str, words), "-o", "json"])
    assert said.exit_code == 0, said.output
    rows: list[dict[str, Any]] = json.loads(said.stdout)
    return rows


def whys(*words: str | Path) -> list[str]:
    return [row["why"] for row in shown(*words)]


def told_by_job(*paths: Path) -> list[Decision]:
    """The rows of ``moldau job timeline`` about orders-0, without their topic id."""
    wish = JobOptions(tuple(map(str, paths)), topics=("orders",))
    at = {column.name: number for number, column in enumerate(job.COLUMNS)}
    rows = [row for task in job.plan(wish) for row in job.rows(task, wish)]
    return [
        ("", row[at["leader"]], row[at["leader_epoch"]], tuple(row[at["isr"]]), row[at["why"]])  # type: ignore[misc, arg-type]
        for row in rows
    ]


@pytest.fixture(params=[False, True], ids=["quorum", "zookeeper"])
def harness(request: pytest.FixtureRequest) -> LoggedHarness:
    return LoggedHarness(4, zookeeper_mode=request.param)


@pytest.fixture
def elected_uncleanly(harness: LoggedHarness) -> LoggedHarness:
    """Orders-0 whose leader was not in sync when it was elected, and which is then deleted."""
    harness.create("orders", (1, 2), configs=UNCLEAN)
    harness.set_isr("orders", 0, 1)
    harness.submit(UnregisterBroker(broker_id=1))
    deletes(harness, "orders")
    return harness


# ---- deletions


def test_an_unclean_election_is_told_as_one_after_the_topic_was_deleted(
    elected_uncleanly: LoggedHarness, tmp_path: Path
) -> None:
    """It was renamed "topic deleted", and records that were lost with it had no trace in any output."""
    rows = shown("-l", elected_uncleanly.write(tmp_path))
    assert [(row["leader"], row["epoch"], row["in_sync"], row["why"]) for row in rows] == [
        (1, 0, [1, 2], "created"),
        (1, 0, [1], "isr shrank"),
        (2, 1, [2], "unclean election: broker 1 was unregistered"),
        ("none", 1, [], DELETED),
    ]
    assert rows[3]["time"] == elected_uncleanly.now
    assert rows[3]["controller"] == "1 (epoch 1)"
    assert rows[3]["isr"] == "··"


def test_a_topic_that_was_made_and_deleted_has_two_rows(harness: LoggedHarness, tmp_path: Path) -> None:
    harness.create("orders", (1, 2))
    made = harness.now
    deletes(harness, "orders")
    rows = shown("-l", harness.write(tmp_path))
    assert [(row["time"], row["leader"], row["why"]) for row in rows] == [
        (made, 1, "created"),
        (harness.now, "none", DELETED),
    ]


def test_a_deletion_is_told_without_json_lines_as_well(elected_uncleanly: LoggedHarness, tmp_path: Path) -> None:
    rows = shown("-l", elected_uncleanly.write(tmp_path, twins=False))
    assert [row["why"] for row in rows[1:]] == [
        "broker 2 fell out of sync",
        "unclean election: broker 2 was not in sync",
        DELETED,
    ]
    assert (rows[3]["time"], rows[3]["epoch"]) == (elected_uncleanly.now, 1)


def test_why_after_a_deletion_names_no_leader_and_says_when_it_was(
    elected_uncleanly: LoggedHarness, tmp_path: Path
) -> None:
    folder = elected_uncleanly.write(tmp_path)
    said = CliRunner().invoke(log, ["why", "orders-0", "-l", str(folder)])
    assert said.output.splitlines() == [
        "orders-0: there was no such partition, its topic was deleted",
        f"  since {elected_uncleanly.now}: topic deleted",
        "  decided by controller 1 of epoch 1",
        f"  {elected_uncleanly.now}  told by node 1",
    ]
    before = elected_uncleanly.time(elected_uncleanly.at_ms - 1)
    said = CliRunner().invoke(log, ["why", "orders-0", "-l", str(folder), "--at", before])
    assert "broker 2 led in leader epoch 1, in sync 2\n" in said.output
    assert ": unclean election: broker 1 was unregistered\n" in said.output
    assert said.output.endswith(f"  until {elected_uncleanly.now}: topic deleted\n")


def test_why_a_partition_was_offline_is_as_sure_after_its_topic_was_deleted(
    harness: LoggedHarness, tmp_path: Path
) -> None:
    harness.create("orders", (1,))
    dies(harness, 1)
    gone = harness.now
    lines = by_follower(7, (1, 1), 3, -1)
    deletes(harness, "orders")
    row = shown("-l", harness.write(tmp_path / "both"))[1]
    assert (row["time"], row["leader"], row["controller"], row["why"]) == (
        gone,
        "none",
        "1 (epoch 1)",
        "broker 1 was fenced",
    )
    harness.texts[3] = [f"[{harness.time(harness.at_ms - 500)}{lines[24:]}"]
    row = shown("-l", harness.write(tmp_path / "text", twins=False))[1]
    assert row["why"] == "offline: broker 1 left, and nobody in sync is alive"


# ---- topics of one name


def test_topics_of_one_name_have_a_head_and_marks_of_their_own(
    elected_uncleanly: LoggedHarness, tmp_path: Path
) -> None:
    """The replicas of both were marked in one bar, and the head named those of the last."""
    harness = elected_uncleanly
    harness.create("orders", (3, 2, 0))
    folder = harness.write(tmp_path)
    rows = shown("-l", folder)
    assert [(row["isr"], row["topic_id"]) for row in rows[-2:]] == [
        ("··", harness.decisions["orders", 0][0][0]),
        ("█▒▒", harness.decisions["orders", 0][-1][0]),
    ]
    first, second = rows[0]["topic_id"], rows[-1]["topic_id"]
    said = CliRunner().invoke(log, ["timeline", "orders-0", "-l", str(folder)])
    assert f"on, topic id {first}: replicas 1,2\n" in said.output
    assert f"{harness.now} on, topic id {second}: replicas 3,2,0\n" in said.output
    assert "TOPIC-ID" in said.output


def test_reasons_of_two_topics_of_one_name_are_told_of_each(harness: LoggedHarness, tmp_path: Path) -> None:
    """Two decisions of the same epochs and ISR had no reason of their own."""
    harness.create("orders", (1, 2))
    harness.set_isr("orders", 0, 1)
    deletes(harness, "orders")
    harness.create("orders", (1, 2))
    dies(harness, 2)
    assert whys("-l", harness.write(tmp_path)) == ["created", "isr shrank", DELETED, "created", "broker 2 was fenced"]


# ---- who tells


def test_who_is_offline_is_told_by_the_controllers_line_where_a_broker_tells_it_too(
    harness: LoggedHarness, tmp_path: Path
) -> None:
    """The row had the broker's time and no controller."""
    harness.create("orders", (1,))
    dies(harness, 1)
    line = by_follower(7, (1, 1), 3, -1)
    harness.texts[3], harness.twins[3] = [f"[{harness.time(harness.at_ms + 170)}{line[24:]}"], []
    row = shown("-l", harness.write(tmp_path))[-1]
    assert (row["time"], row["controller"], row["leader"]) == (harness.now, "1 (epoch 1)", "none")


def test_the_json_lines_may_be_named_instead_of_the_log_beside_them(
    elected_uncleanly: LoggedHarness, tmp_path: Path
) -> None:
    """It was said that no log tells of the partition."""
    logs = elected_uncleanly.write(tmp_path) / "node-1"
    assert shown("-l", logs / "state-change.jsonl") == shown("-l", tmp_path)
    assert told_by_job(logs / "state-change.jsonl") == told_by_job(tmp_path)
    (logs / "state-change.log").unlink()
    alone = shown("-l", logs / "state-change.jsonl")
    assert [row["why"] for row in alone][2:] == ["unclean election: broker 1 was unregistered", DELETED]
    assert shown("-l", tmp_path) == alone
    assert [one[4] for one in told_by_job(tmp_path)] == [row["why"] for row in alone]
    said = CliRunner().invoke(log, ["timeline", "other-0", "-l", str(tmp_path)])
    assert (said.exit_code, said.output) == (1, "moldau: no log tells of other-0\n")


def test_one_part_of_a_log_is_told_of_with_its_reasons_and_nothing_else(
    elected_uncleanly: LoggedHarness, tmp_path: Path
) -> None:
    logs = elected_uncleanly.write(tmp_path) / "node-1"
    lines = (logs / "state-change.log").read_text().splitlines(keepends=True)
    (logs / "state-change.log.2026-11-27-10").write_text("".join(lines[:-2]))
    (logs / "state-change.log").write_text("".join(lines[-2:]))
    assert whys("-l", logs / "state-change.log.2026-11-27-10")[2:] == ["unclean election: broker 1 was unregistered"]
    assert whys("-l", logs / "state-change.log") == [DELETED]


def test_a_twin_that_was_not_written_any_more_is_not_taken_from_another_line(
    harness: LoggedHarness, tmp_path: Path
) -> None:
    """A process may be killed between a line and its twin."""
    for _ in range(2):
        harness.create("orders", (1, 2))
        harness.at_ms += 120_000
        deletes(harness, "orders")
    harness.twins[1] = [line for line in harness.twins[1] if f'"time_ms": {harness.at_ms}' not in line]
    rows = shown("-l", harness.write(tmp_path))
    assert [row["why"] for row in rows] == ["created", DELETED] * 2
    assert rows[3]["time"] == harness.now


def test_times_are_those_of_the_log_wherever_it_is_read(elected_uncleanly: LoggedHarness, tmp_path: Path) -> None:
    """JSON lines have no time zone: a log that was copied from elsewhere has another one than the reader's place."""
    harness = elected_uncleanly
    harness.texts[1] = [line for line in harness.texts[1] if "leaderEpoch=1" not in line]
    rows = shown("-l", harness.write(tmp_path, ahead=timedelta(hours=5, minutes=45)))
    assert [row["why"] for row in rows][2] == "unclean election: broker 1 was unregistered"
    hours = [row["time"][11:16] for row in rows]
    assert hours == [row["time"][11:16] for row in sorted(rows, key=lambda row: str(row["time"]))]
    assert rows[2]["time"] == harness.time(harness.at_ms - 1_000 + (5 * 60 + 45) * 60_000)


def test_lines_that_are_cut_off_or_strange_cost_no_other(elected_uncleanly: LoggedHarness, tmp_path: Path) -> None:
    harness = elected_uncleanly
    whole = whys("-l", harness.write(tmp_path))
    harness.twins[1] += [
        "[]",
        "{}",
        '{"topic": "orders"}',
        '{"topic": "orders", "partition": 0, "isr": [null]}',
        '{"topic": "orders", "partition": 0, "isr": [Infinity]}',
        '{"topic"',
    ]
    assert whys("-l", harness.write(tmp_path)) == whole
    harness.texts.clear()
    harness.texts[1] = []
    assert whys("-l", harness.write(tmp_path, texts=False)) == whole


@pytest.mark.parametrize("strange", ["no controller", "no time", "a time of no year", "a time of five digits a year"])
@pytest.mark.parametrize("texts", [True, False])
def test_facts_that_json_lines_do_not_tell_cost_no_other(
    elected_uncleanly: LoggedHarness, tmp_path: Path, strange: str, texts: bool
) -> None:
    """A deletion by nobody, and a decision at no time, ended ``moldau log`` with a traceback."""
    harness = elected_uncleanly

    def made_strange(line: str) -> str:
        fact = json.loads(line)
        if strange == "no controller":
            del fact["controller"]
        elif strange == "no time":
            del fact["time_ms"]
        else:
            fact["time_ms"] = -50_000_000_000_000 if strange == "a time of no year" else 300_000_000_000_000
        return json.dumps(fact)

    whole = whys("-l", harness.write(tmp_path, texts=texts))
    kept = list(harness.twins[1])
    last = next(at for at in reversed(range(len(kept))) if '"to": "NonExistentPartition"' in kept[at])
    first = next(at for at in range(len(kept)) if '"to": "OnlinePartition"' in kept[at])
    for at in {first, last} if strange == "no controller" else {first}:
        kept.insert(at + 1, made_strange(kept[at]))
        if strange == "no controller":
            harness.twins[1] = [*kept[:at], *kept[at + 1 :]]
            assert whys("-l", harness.write(tmp_path, texts=texts)) == whole
    harness.twins[1] = kept
    folder = harness.write(tmp_path, texts=texts)
    assert whys("-l", folder) == whole
    for command in (["skew"], ["why", "orders-0"]):
        said = CliRunner().invoke(log, [*command, "-l", str(folder)])
        assert said.exit_code == 0, said.output
    wish = JobOptions((str(folder),))
    assert not [row for task in splits.plan(wish) for row in splits.rows(task, wish)]
    assert [one[4] for one in told_by_job(folder)] == whole


# ---- many lines


def twin(at_ms: int, partition_epoch: int, *, node: int = 1, number: int = 0) -> str:
    """A broker's JSON line that it follows in leader epoch 5."""
    fact = {
        "time_ms": at_ms, "event": "replica", "node": node, "topic": "orders", "partition": number, "role": "follower",
        "leader": 3, "leaderEpoch": 5, "partitionEpoch": partition_epoch, "isr": [3], "replicas": [1, 2, 3],
    }  # fmt: skip
    return json.dumps(fact)


def test_json_lines_are_read_as_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a topic were held before the first was looked at."""
    file = tmp_path / "state-change.jsonl"
    file.write_text("".join(f"{twin(ms, ms)}\n" for ms in range(500)))
    read: list[bytes] = []

    def watched(line: bytes, of: Callable[[bytes], Any] = twins.read) -> Any:
        read.append(line)
        return of(line)

    monkeypatch.setattr(twins, "read", watched)
    for events_of in (
        lambda: told([str(file)], ["orders"], lambda _: None),
        lambda: job.events([[str(file)]]),
        lambda: log_commands._all_events([[str(file)]], log_commands._Damaged()),
    ):
        read.clear()
        assert next(iter(events_of())).partition_epoch == 0
        assert len(read) <= 4


@pytest.mark.parametrize("texts", [True, False])
def test_a_timeline_holds_no_json_lines_of_other_partitions(tmp_path: Path, texts: bool) -> None:
    """About a kilobyte was held for each line of the topic."""
    harness = LoggedHarness(4)
    harness.create("orders", (1, 2))
    folder = harness.write(tmp_path, texts=texts)
    shown("-l", folder)  # modules are loaded, and held

    def held(lines: int) -> int:
        other = "".join(f"{twin(harness.at_ms, 1, number=1)}\n" for _ in range(lines))
        own = "".join(f"{line}\n" for line in harness.twins[1])
        (folder / "node-1" / "state-change.jsonl").write_text(own + other)
        tracemalloc.start()
        try:
            assert whys("-l", folder) == ["created"]
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def least(lines: int) -> int:
        """Without what is made once, and again after a collection: 600 KB, however many lines there are."""
        return min(held(lines) for _ in range(3))

    assert least(2_200) - least(200) < 200_000, "less than 100 bytes a line"


def test_files_of_json_lines_alone_are_read_the_oldest_first(tmp_path: Path) -> None:
    for name, times in (("", (50, 60)), (".1", (30, 40)), (".2", (10, 20))):
        lines = ["{}", '{"time_ms"', *(twin(ms, ms) for ms in times)]
        (tmp_path / f"state-change.jsonl{name}").write_text("\n".join(lines) + "\n")
    files = sorted(str(file) for file in tmp_path.iterdir())
    assert [event.partition_epoch for event in told(files, (), lambda _: None)] == [10, 20, 30, 40, 50, 60]


class Touched(list[PartitionChange]):
    """Changes that count how often one of them was looked at in a loop."""

    times = 0

    def __iter__(self) -> Iterator[PartitionChange]:
        for change in super().__iter__():
            self.times += 1
            yield change

    def __reversed__(self) -> Iterator[PartitionChange]:
        for change in super().__reversed__():
            self.times += 1
            yield change


@pytest.mark.parametrize("topics", [1, 100])
def test_a_timeline_looks_at_each_change_some_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    """For each row, and for the head of each topic of one name, it went through all."""
    found = Touched(
        PartitionChange(
            f"2026-11-27 10:00:{at:04d}", 1, at, (1, 2), 1, 1, "why", replicas=(2, 1), topic=at * topics // 200
        )
        for at in range(200)
    )
    monkeypatch.setattr(log_commands, "changes", lambda *_: found)
    harness = LoggedHarness(4)
    harness.create("orders", (1, 2))
    folder = harness.write(tmp_path)
    for output in ("json", "text"):
        found.times = 0
        said = CliRunner().invoke(log, ["timeline", "orders-0", "-l", str(folder), "-o", output])
        assert said.exit_code == 0, said.output
        assert found.times <= 10 * len(found)


def by_two_followers(changes: int) -> tuple[list[str], list[str]]:
    """Lines of nodes 1 and 2 on one leader epoch, and the twins of node 2 alone."""
    lines = [by_follower(at / 10, (5, at), node, 3) for at in range(changes) for node in (1, 2)]
    return lines, [twin(ms, at, node=2) for at, ms in enumerate(range(0, changes * 100, 100))]


def test_lines_without_twins_are_compared_with_no_twins_of_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node's twin may reach less far back than its log: each line before was compared with all of the other."""
    compared: list[object] = []

    def watched(event: Any, of: Callable[[Any], Any] = twins._told) -> Any:
        compared.append(event)
        return of(event)

    monkeypatch.setattr(twins, "_told", watched)
    lines, of_one = by_two_followers(200)
    found = completed(events(*lines), [one._replace(time="") for line in of_one if (one := twins.read(line.encode()))])
    assert [event.isr for event in found] == [None, (3,)] * 200, "each line of node 2 has what its twin says"
    assert len(compared) <= 4 * len(lines)


def test_the_zone_of_a_node_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []

    def watched(line: Any, twin: Any, of: Callable[[Any, Any], timedelta | None] = twins._zone) -> timedelta | None:
        found.append(line.node)
        return of(line, twin)

    monkeypatch.setattr(twins, "_zone", watched)
    lines, of_one = by_two_followers(50)
    read = [twins.read(line.encode()) for line in of_one]
    moved = [one._replace(time=line.time) for one, line in zip(read, events(*lines)[1::2], strict=True) if one]
    completed(events(*lines), moved)
    assert found == [2]


def test_no_skew_is_no_answer_without_the_lines_it_takes(elected_uncleanly: LoggedHarness, tmp_path: Path) -> None:
    """An empty table was printed and nothing else."""
    said = CliRunner().invoke(log, ["skew", "-l", str(elected_uncleanly.write(tmp_path))])
    assert said.exit_code == 0
    assert "nothing to compare: that takes a controller's line of a decision" in said.output


# ---- any history

ACTS = st.sampled_from(
    ["die", "heartbeat", "isr", "elect", "unclean", "move", "call off", "delete", "create", "succeed"]
)


@settings(max_examples=60)
@given(
    zookeeper_mode=st.booleans(),
    acts=st.lists(st.tuples(ACTS, st.integers(0, 3), st.integers(0, 3)), max_size=25),
    texts=st.booleans(),
)
def test_a_timeline_has_each_decision_once_with_its_own_reason(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_mode: bool, acts: list[tuple[str, int, int]], texts: bool
) -> None:
    """Deletions and topics of the same name among them, by several controllers, with the text or the JSON alone."""
    harness = LoggedHarness(4, zookeeper_mode=zookeeper_mode)
    harness.create("orders", (0, 1, 2), configs=UNCLEAN)
    for act, one, other in acts:
        happens(harness, act, one, other)
    expected = harness.decisions["orders", 0]
    folder = harness.write(tmp_path_factory.mktemp("logs"), texts=texts)
    rows = shown("-l", folder)
    several = len({one[0] for one in expected}) > 1
    found = [
        (row["topic_id"] if several else expected[0][0], -1 if row["leader"] == "none" else row["leader"], row["epoch"],
         tuple(row["in_sync"]), row["why"])
        for row in rows
    ]  # fmt: skip
    assert found == expected
    assert told_by_job(folder) == [("", *one[1:]) for one in expected]


def happens(harness: LoggedHarness, act: str, one: int, other: int) -> None:
    """Something, if it can."""
    topic = harness.image.topic("orders")
    if act == "die":
        dies(harness, one)
    elif act == "heartbeat":
        if harness.broker(one).fenced:
            harness.register(one, other + 1)
        harness.heartbeat(one)
    elif act == "succeed":
        harness.author = Author(one, harness.author.epoch + 1)
    elif act == "create" and topic is None:
        if not all(harness.broker(id).fenced for id in {one, (one + 1) % 4}):
            harness.create("orders", (one, (one + 1) % 4), configs=UNCLEAN)
    elif topic is not None:
        acts_on(harness, act, one, other)


def acts_on(harness: LoggedHarness, act: str, one: int, other: int) -> None:
    partition = harness.partition("orders")
    if act == "isr" and partition.leader >= 0:
        alive = [id for id in partition.replicas if not harness.broker(id).fenced and id != partition.leader]
        harness.set_isr("orders", 0, partition.leader, *alive[: other % (len(alive) + 1)])
    elif act in ("elect", "unclean"):
        harness.submit(ElectLeaders(election_type=int(act == "unclean")))
    elif act in ("move", "call off"):
        replicas = None if act == "call off" else tuple(dict.fromkeys((one, other)))
        harness.submit(AlterPartitionReassignments(moves=(Move(topic="orders", partition=0, replicas=replicas),)))
    elif act == "delete":
        deletes(harness, "orders")
