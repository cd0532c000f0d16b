"""What the simulator's eyes take for in sync (L3): all replicas at one end, but for a topic that somebody writes."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.controller.topic_creation import OFFSETS
from moldau.model import TopicPartition
from moldau.simulator.cluster_observer import ClusterObserver
from tests.packages.simulator.doubles import Machine, Replica, ReplicaLog, partition

BROKERS = [1, 2, 3]
TRICKLE = {1: (1495, 1495), 2: (1494, 1495), 3: (1492, 1495)}
"""Broker -> (watermark, end), as whoever commits every 360 ms leaves them where fetches wait for 500 ms."""


class Seen(ClusterObserver):
    """Eyes on one partition of three replicas, led by broker 1."""

    def __init__(self, topic: str, isr: tuple[int, ...] = (1, 2, 3)) -> None:
        self._partition = TopicPartition(topic, 1)
        self._state = partition(1, 2, 3, isr=isr)

    def partitions(self) -> Any:
        return iter([(str(self._partition), "key", self._state)])

    def replicas(self, topic: str | None = None) -> dict[Any, dict[int, Any]]:
        return {
            "key": {
                id: Replica(self._partition, Machine(high_watermark=watermark), ReplicaLog(log_end_offset=end))
                for id, (watermark, end) in TRICKLE.items()
            }
        }


def test_replicas_of_a_topic_that_is_being_written_need_not_be_at_one_watermark() -> None:
    assert Seen(OFFSETS).in_sync(BROKERS, written=OFFSETS) == ""


@pytest.mark.parametrize(("topic", "written"), [(OFFSETS, None), ("safe", None), ("safe", OFFSETS)])
def test_a_replica_of_a_quiet_topic_that_stays_behind_is_seen(topic: str, written: str | None) -> None:
    assert "(1492, 1495)" in Seen(topic).in_sync(BROKERS, written=written)


def test_a_follower_out_of_the_isr_is_seen_while_the_topic_is_written() -> None:
    assert "ISR" in Seen(OFFSETS, isr=(1, 2)).in_sync(BROKERS, written=OFFSETS)
