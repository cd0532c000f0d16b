"""Reading what Go's test programs print, and what may fail in other projects' suites."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.suites import librdkafka
from tests.suites.__main__ import Tally, play
from tests.suites.go import read
from tests.suites.known import KAFKA_GO, LIBRDKAFKA, Known, reason
from tests.suites.suite import Outcome
from tests.suites.systems import NoCluster, Ours, System, demand_all

SUBTESTS = """=== RUN   TestConn
--- FAIL: TestConn (2.10s)
    --- PASS: TestConn/nettest/one (0.10s)
    --- FAIL: TestConn/nettest (1.10s)
        --- FAIL: TestConn/nettest/test_delete_topics (1.00s)
FAIL
"""


def test_a_test_fails_by_its_innermost_subtests_or_by_its_own_name() -> None:
    assert read("TestConn", 1, SUBTESTS, 1.0)[1:3] == ("failed", ("TestConn/nettest/test_delete_topics",))
    assert read("TestHang", 2, "panic: test timed out after 20s", 20.0)[1:3] == ("failed", ("TestHang",))


def test_a_test_that_ends_well_has_passed_or_was_skipped_by_the_suite_itself() -> None:
    assert read("TestOne", 0, "--- PASS: TestOne (0.00s)\nPASS\n", 0.1)[1:3] == ("passed", ())
    skipped = read("TestTwo", 0, "    two_test.go:1: not now\n--- SKIP: TestTwo (0.00s)\nPASS\n", 0.1)
    assert (skipped.verdict, skipped.failed, skipped.why) == ("skipped", (), "not now")


def test_only_what_is_named_may_fail() -> None:
    assert reason(KAFKA_GO, "TestClientCreateACLs", "moldau")
    assert reason(KAFKA_GO, "TestClientCreateACLsTwice", "moldau") is None
    assert reason(KAFKA_GO, "TestReader", "moldau") is None


def test_what_is_missing_here_excuses_no_failure_against_apache_kafka() -> None:
    known = (Known("TestTransactions", "not served yet"), Known("TestTinySegments", "refused", anywhere=True))
    assert reason(known, "TestTransactions", "kafka") is None
    assert reason(known, "TestTinySegments", "kafka") == reason(known, "TestTinySegments", "moldau") == "refused"


def test_librdkafka_reports_each_test_of_a_number_and_a_run_without_a_report_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert [one[:3] for one in librdkafka.read("0018", "Aborted", report, 1.0)] == [("0018", "failed", ("0018",))]
    states = {"0018_cgrp_term": "FAILED", "0018_quick": "PASSED", "0018_other": "SKIPPED", "0019_list_groups": "DNS"}
    report.write_text(json.dumps({"tests": {name: {"state": one, "duration": 1.5} for name, one in states.items()}}))
    assert [one[:3] for one in librdkafka.read("0018", "", report, 9.0)] == [
        ("0018_cgrp_term", "failed", ("0018_cgrp_term",)),
        ("0018_quick", "passed", ()),
    ]


def test_librdkafka_tells_of_what_it_skips_itself_and_not_of_what_was_not_asked_for(tmp_path: Path) -> None:
    report, names = tmp_path / "report.json", ("0092_mixed_msgver", "0092_of_a_mock", "0092_of_a_scenario")
    report.write_text(json.dumps({"tests": {name: {"state": "SKIPPED", "duration": 0.0} for name in names}}))
    said = (
        "| 0092_mixed_msgver       |    SKIPPED |   0.000s | MsgVersion 1 was removed in Apache Kafka 4.0\n"
        "| 0092_of_a_mock          |    SKIPPED |   0.000s | Filtered due to negative test flags\n"
        "| 0092_of_a_scenario      |    SKIPPED |   0.000s | \n"
        "| 0092_last               |     PASSED |   0.000s | \n"
    )
    (told,) = librdkafka.read("0092", said, report, 1.0)
    assert (told.test, told.verdict) == ("0092_mixed_msgver", "skipped")
    assert told.why == "MsgVersion 1 was removed in Apache Kafka 4.0"


def test_a_part_of_a_number_is_told_of_by_its_name(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"tests": {"0081_admin": {"state": "PASSED", "duration": 2.0}}}))
    (told,) = librdkafka.read("0081", "", report, 2.0, "do_test_DeleteRecords")
    assert told.test == "0081_admin/do_test_DeleteRecords"
    (ended,) = librdkafka.read("0081", "", tmp_path / "none", 2.0, "do_test_CreateAcls")
    assert reason(LIBRDKAFKA, ended.test, "moldau")


LISTED = """
    _TEST(0044_partition_cnt,
          0,
          TEST_BRKVER(1, 0, 0, 0), /* why (not before) */
    ),
    _TEST(0045_subscribe_update, 0, TEST_BRKVER(0, 9, 0, 0)),
    _TEST(0045_subscribe_update_mock, TEST_F_LOCAL),
    _TEST(0045_subscribe_update_topic_remove,
          0,
          TEST_BRKVER(0, 9, 0, 0),
          .scenario = "noautocreate"),
    _TEST(0103_transactions, 0, .scenario = "default,ak23"),
