"""What the doctor finds, without a cluster: partitions as values, and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.admin import cluster_checks
from moldau.admin import file_checks as file_checks_module
from moldau.admin.cli import cli
from moldau.admin.cluster_checks import (
    _features,
    _leaders,
    _partitions,
    _placement,
    _throttles,
    _undecided,
    _without_log,
)
from moldau.admin.file_checks import file_checks
from moldau.admin.findings import ERROR, NOTE, WARNING, some
from moldau.admin.partition_states import AT_MIN, FILTERS, OFFLINE, OK, UNDER, UNDER_MIN, PartitionHealth, worst
from moldau.admin.perf import percentile
from moldau.broker.config.storage_format import read_meta
from moldau.client import admin
from moldau.client.admin import ConfigEntry, ConfigSource, Resource
from moldau.client.features import Features
from moldau.model import NO_UUID, TopicPartition, uuid_text
from moldau.runtime.disk import RealDisk
from moldau.wire.messages.k35_describe_log_dirs import DescribeLogDirsResponse
from tests.packages.admin.doubles import ClientDouble, Driven, TalkDouble
from tests.packages.storage.test_old_formats import records


def part(isr: list[int], replicas: tuple[int, ...] = (1, 2, 3), leader: int = 1, min_isr: int = 2) -> PartitionHealth:
    return PartitionHealth("t", 0, leader, 0, list(replicas), isr, [], [], len(replicas), min_isr)


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (part([1, 2, 3]), OK),
        (part([1, 2]), AT_MIN),
        (part([1, 2], min_isr=1), UNDER),
        (part([1]), UNDER_MIN),
        (part([], leader=-1), OFFLINE),
        (part([1], replicas=(1,), min_isr=1), OK),
    ],
)
def test_the_state_of_a_partition_is_the_worst_that_is_to_say(one: PartitionHealth, state: str) -> None:
    assert one.state == state
    assert worst([part([1, 2, 3]), one]) == state


def test_a_partition_at_its_minimum_is_found_as_kafka_s_tool_finds_it() -> None:
    assert FILTERS["at_min_isr"](part([1], replicas=(1,), min_isr=1))
    assert FILTERS["under_min_isr"](part([1, 2, 3], leader=-1))
    assert not FILTERS["under_replicated"](part([1, 2, 3]))


def test_a_minimum_that_can_never_be_met_is_an_error_and_one_that_allows_no_failure_a_warning() -> None:
    assert not list(_placement([part([1], replicas=(1,), min_isr=2)])), "it counts as 1: acks=all is taken"
    assert [one.severity for one in _placement([part([1, 2], replicas=(1, 2), min_isr=5)])] == [WARNING]
    assert [one.severity for one in _placement([part([1, 2], replicas=(1, 2), min_isr=2)])] == [WARNING]
    assert list(_placement([part([1, 2, 3])])) == []


def test_leaders_elsewhere_are_worth_a_warning_above_a_tenth() -> None:
    fine, astray = part([1, 2, 3]), part([1, 2, 3], leader=2)
    assert list(_leaders([fine] * 9 + [astray])) == []
    (found,) = _leaders([fine] * 8 + [astray])
    assert (found.about, found.severity) == ("broker 1", WARNING)


def directory(*held: int, code: int = 0) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    """What a broker tells of a directory with these partitions of topic t."""
    topic = DescribeLogDirsResponse.DescribeLogDirsTopic(
        name="t", partitions=[DescribeLogDirsResponse.DescribeLogDirsPartition(partition_index=one) for one in held]
    )
    return DescribeLogDirsResponse.DescribeLogDirsResult(error_code=code, log_dir="/data", topics=[topic])


def test_a_broker_that_gave_up_a_log_is_named_unless_its_directory_is_offline_as_a_whole() -> None:
    """Such a replica never catches up, for which the doctor had one wait."""
    behind, well = part([1, 2]), part([1, 2, 3])
    (found,) = _without_log({2: [directory()], 3: [directory()]}, [behind])
    assert (found.about, found.severity) == ("broker 3", ERROR)
    assert "t-0" in found.what
    assert not list(_without_log({3: [directory(0)]}, [behind])), "it is catching up"
    assert not list(_without_log({3: [directory(code=56)]}, [behind])), "that is said of the directory"
    assert not list(_without_log({3: [directory()]}, [well])), "it has one by now"


def test_a_partition_of_which_brokers_have_logs_and_the_controller_does_not_know_is_named() -> None:
    """Its znode cannot be read, and others serve it: all was well by the doctor."""
    told = {1: [directory(0, 1)], 3: [directory(1)]}
    (found,) = _undecided(2, told, {TopicPartition("t", 0)})
    assert (found.about, found.severity) == ("t-1", ERROR)
    assert "broker 2's server.log" in found.mend
    assert not list(_undecided(2, told, {TopicPartition("t", number) for number in range(3)}))


def test_many_names_are_counted() -> None:
    assert some(range(7)) == "0, 1, 2, 3, 4 and 2 more"


@pytest.mark.parametrize(("percent", "value"), [(50, 5), (90, 9), (99, 10), (100, 10), (0, 1)])
def test_percentiles_are_values_that_were_measured(percent: float, value: int) -> None:
    assert percentile(range(1, 11), percent) == value


# ---- files


def node_file(folder: Path, **more: str) -> Path:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:9",
        "listeners": "PLAINTEXT://127.0.0.1:9,CONTROLLER://127.0.0.1:9",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        **{key.replace("_", "."): text for key, text in more.items()},
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    return file


def found(path: Path) -> dict[str, str]:
    return {one.what: one.severity for one in file_checks(str(path))[0]}


def test_a_node_s_file_is_told_what_is_wrong_with_it(tmp_path: Path) -> None:
    said = found(node_file(tmp_path, log_retention_mss="5", min_insync_replicas="3", default_replication_factor="2"))
    text = "\n".join(said)
    assert "log.retention.mss is no setting of a broker" in text
    assert "is not formatted" in text
    assert "min.insync.replicas=3 is more than default.replication.factor=2" in text


def test_a_formatted_node_s_file_has_nothing_wrong(tmp_path: Path) -> None:
    file = node_file(tmp_path)
    words = ["storage", "format", "-t", "bW9sZGF1LW5vZGUtdGVzdA", "-c", str(file)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert set(found(file).values()) <= {NOTE}
    assert CliRunner().invoke(cli, ["doctor", str(file)]).exit_code == 0


def test_a_metadata_log_that_was_removed_is_missed(tmp_path: Path) -> None:
    file = node_file(tmp_path)
    words = ["storage", "format", "-t", "bW9sZGF1LW5vZGUtdGVzdA", "-c", str(file)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    meta = read_meta(str(tmp_path / "data"), RealDisk())
    owner = f"{meta.cluster_id} {uuid_text(meta.directory_id or NO_UUID)}"
    note = tmp_path / "data/committed-metadata"
    for text, missed in ((f"{owner}\n1748\n3\n", True), (f"another {owner}\n1748\n3\n", False), ("x", False)):
        note.write_text(text)
        assert any("up to offset 1748 it was committed" in what for what in found(file)) == missed
    log = tmp_path / "data/__cluster_metadata-0"
    log.mkdir()
    (log / "00000000000000000000.log").touch()
    note.write_text(f"{owner}\n1748\n3\n")
    assert set(found(file).values()) <= {NOTE}


@pytest.mark.parametrize(
    ("connect", "alive", "severity", "told"),
    [
        ("localhost", {("localhost", 2181)}, None, ""),
        ("[::1]:2182,localhost:2181/kafka", {("::1", 2182), ("localhost", 2181)}, None, ""),
        ("a:1,b,c:3", {("a", 1), ("c", 3)}, WARNING, "b:2181"),
        ("a:1,b:2,[::1]:3", {("a", 1)}, ERROR, "b:2, [::1]:3"),
        ("a:1,b:2", {("a", 1)}, ERROR, "b:2"),
    ],
    ids=["no port", "IPv6", "one of three", "two of three", "one of two"],
)
def test_servers_of_zookeeper_are_looked_for_where_a_node_looks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: str, alive: set[tuple[str, int]],
    severity: str | None, told: str,
) -> None:  # fmt: skip
    """An address without a port, which is 2181, ended the doctor with a traceback, one of IPv6 was never reached, and
    one of two servers was taken for a majority."""
    monkeypatch.setattr(file_checks_module, "_why_not", lambda host, port: None if (host, port) in alive else "refused")
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=1\nzookeeper.connect={connect}\nlog.dirs={tmp_path / 'data'}\n")
    said = [one for one in file_checks(str(file))[0] if one.about == "zookeeper.connect"]
    expected = [] if severity is None else [(severity, f"cannot be reached from here: {told}")]
    assert [(one.severity, one.what) for one in said] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node.id=x\nprocess.roles=broker", "node.id"),
        ("bootstrap.servers=127.0.0.1:9\nsasl.mechanism=PLAIN", "sasl.mechanism is not supported"),
        ("client.id=x", "bootstrap.servers is not set"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_why(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    done = CliRunner().invoke(cli, ["doctor", str(tmp_path / "file")])
    assert done.exit_code == 4
    assert says in done.output


def test_files_that_are_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\xff")
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "binary"):
        assert [one.severity for one in file_checks(str(path))[0]] == [ERROR]


def test_logs_of_older_message_formats_are_named_before_a_node_sets_them_out_of_use(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for partition, first in (("old-0", records("v1")), ("new-0", b""), ("older-1", records("v0 in gzip"))):
        (data / partition).mkdir(parents=True)
        (data / partition / "00000000000000000000.log").write_bytes(first)
    (data / "no-partition").mkdir()
    path = node_file(tmp_path)
    told = {one.about: one for one in file_checks(str(path))[0] if "message format" in one.what}
    assert {about: one.what.rpartition("message format ")[2] for about, one in told.items()} == {
        "partition old-0": "v1",
        "partition older-1": "v0",
    }
    assert all("copying its records to a new topic" in one.mend for one in told.values())


@pytest.mark.parametrize(
    ("highest", "told"), [({1: 30, 2: 30}, "up to 30"), ({1: 30, 2: 27}, "up to 27"), ({1: 30, 2: 25}, None)]
)
def test_a_level_is_told_as_supported_when_every_broker_supports_it(
    highest: dict[int, int], told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker was asked, and "all" were said to support what it does: in the middle of an upgrade some do not."""
    monkeypatch.setattr(cluster_checks, "_reachable", lambda talk: sorted(highest))

    class Talk(TalkDouble):
        def ask(self, work: object, id: int = 1) -> Features:
            return Features({"metadata.version": (1, highest[id])}, {"metadata.version": 25}, id)

    found = list(_features(Talk()))
    assert [one.what for one in found] == (
        [] if told is None else [f"is at level 25, and every broker that answers supports {told}"]
    )


