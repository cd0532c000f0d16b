"""`moldau replica verify` over the wire and out of folders, on real brokers: well, one gone, one with a flipped bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import confluent_kafka

from moldau import Cluster
from moldau.client.admin import NewTopic, create_topics, delete_records
from moldau.model import TopicPartition

OK, FAILED, MISMATCH = 0, 1, 4


def verify(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """The exit status, and the replicas that are not well."""
    command = [sys.executable, "-m", "moldau", "replica", "verify", "-o", "json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def fill(cluster: Cluster, topic: str, **config: str) -> None:
    client = cluster.client()
    asked = NewTopic(name=topic, partitions=1, replication_factor=3, configs=config)
    assert client.run(create_topics(client.client, [asked]))[topic].code == 0
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(3_000):
        producer.produce(topic, b"value %d" % number * 20, key=b"%d" % (number % 10))
    assert producer.flush(60) == 0


def test_replicas_are_compared_over_the_wire_and_in_folders(tmp_path: Path) -> None:
    with Cluster(3, data=tmp_path / "cluster") as cluster:
        fill(cluster, "orders")
        fill(cluster, "tables", **{"cleanup.policy": "compact"})
        cluster.wait_until_in_sync()
        servers = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders", "--topic", "tables")
        assert verify(*servers) == (OK, [])
        assert len(verify(*servers, "--all", "--rate", "50MB")[1]) == 6
        first = {TopicPartition("orders", 0): 100}
        assert cluster.client().run(delete_records(cluster.client().client, first)) == dict.fromkeys(first, (0, 100))
        compared = [row["compared_to"] for row in verify(*servers, "--all")[1] if row["partition"] == "orders-0"]
        assert compared == [3_000] * 3, "a log that begins with a later offset is compared, too"
        leader = cluster.leader("orders", 0)
        other = next(id for id in (1, 2, 3) if id != leader)
        cluster.kill(other)
        status, found = verify(*servers)
        assert status == FAILED
        assert {(row["broker"], row["verdict"]) for row in found} == {(other, "UNREACHABLE")}
        cluster.restart(other)
        cluster.wait_until_in_sync()
        follower = next(iter({1, 2, 3} - {leader, other}))
        (log,) = (tmp_path / "cluster").glob(f"*{follower}*/**/orders-0/00000000000000000000.log")
        with log.open("r+b") as file:
            file.seek(-50, 2)
            byte = file.read(1)
            file.seek(-50, 2)
            file.write(bytes([byte[0] ^ 1]))
        status, found = verify(*servers)
        assert status == MISMATCH
        assert [(row["broker"], row["verdict"]) for row in found] == [(follower, "DIVERGED")]
        cluster.stop()  # which writes down the high watermarks, up to which folders are compared
    status, found = verify("--folders", tmp_path / "cluster", "--topic", "orders")
    assert status == MISMATCH
    assert [(row["broker"], row["verdict"], row["detail"]) for row in found] == [
        (follower, "DIVERGED", "its checksum is wrong")
    ]