"""


def test_librdkafka_lists_the_tests_of_each_scenario() -> None:
    assert librdkafka.numbers(LISTED, "noautocreate") == {"0045": ["0045_subscribe_update_topic_remove"]}
    assert librdkafka.numbers(LISTED, "default") == {
        "0044": ["0044_partition_cnt"],
        "0045": ["0045_subscribe_update"],
        "0103": ["0103_transactions"],
    }


class OneBrokerDies:
    """A suite whose cluster loses a broker in its second of three tests."""

    name = "dying"
    known = ()

    def absent(self, sources: Path) -> str | None:
        return None

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        brokers = Brokers()
        yield Outcome("TestOne", "passed", (), 0.1, "")
        demand_all(brokers)
        brokers.gone = {2: -9}
        yield Outcome("TestTwo", "failed", ("TestTwo",), 9.0, "\n".join(f"line {one}" for one in range(40)))
        demand_all(brokers)
        yield Outcome("TestThree", "failed", ("TestThree",), 9.0, "")


class Brokers:
    """Brokers that are said to have ended."""

    bootstrap_servers = ""

    def __init__(self) -> None:
        self.gone: Mapping[int, int | None] = {}

    def terminate(self, id: int) -> None: ...

    def restart(self, id: int) -> None: ...

    def log(self, id: int) -> str:
        return f"broker {id} met what it did not expect"

    def ended(self) -> Mapping[int, int | None]:
        return self.gone


def test_a_suite_whose_broker_ends_by_itself_is_played_no_further(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("moldau")
    play(OneBrokerDies(), Path(), ".", Ours(), tally)
    tally.end()
    said = capsys.readouterr().out
    assert tally.broken == ["dying"]
    assert tally.counts == {"passed": 1, "skipped": 0, "known": 0, "unexpected": 1}
    assert "not played any further: broker 2 ended by itself, with exit code -9" in said
    assert "broker 2 met what it did not expect" in said
    assert "TestThree" not in said
    assert said.rstrip().endswith("not played to the end: dying")


def test_all_that_an_unexpected_failure_printed_is_kept_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("moldau")
    play(OneBrokerDies(), Path(), ".", Ours(), tally)
    (one,) = tally.unexpected
    file = Path(one.rpartition(": ")[2])
    assert (one.partition(":")[0], file.read_text().splitlines()[0]) == ("dying TestTwo", "line 0")
    assert "line 0" not in capsys.readouterr().out
    file.unlink()
    file.parent.rmdir()


class NoneStarts(OneBrokerDies):
    """A suite for which no cluster starts."""

    def run(self, sources: Path, only: str, system: System) -> Iterator[Outcome]:
        raise NoCluster("no Java 17 runtime")
        yield


def test_a_suite_without_a_cluster_says_why_and_is_not_taken_for_played(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("kafka")
    play(NoneStarts(), Path(), ".", Ours(), tally)
    assert tally.broken == ["dying"]
    assert "not played: no cluster of moldau starts here: no Java 17 runtime" in capsys.readouterr().out