@pytest.mark.parametrize(("alive", "mend"), [({1, 2, 3}, "wait while brokers catch up"), ({1, 2}, "start broker 3; ")])
def test_nobody_is_told_to_wait_for_a_broker_that_is_down(alive: set[int], mend: str) -> None:
    talk = TalkDouble(Driven(ClientDouble(alive)))
    found = [one for one in _partitions(talk, [part([1, 2])]) if one.about == "t-0"]
    assert [one.what for one in found] == ["1 partition has replicas that are not in sync"]
    assert found[0].mend.startswith(mend)


@pytest.mark.parametrize(
    ("source", "mends"),
    [(ConfigSource.BROKER, ["--broker 1", "--broker 2"]), (ConfigSource.ALL_BROKERS, ["--all-brokers"])],
)
def test_a_throttle_that_was_left_behind_is_taken_away_where_it_was_set(
    monkeypatch: pytest.MonkeyPatch, source: ConfigSource, mends: list[str]
) -> None:
    """One of all brokers was to be taken away from each of them, which changes nothing."""
    monkeypatch.setattr(cluster_checks, "_reachable", lambda talk: [1, 2])
    key = cluster_checks.THROTTLES[0]
    entry = ConfigEntry(key, "1000", source, False, False, None, ())

    class Talk(TalkDouble):
        def ask(self, work: object, places: Sequence[Resource] = (), **_: object) -> Any:  # Any: of either call
            return (None, {}) if work is admin.reassignments else {place: (None, {key: entry}) for place in places}

    found = list(_throttles(Talk()))
    assert [one.mend for one in found] == [f"`moldau config alter {where} --unset {key} --yes`" for where in mends]
