"""A broker that takes connections and says nothing is named by each command that asks all of them, and costs it
seconds; what the others say is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau import Cluster
from moldau.admin.cli import cli
from moldau.client.admin import NewTopic, create_topics

SAYS_NOTHING = "has said nothing for 5 s"


def run(cluster: Cluster, *words: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, words), "--bootstrap-server", cluster.bootstrap_servers])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Broker 3 is held, and counts as alive: ``both`` is on brokers 1 and 3, ``alone`` on 3 only."""
    folder = tmp_path_factory.mktemp("paused")
    with Cluster(3, data=folder, controllers=1, config={"broker.session.timeout.ms": "600000"}) as cluster:
        client = cluster.client()
        topics = [NewTopic(name="both", assignment={0: (1, 3)}), NewTopic(name="alone", assignment={0: (3,)})]
        assert {one.code for one in client.run(create_topics(client.client, topics)).values()} == {0}
        cluster.wait_until_in_sync()
        cluster.pause(3)
        try:
            yield cluster
        finally:
            cluster.resume(3)


def test_settings_of_a_broker_that_does_not_answer_are_not_waited_for(cluster: Cluster) -> None:
    alone = run(cluster, "config", "describe", "--broker", 3, "-o", "json")
    assert alone.exit_code == 1, alone.output
    assert "broker 3 does not answer" in alone.stderr
    assert SAYS_NOTHING in alone.stderr
    assert not alone.stdout
    beside = run(cluster, "config", "describe", "--broker", 1, "--broker", 3, "broker.id", "node.id", "-o", "json")
    assert beside.exit_code == 4, beside.output
    assert {row["of"] for row in json.loads(beside.stdout)} == {"broker 1"}
    assert SAYS_NOTHING in beside.stderr
    changed = run(cluster, "config", "alter", "--broker", 1, "--broker", 3, "--set", "log.cleaner.threads=2", "--yes")
    assert changed.exit_code == 1
    assert SAYS_NOTHING in changed.stderr
    assert "nothing was changed" in changed.stderr
    kept = run(cluster, "config", "describe", "--broker", 1, "log.cleaner.threads", "-o", "json")
    assert kept.exit_code == 0, kept.output
    assert json.loads(kept.stdout)[0]["source"] == "default"


def test_a_plan_takes_bytes_from_those_that_answer_and_balances_no_disks_without_the_others(cluster: Cluster) -> None:
    known = run(cluster, "reassign", "plan", "--balance", "disk", "--topic", "both", "-o", "json")
    assert known.exit_code == 0, known.output
    assert SAYS_NOTHING in known.stderr
    unknown = run(cluster, "reassign", "plan", "--balance", "disk", "-o", "json")
    assert unknown.exit_code == 1, unknown.output
    assert "the bytes of alone-0 are not known, and disks cannot be balanced without" in unknown.stderr
    drained = run(cluster, "reassign", "plan", "--drain", 1, "-o", "json")
    assert drained.exit_code == 0, drained.output
    assert "the bytes of alone-0 are not known, and count as none" in drained.stderr


def test_directories_are_told_of_the_brokers_that_answer(cluster: Cluster) -> None:
    shown = run(cluster, "broker", "describe", "-o", "json")
    assert shown.exit_code == 4, shown.output
    assert "broker 3 does not answer" in shown.stderr
    assert SAYS_NOTHING in shown.stderr
    assert [len(row["directories"]) for row in json.loads(shown.stdout)] == [1, 1, 0]


def test_a_plan_with_directories_names_what_a_silent_broker_does_not_tell(cluster: Cluster, tmp_path: Path) -> None:
    described = json.loads(run(cluster, "broker", "describe", 1, "-o", "json").stdout)
    here = described[0]["directories"][0]["directory"]
    plan = tmp_path / "plan.json"
    entry = {"topic": "both", "partition": 0, "replicas": [1, 3], "log_dirs": [here, "/elsewhere"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    seen = run(cluster, "reassign", "verify", "--plan", plan, "-o", "json")
    assert seen.exit_code == 4, seen.output
    assert [row["status"] for row in json.loads(seen.stdout)] == ["unknown"]
    assert SAYS_NOTHING in seen.stderr
    begun = run(cluster, "reassign", "execute", "--plan", plan, "--throttle", 1_000_000)
    assert begun.exit_code == 1, begun.output
    assert "both-0 on broker 3 is not there yet" in begun.stderr


def test_no_move_is_begun_beside_a_broker_on_which_no_throttle_can_be_set(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    entry = {"topic": "both", "partition": 0, "replicas": [2, 3]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    begun = run(cluster, "reassign", "execute", "--plan", plan, "--throttle", 1_000_000)
    assert begun.exit_code == 1, begun.output
    assert "broker 3 does not answer, and no throttle can be set there" in begun.stderr
    (row,) = json.loads(run(cluster, "topic", "describe", "both", "-o", "json").stdout)[0]["partition_list"]
    assert row["replicas"] == [1, 3]
    assert not plan.with_name("plan.json.throttles").exists()


def test_checks_of_a_cluster_name_the_broker_and_look_at_the_others(cluster: Cluster) -> None:
    doctor = run(cluster, "doctor", "-o", "json")
    assert doctor.exit_code == 4, doctor.output
    found = json.loads(doctor.stdout)
    assert any(one["about"] == "broker 3" and SAYS_NOTHING in one["what"] for one in found)
    assert not [one for one in found if "could not be looked at" in one["what"]]
    adopt = run(cluster, "adopt", "check", "-o", "json")
    told = json.loads(adopt.stdout)
    assert any(one["about"] == "broker 3" and SAYS_NOTHING in one["what"] for one in told)
    assert not [one for one in told if "could not be looked at" in one["what"] and one["about"] != "acls"]


def test_replicas_of_the_broker_are_unreachable_and_the_others_are_compared(cluster: Cluster) -> None:
    seen = run(cluster, "replica", "verify", "--topic", "both", "--all", "-o", "json")
    assert seen.exit_code == 1, seen.output
    first, second = json.loads(seen.stdout)
    assert (first["broker"], first["verdict"]) == (1, "OK")
    assert (second["broker"], second["verdict"]) == (3, "UNREACHABLE")
    assert SAYS_NOTHING in second["detail"]
