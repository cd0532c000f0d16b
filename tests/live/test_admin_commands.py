"""`moldau reassign` and `moldau leader` against a running cluster; they send standard requests only.

MOLDAU_LIVE_SYSTEM=kafka runs the same against Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kafka_peer import KafkaPeer, wait_until
from throttles import throttles

from moldau.admin.cli import cli
from moldau.client import admin
from moldau.client.admin import AlterOp, NewTopic, Resource, ResourceType
from moldau.client.sync import Cluster

Fresh = Callable[[str], str]


@pytest.fixture
def client(bootstrap_servers: str) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers) as cluster:
        yield cluster


@pytest.fixture
def moldau(bootstrap_servers: str) -> Callable[..., Result]:
    """Runs a command; its options in words, the last ones as they are."""
    return lambda *words: CliRunner().invoke(cli, [*words, "--bootstrap-server", bootstrap_servers])


def make(client: Cluster, name: str, *replicas: list[int]) -> None:
    outcome = client.run(
        admin.create_topics(client.client, [NewTopic(name=name, assignment=dict(enumerate(replicas)))])
    )
    assert outcome[name].ok, outcome
    wait_until(lambda: name in client.topics([name]), "the topic is known")


def replicas(client: Cluster, name: str) -> list[list[int]]:
    return [part.replicas for _, part in sorted(client.topics([name])[name].partitions.items())]


def leaders(client: Cluster, name: str) -> list[int]:
    return [part.leader for _, part in sorted(client.topics([name])[name].partitions.items())]


def plan_file(path: Path, name: str, *wanted: list[int]) -> str:
    entries = [{"topic": name, "partition": n, "replicas": one} for n, one in enumerate(wanted)]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(path)


def test_a_topic_moves_by_plan_and_comes_back_by_the_rollback_file(
    client: Cluster, moldau: Callable[..., Result], fresh: Fresh, tmp_path: Path
) -> None:
    name, plan, back = fresh("moved"), tmp_path / "plan.json", tmp_path / "back.json"
    make(client, name, [1, 2], [1, 2], [1, 2])
    made = moldau("reassign", "generate", "--topic", name, "--brokers", "2,3")
    assert made.exit_code == 0, made.output
    plan.write_text(made.stdout)
    assert moldau("reassign", "verify", "--plan", str(plan)).exit_code == 4, "not done yet, and nothing moves"
    words = ("--plan", str(plan), "--rollback", str(back), "--throttle", "50000000", "--wait", "--timeout", "240")
    done = moldau("reassign", "execute", *words)
    assert done.exit_code == 0, done.output
    wait_until(lambda: all(set(one) == {2, 3} for one in replicas(client, name)), "everybody knows of the move")
    assert "throttles are taken away" in done.output

    def verified() -> bool:
        """Whether the broker that happens to be asked, which may be the last to hear of the move, says so."""
        seen = moldau("reassign", "verify", "--plan", str(plan), "-o", "json")
        return seen.exit_code == 0 and {row["status"] for row in json.loads(seen.stdout)} == {"done"}

    wait_until(verified, "every part of the plan is done")
    assert moldau("reassign", "execute", "--plan", str(back), "--wait", "--timeout", "240").exit_code == 0
    wait_until(lambda: replicas(client, name) == [[1, 2]] * 3, "everybody knows of the way back")
    wait_until(lambda: not throttles(client, name, client.brokers()), "no throttle is left behind")


def test_throttles_of_others_outlive_a_move(
    client: Cluster, moldau: Callable[..., Result], fresh: Fresh, tmp_path: Path
) -> None:
    name, rate = fresh("theirs"), "leader.replication.throttled.rate"
    make(client, name, [1, 2], [2, 1])
    theirs = {
        Resource(ResourceType.TOPIC, name): [("leader.replication.throttled.replicas", AlterOp.SET, "1:2")],
        Resource(ResourceType.BROKER, "2"): [(rate, AlterOp.SET, "70000000")],
    }
    theirs_alone = {f"{name} leader.replication.throttled.replicas": "1:2", f"2 {rate}": "70000000"}
    client.run(admin.alter_configs(client.client, theirs))

    def known() -> bool:
        """Whether each of many answers has them: any broker may be asked, and ZooKeeper tells one after the other."""
        return all(throttles(client, name, (1, 2, 3)) == theirs_alone for _ in range(10))

    wait_until(known, "brokers have heard of what others have set")
    plan = plan_file(tmp_path / "plan.json", name, [3, 2])
    words = ("--plan", plan, "--throttle", "60000000", "--wait", "--timeout", "240")
    assert moldau("reassign", "execute", *words).exit_code == 0
    wait_until(lambda: moldau("reassign", "verify", "--plan", plan).exit_code == 0, "who is asked knows of the move")
    wait_until(lambda: throttles(client, name, (1, 2, 3)) == theirs_alone, "theirs alone are left, as they were")
    away = {place: [(key, AlterOp.DELETE, None) for key, _, _ in keys] for place, keys in theirs.items()}
    client.run(admin.alter_configs(client.client, away))


def test_a_move_that_cannot_end_is_listed_and_called_off(
    client: Cluster, moldau: Callable[..., Result], fresh: Fresh, tmp_path: Path
) -> None:
    name = fresh("stuck")
    make(client, name, [1])
    big = 20_000_000  # a throttle may be heard of after the move has begun
    client.run(_fill(client, name, big))
    plan = plan_file(tmp_path / "plan.json", name, [2])
    begun = moldau("reassign", "execute", "--plan", plan, "--throttle", "1000")
    assert begun.exit_code == 0, begun.output
    listed = json.loads(moldau("reassign", "list", "-o", "json").stdout)
    assert [(row["topic"], row["adding"], row["removing"]) for row in listed] == [(name, [2], [1])]
    assert moldau("reassign", "verify", "--plan", plan).exit_code == 3
    other = moldau("reassign", "execute", "--plan", plan)
    assert other.exit_code == 1
    assert "--additional" in other.output
    without = moldau("reassign", "cancel", "--yes")
    assert without.exit_code == 0, without.output
    assert "rates of throttles stand at brokers 1, 2" in without.output
    wait_until(lambda: replicas(client, name) == [[1]], "the move is called off")
    assert moldau("reassign", "cancel", "--plan", plan).exit_code == 0
    wait_until(lambda: not throttles(client, name, client.brokers()), "no throttle is left behind")
    assert json.loads(moldau("reassign", "list", "-o", "json").stdout) == []


async def _fill(client: Cluster, name: str, size: int) -> None:
    from moldau.client import writing
    from moldau.model import TopicPartition
    from moldau.wire.batch import build

    for _ in range(size // 500_000):
        batch = build([(0, None, bytes(500_000), ())])
        await writing.produce(client.client, TopicPartition(name, 0), batch, acks=-1, timeout_ms=30_000)


def test_what_cannot_be_moved_is_named_and_harms_no_other(
    client: Cluster, moldau: Callable[..., Result], fresh: Fresh, tmp_path: Path
) -> None:
    name = fresh("partly")
    make(client, name, [1], [1])
    done = moldau("reassign", "execute", "--plan", plan_file(tmp_path / "p.json", name, [99], [2]), "--wait")
    assert done.exit_code == 1
    assert f"{name}-0: INVALID_REPLICA_ASSIGNMENT" in done.output
    wait_until(lambda: replicas(client, name) == [[1], [2]], "the other one moved")
    missing = moldau("reassign", "execute", "--plan", plan_file(tmp_path / "q.json", name, [1], [1], [1]))
    assert (missing.exit_code, f"{name}-2" in missing.output) == (1, True)


def test_leads_are_given_back_on_request_and_the_imbalance_is_seen(
    live_cluster: KafkaPeer, client: Cluster, moldau: Callable[..., Result], fresh: Fresh, tmp_path: Path
) -> None:
    name = fresh("leads")
    make(client, name, [1, 2], [1, 2], [2, 1])
    # The same replicas in another order: nobody moves, but another one is preferred now.
    turned = plan_file(tmp_path / "turned.json", name, [2, 1], [2, 1], [2, 1])
    assert moldau("reassign", "execute", "--plan", turned, "--wait", "--timeout", "240").exit_code == 0
    wait_until(lambda: replicas(client, name) == [[2, 1]] * 3, "everybody knows of the new order")
    assert leaders(client, name) == [1, 1, 2]

    def astray() -> dict[int, int]:
        rows = json.loads(moldau("leader", "imbalance", "-o", "json").stdout)
        return {row["broker"]: row["astray"] for row in rows}

    wait_until(lambda: astray().keys() == live_cluster.ports.keys() and astray()[2] >= 2, "the imbalance is seen")
    done = moldau("leader", "elect", "--topic", name, "-o", "json")
    assert done.exit_code == 0, done.output
    assert [row["result"] for row in json.loads(done.stdout)] == ["elected", "elected", "not needed"]
    wait_until(lambda: leaders(client, name) == [2, 2, 2], "the preferred replicas lead")
    one = moldau("leader", "elect", "--topic", name, "--partition", "7")
    assert (one.exit_code, "no partition 7" in one.output) == (1, True)
    unclean = moldau("leader", "elect", "--topic", name, "--type", "unclean", "--yes", "-o", "json")
    assert unclean.exit_code == 0
    assert [row["result"] for row in json.loads(unclean.stdout)] == ["not needed"] * 3
