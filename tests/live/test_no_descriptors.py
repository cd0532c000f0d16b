"""A node without a free file descriptor goes on with what it has, and does the rest when there are some again."""

from __future__ import annotations

import os
import resource
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import moldau

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process: Linux alone")


def acknowledged(producer: Producer, topic: str) -> bool:
    """Whether one record was, in the time that the producer gives it."""
    told: list[object] = []
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, message: told.append(error))
    producer.flush(60)
    assert len(told) == 1
    return told[0] is None


def test_a_node_without_descriptors_serves_what_is_open_and_goes_on_when_there_are_some() -> None:
    """A first file could not be made; a second later the whole node had ended: a handler could not be loaded."""
    with moldau.Cluster(brokers=1) as cluster:
        address = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        producer, other = (Producer({"bootstrap.servers": address, "message.timeout.ms": 3000}) for _ in range(2))
        for name in ("old", "new"):
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
        assert acknowledged(producer, "old")
        assert acknowledged(other, "old")
        pid = cluster.spec.nodes[0].pid
        assert pid is not None
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
        acknowledged(other, "new")  # or not: its file waits for a descriptor
        assert acknowledged(producer, "old")
        assert cluster.alive() == [1], "the node went on"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        deadline = time.monotonic() + 60
        while not acknowledged(other, "new"):
            assert time.monotonic() < deadline
        assert acknowledged(producer, "old")
