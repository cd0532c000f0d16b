"""Tests that take long, which `make test` leaves out and counts, and `make test-all` runs: tests/long.txt names them.

    python -m tests.long said.jsonl

judges anew each test of which tests/processor_time.py has said what it costs, and writes the list. What stands in KEPT
is run in any case, however long: each capability that only long tests show has one of them there. Read next:
tests/conftest.py (which leaves them out with --short), the Makefile.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path

from tests.tools import matches

LIST = Path(__file__).with_suffix(".txt")
LONG_S = 2.0
"""From so many seconds of processor time on a test is long, of all processes that it starts."""
LONG_AS_WELL = ("tests/live/test_chaos.py",)
"""Files whose tests wait for each other's runs, so that their times say little."""
KEPT = (
    "tests/live/test_admin_kills.py::*stay_deleted_when_the_controller_dies[1]",
    "tests/live/test_admin_load.py::*test_topics_grow",
    "tests/live/test_admin_tools.py::*test_a_generated_reassignment_is_executed_verified",
    "tests/live/test_adopt.py::*test_transactions_are_looked_at",
    "tests/live/test_answers.py::*[quorum]",
    "tests/live/test_chaos.py::*[quorum-18]",
    "tests/live/test_chaos.py::*[quorum-6]",
    "tests/live/test_chaos.py::*[zookeeper-10]",
    "tests/live/test_chaos.py::*[zookeeper-13]",
    "tests/live/test_classic_groups.py::*test_consumer_groups",
    "tests/live/test_classic_tools.py::*test_topics",
    "tests/live/test_dynamic_voters.py::*shrink_to_one",
    "tests/live/test_foreign_java.py::*test_a_topic_lives_from_creation_to_deletion",
    "tests/live/test_full_disk.py::*[FileLimit]",
    "tests/live/test_fuzz",
    "tests/live/test_group_failover.py::*test_members_read_everything_once",
    "tests/live/test_kafka_39_folders.py::*[killed]",
    "tests/live/test_kills.py::*[leader]",
    "tests/live/test_kills.py::*on_zookeeper_either",
    "tests/live/test_mixed_transactions.py::*[killed]",
    "tests/live/test_pipeline.py::*test_every_record_is_written_left_out_or_dead",
    "tests/live/test_pipeline.py::*test_what_is_cut_off_between_any_two_steps",
    "tests/live/test_plane_zookeeper.py::*when_the_controller_is_killed",
    "tests/live/test_publish.py::*test_up_and_down",
    "tests/live/test_reassign_apply.py::*test_a_plan_outlives_kill_9",
    "tests/live/test_same_id.py::*[quorum]",
    "tests/live/test_snippets.py::*readme",
    "tests/live/test_spark_elections.py::*[skip-quorum]",
    "tests/live/test_spark_sink.py::*test_a_task_goes_on_over_a_killed_broker",
    "tests/live/test_spark_source.py::*test_a_failed_batch_is_repeated",
    "tests/live/test_spark_tables.py::*test_after_a_crash_at_each_step",
    "tests/live/test_zookeeper_lost.py::*ensemble",
    "tests/packages/admin/test_planning.py",
    "tests/packages/package/test_wheel.py::*test_it_says",
    "tests/packages/simulator/test_follower_reads.py::*[quorum]",
    "tests/packages/simulator/test_found.py",
    "tests/packages/simulator/test_transactional.py::*[1-quorum]",
    "tests/packages/spark/test_delta_log.py",
)


@cache
def _listed() -> frozenset[str]:
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def is_long(nodeid: str) -> bool:
    """Whether `make test` leaves it out."""
    return nodeid in _listed() or (nodeid.startswith(LONG_AS_WELL) and not is_kept(nodeid))


def long_ones(said: str, listed: Collection[str] = ()) -> list[str]:
    """The tests that are long, by what was said of them (of several modes the longest), without KEPT; those that are
    ``listed`` and were not measured stay."""
    costs: defaultdict[str, float] = defaultdict(float)
    for line in said.splitlines():
        nodeid, seconds = json.loads(line)
        costs[nodeid] = max(costs[nodeid], seconds)
    long = {nodeid for nodeid, seconds in costs.items() if seconds >= LONG_S}.union(set(listed) - costs.keys())
    return sorted(one for one in long if not (is_kept(one) or one.startswith(LONG_AS_WELL)))


def is_kept(nodeid: str) -> bool:
    """Whether `make test` runs it however long it takes."""
    return any(matches(one, nodeid) or ("::" not in one and nodeid.startswith(one)) for one in KEPT)


if __name__ == "__main__":
    said = "".join(Path(name).read_text() for name in sys.argv[1:])
    found = long_ones(said, _listed())
    title = f"# Written by `python -m tests.long`: {LONG_S:g} s of processor time or more."
    LIST.write_text("\n".join([title, *found, ""]))
