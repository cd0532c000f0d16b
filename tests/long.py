"""Tests that take long, which `make test` leaves out and counts, and `make test-all` runs: tests/long.txt names them.

    make test-all ARGS="--durations=0 --durations-min=0.3" | tee said.txt
    python -m tests.long said.txt > tests/long.txt

What stands in KEPT is run in any case, however long: each capability that only long tests show has one of them there.
Read next: tests/conftest.py (which leaves them out with --short), the Makefile.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.tools import matches

LIST = Path(__file__).with_suffix(".txt")
LONG_S = 8.0
"""From so many seconds on a test is long, measured while the whole suite, and whatever else, kept two cores busy."""
LONG_AS_WELL = ("tests/live/test_chaos.py",)
"""Files whose tests wait for each other's runs, so that their times say little."""
KEPT = (
    "tests/live/test_admin_tools.py::*test_a_generated_reassignment_is_executed_verified",
    "tests/live/test_adopt.py::*test_transactions_are_looked_at",
    "tests/live/test_chaos.py::*[zookeeper-2]",
    "tests/live/test_chaos.py::*[zookeeper-10]",
    "tests/live/test_chaos.py::*[zookeeper-13]",
    "tests/live/test_chaos.py::*[quorum-6]",
    "tests/live/test_chaos.py::*[quorum-18]",
    "tests/live/test_classic_groups.py::*test_consumer_groups",
    "tests/live/test_classic_tools.py::*test_topics",
    "tests/live/test_foreign_java.py::*test_a_topic_lives_from_creation_to_deletion",
    "tests/live/test_fuzz",
    "tests/live/test_group_failover.py::*test_members_read_everything_once",
    "tests/live/test_kafka_39_folders.py::*[killed]",
    "tests/live/test_kills.py::*[leader]",
    "tests/live/test_kills.py::*on_zookeeper_either",
    "tests/live/test_mixed_transactions.py::*[killed]",
    "tests/live/test_pipeline.py::*test_every_record_is_written_left_out_or_dead",
    "tests/live/test_pipeline.py::*test_what_is_cut_off_between_any_two_steps",
    "tests/live/test_reassign_apply.py::*test_a_plan_outlives_kill_9",
    "tests/live/test_same_id.py::*[quorum]",
    "tests/live/test_snippets.py::*readme",
    "tests/live/test_zookeeper_lost.py::*ensemble",
    "tests/packages/admin/test_planning.py",
    "tests/packages/simulator/test_found.py",
)
_TOLD = re.compile(r"([\d.]+)s (?:call|setup|teardown) +(tests/\S+::.+?)\s*$")


@cache
def _listed() -> frozenset[str]:
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def is_long(nodeid: str) -> bool:
    """Whether `make test` leaves it out."""
    return nodeid in _listed() or (nodeid.startswith(LONG_AS_WELL) and not is_kept(nodeid))


def long_ones(told: str) -> list[str]:
    """The tests that are long, by what pytest told of durations (in several modes: the longest), without KEPT."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in told.splitlines():
        if found := _TOLD.match(line):
            seconds[found[2]] += float(found[1])
    long = (nodeid for nodeid, took in seconds.items() if took >= LONG_S)
    return sorted(nodeid for nodeid in long if not (is_kept(nodeid) or nodeid.startswith(LONG_AS_WELL)))


def is_kept(nodeid: str) -> bool:
    """Whether `make test` runs it however long it takes."""
    return any(matches(one, nodeid) or ("::" not in one and nodeid.startswith(one)) for one in KEPT)


if __name__ == "__main__":
    print("# Written by `python -m tests.long`: tests that took 8 s or more while all others ran beside them.")
    told = [long_ones(Path(name).read_text(errors="replace")) for name in sys.argv[1:]]
    print("\n".join(sorted({nodeid for one in told for nodeid in one})))
