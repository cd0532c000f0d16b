"""Reading what Go's test programs print, and what may fail in other projects' suites."""

from __future__ import annotations

import json
from pathlib import Path

from tests.suites import librdkafka
from tests.suites.go import read
from tests.suites.known import KAFKA_GO, Known, reason

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
    assert read("TestTwo", 0, "--- SKIP: TestTwo (0.00s)\n    two.go:1: no\nPASS\n", 0.1)[1:3] == ("skipped", ())


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
