"""The kill suite in short, and its calibration: safe settings pass, unsafe ones are found out.

``make kills`` is the long version. With MOLDAU_LIVE_SYSTEM=kafka the same tests run against Apache Kafka.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from kill_systems import open_system

from moldau.cluster.kills.checking import RunVerdict
from moldau.cluster.kills.command import MoldauSystem, run_one
from moldau.cluster.kills.killing import SCENARIOS, KillPlan, KillRun
from moldau.cluster.kills.load import LoadPlan, ProducerLoad, high_watermarks, read_all
from moldau.cluster.kills.report import problems, table
from moldau.history import checks
from moldau.history.rows import History


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.timeout(600)
def test_nothing_acknowledged_suffers_from_two_kills(scenario: str, tmp_path: Path) -> None:
    plan = KillPlan(scenario, LoadPlan(f"kills-{scenario}", partitions=6, rate_per_s=100), kills=2, seed=7)

    checked = run_one(plan, tmp_path, open_system, print)

    print(table([checked]))
    assert checked.verdict is RunVerdict.PASS, problems([checked])


@pytest.mark.timeout(300)
def test_nothing_acknowledged_suffers_on_zookeeper_either(tmp_path: Path) -> None:
    """Leader and controller at once, on the plane whose truth stands in znodes."""
    plan = KillPlan("both", LoadPlan("kills-zookeeper", partitions=6, rate_per_s=100), kills=1, seed=11)

    checked = run_one(plan, tmp_path, partial(MoldauSystem, plane="zookeeper"), print)

    print(table([checked]))
    assert checked.verdict is RunVerdict.PASS, problems([checked])


@pytest.mark.timeout(300)
def test_records_that_only_the_leader_has_acknowledged_are_lost_with_it_and_told(tmp_path: Path) -> None:
    """acks=1, followers paused, leader killed: what must be lost is lost, and the checker must say so."""
    unsafe = LoadPlan("unsafe", 1, producers=1, more={"enable.idempotence": False, "acks": "1"})
    system = open_system(tmp_path)
    try:
        with KillRun(system, KillPlan("leader", unsafe), print) as run:
            run.make_topic()
            load = ProducerLoad(system.bootstrap_servers, unsafe)
            start_ns = time.monotonic_ns()
            load.start()
            run.wait(lambda: load.acked_since(start_ns), "the topic is written to")
            leader = run.poller.newest(run.nodes)[0].leader
            followers = [node for node in run.nodes if node != leader]
            for node in followers:
                os.kill(system.pid(node), signal.SIGSTOP)
            for _ in range(5):  # what comes first answers a fetch that waited: it may survive in a follower's socket
                paused_ns = time.monotonic_ns()
                run.wait(partial(load.acked_since, paused_ns), "the leader acknowledges on its own")
            system.kill(leader)
            killed_ns = time.monotonic_ns()
            for node in followers:
                os.kill(system.pid(node), signal.SIGCONT)
            run.wait(lambda: load.acked_since(killed_ns), "a new leader acknowledges")
            load.stop()
            ends = high_watermarks(system.bootstrap_servers, unsafe)
            history = History(load.sends(), [], read_all(system.bootstrap_servers, unsafe, ends), ends, [])
    finally:
        system.close()

    assert checks.count(checks.check(history))[checks.LOST] > 0
