"""Moldau's classic tools say what Apache Kafka 4.3.1's say of odd values, and of properties that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import classic_cases_values as cases
import pytest
from classic import Both, lines
from kafka_peer import KafkaPeer
from moldau_peer import ZooKeeperPeer

from moldau.client import admin, quotas
from moldau.client.sync import Cluster

CLIENTS = {
    "lower": "security.protocol=plaintext\n",
    "mixed": "security.protocol= PlainText \n",
    "controllers": "bootstrap.controllers=127.0.0.1:1\n",
    "servers": "bootstrap.servers=127.0.0.1:1\n",
    "both_places": "bootstrap.servers=127.0.0.1:1\nbootstrap.controllers=127.0.0.1:1\n",
    "of_others": "auto.commit.interval.ms=x\nmax.poll.records=0\nacks=9\nisolation.level=x\n",
    "interceptor": "interceptor.classes=example.Nosuch\n",
    "partitioner": "partitioner.class=example.Nosuch\n",
    "serializer": "key.serializer=example.Nosuch\nkey.deserializer=example.Nosuch\n",
    "login": "sasl.login.class=example.Nosuch\n",
    "listed": "ssl.enabled.protocols=a,\n",
    "time": "default.api.timeout.ms=x\n",
    "recording": "metrics.recording.level=x\nretries=x\nreconnect.backoff.ms=x\n",
    "dns": "client.dns.lookup=x\n",
    "factor": "sasl.login.refresh.window.factor=2\n",
    "nothing": "",
}
ODD = {
    "dempty": '{"partitions":[{"topic":"","partition":0,"offset":0}]}',
    "dneg": '{"partitions":[{"topic":"filled","partition":-1,"offset":-7}]}',
    "dbig": '{"partitions":[{"topic":"filled","partition":0,"offset":99999999999999999999}]}',
    "dfloat": '{"partitions":[{"topic":"filled","partition":0.0,"replicas":[1.5],"offset":1.5}]}',
    "dnull": '{"partitions":null}',
    "dver": '{"version":null,"partitions":[]}',
    "dverf": '{"version":1.0,"partitions":[]}',
    "dtext": '{"partitions":"x"}',
    "dup": '{"partitions":[],"partitions":[{"topic":"filled","partition":0,"offset":0}]}',
    "nulls": "null",
    "nullsp": '{"partitions":[null]}',
    "topic": '{"topics":[{"topic":""}]}',
}
PLACED = {0: [1, 2], 1: [2, 3], 2: [3, 1]}


@pytest.fixture
def odd(both: Both, live_cluster: KafkaPeer, tmp_path: Path) -> Both:
    """Knows the files and topics of the lines, too."""
    for name, text in CLIENTS.items():
        (tmp_path / f"{name}.properties").write_text(text)
        both.names[name] = str(tmp_path / f"{name}.properties")
    for name, text in ODD.items():
        (tmp_path / f"odd-{name}.json").write_text(text)
    moves: dict[str, list[tuple[str, int, list[int]]]] = {
        "stay": [("valued", number, replicas) for number, replicas in PLACED.items()],
        "rf": [("valued", 0, [1, 2, 3])],
        "rfall": [("valued", number, [1, 2, 3]) for number in PLACED],
        "emptytopic": [("", 0, [1, 2])],
        "neg": [("valued", -1, [1, 2])],
        "negb": [("valued", 0, [-1, 2])],
        "two": [("valued", 0, [1, 2]), ("nosuch", 0, [1, 2]), ("", 1, [2])],
        "unk": [("valued", 0, [1, 9])],
    }
    for name, listed in moves.items():
        partitions = [dict(zip(("topic", "partition", "replicas"), one, strict=True)) for one in listed]
        (tmp_path / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    with Cluster(live_cluster.bootstrap_servers) as cluster:
        topics = [admin.NewTopic(name="valued", assignment=PLACED)]
        topics += [admin.NewTopic(name=name, partitions=1, replication_factor=1) for name in ("foo-1", "bar.x")]
        cluster.run(admin.create_topics(cluster.client, topics))
    both.names["c"] = ",".join(f"127.0.0.1:{controller}" for _, controller in live_cluster.ports.values())
    if isinstance(live_cluster, ZooKeeperPeer):
        both.names["c"] = both.names["b"]
    return both


NAMES = [
    "FILES", "TOPICS", "OFFSETS", "ELECTIONS", "FEATURES", "CLUSTER", "LOG_DIRS", "DELETIONS", "API_VERSIONS", "QUORUM",
    "REASSIGNMENTS", "PRODUCED",
]  # fmt: skip


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", NAMES)
def test_odd_values(odd: Both, name: str) -> None:
    odd.run(lines(getattr(cases, name)))
    odd.check()


def test_odd_settings(odd: Both) -> None:
    try:
        odd.run(lines(cases.CONFIGS))
    finally:  # other tests share this cluster, and look at all quotas
        with Cluster(odd.names["b"]) as cluster:
            _, found = cluster.run(quotas.describe_quotas(cluster.client, [], strict=False))
            assert len(found) > 10
            for one in found:
                cluster.run(quotas.alter_quotas(cluster.client, one.entity, dict.fromkeys(one.values)))
    odd.check()
