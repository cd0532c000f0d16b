"""A stream's source, driven as Spark drives it, over leaders that are killed: also where an election costs records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka_peer import wait_until

from moldau import Cluster
from moldau.client.admin import AlterOp, Resource, ResourceType, alter_configs
from moldau.model import TopicPartition
from moldau.spark.losses import DataLossError
from moldau.spark.options import parse
from moldau.spark.readers import StreamReader
from moldau.spark.testing import MicroBatches, record_batch

T0 = TopicPartition("t", 0)
PLANES = ["quorum", "zookeeper"]
CONTROLLERS: dict[str, int | str] = {"quorum": 1, "zookeeper": "combined"}  # which no kill of two brokers takes away
SAID = "t-0: the log was cut off before the position and has grown past it: other records are there now"

pytestmark = pytest.mark.timeout(300)


@contextmanager
def stream(cluster: Cluster, **options: str) -> Iterator[MicroBatches]:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}
    query = MicroBatches(lambda: StreamReader(parse({**given, **options}, "stream")))
    yield query
    query.reader.stop()


def leader(cluster: Cluster) -> int | None:
    return cluster.client().topics(["t"])["t"].partitions[0].leader


def write(cluster: Cluster, values: range) -> list[bytes]:
    """Write each in a batch of its own, as soon as somebody leads; the values."""
    found = [b"%d" % number for number in values]
    for each in found:
        assert cluster.client().produce(T0, record_batch([each])).base_offset >= 0
    return found


@pytest.mark.parametrize("plane", PLANES)
def test_a_batch_that_was_planned_under_a_leader_is_read_from_the_next_one(tmp_path: Path, plane: str) -> None:
    with Cluster(3, data=tmp_path / "cluster", mode=plane) as cluster, stream(cluster) as query:
        cluster.create_topic("t", replication_factor=3)
        written = write(cluster, range(20))
        assert query.plan()
        cluster.kill(cluster.leader("t", 0))
        assert query.run(finish=False) == written
        query.reader.stop()
        query.restart()
        assert query.run() == written


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_records_that_an_unclean_election_replaced_stop_the_stream_or_are_told(
    tmp_path: Path, policy: str, plane: str
) -> None:
    """The new leader's log has grown past the position by the time the stream looks again."""
    cluster = Cluster(3, controllers=CONTROLLERS[plane], data=tmp_path / "cluster", mode=plane)
    with cluster, stream(cluster, onDataLoss=policy) as query:
        cluster.create_topic("t", replication_factor=2)
        first = cluster.leader("t", 0)
        (second,) = {*cluster.client().topics(["t"])["t"].partitions[0].replicas} - {first}
        kept = write(cluster, range(5))
        cluster.wait_until_in_sync()
        cluster.kill(second)
        lost = write(cluster, range(5, 15))
        assert query.batch() == kept + lost
        cluster.kill(first)
        cluster.restart(second)
        client, topic = cluster.client(), Resource(ResourceType.TOPIC, "t")
        client.run(alter_configs(client.client, {topic: [("unclean.leader.election.enable", AlterOp.SET, "true")]}))
        wait_until(lambda: leader(cluster) == second, "the one that lacks records leads", 60)
        fresh = write(cluster, range(100, 130))
        if policy == "fail":
            with pytest.raises(DataLossError, match=SAID):
                query.batch()
            assert len(query.log) == 1
        else:
            with pytest.warns(UserWarning, match=SAID):
                assert query.batch() == fresh
