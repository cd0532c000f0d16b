"""Settings that take effect while everything runs: of topics, of all brokers, of one broker; set, changed, taken away.

Each is looked up by what it does, not by what is described. Real processes, no restart in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Cluster
from moldau.client.admin import AlterOp, Resource, ResourceType, alter_configs
from moldau.client.client import ForNode
from moldau.client.reading import EARLIEST, LATEST
from moldau.model import Code, TopicPartition
from moldau.wire.batch import build
from moldau.wire.messages.k00_produce import ProduceRequest

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {"log.retention.check.interval.ms": "200", "log.cleaner.backoff.ms": "3600000"}
    with Cluster(3, data=tmp_path_factory.mktemp("dynamic") / "cluster", config=config) as running:
        yield running


def alter(cluster: Cluster, kind: ResourceType, name: str, key: str, value: str | None) -> None:
    change = (key, AlterOp.DELETE if value is None else AlterOp.SET, value)
    client = cluster.client()
    outcome = client.run(alter_configs(client.client, {Resource(kind, name): [change]}))[Resource(kind, name)]
    assert outcome.code == Code.NONE, outcome


def write(cluster: Cluster, topic: str, size: int = 100, key: bytes = b"k", stamp: int = 1_000) -> Code:
    """One record in a batch of its own, acks=all, asked for once; how it went."""
    client = cluster.client().client
    part = ProduceRequest.PartitionProduceData(index=0, records=build([(stamp, key, bytes(size), ())]))
    id = cluster.client().topics([topic])[topic].topic_id
    wish = ProduceRequest.TopicProduceData(name=topic, topic_id=id, partition_data=[part])
    request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[wish])
    leader = ForNode(cluster.leader(topic, 0))
    answer = cluster.client().run(client.ask(request, leader, codes=lambda response: ()))
    return Code(answer.responses[0].partition_responses[0].error_code)


def wait_until_written(cluster: Cluster, topic: str, size: int = 100) -> None:
    """Write a record, once the leader has made its folder: it hears of the topic when it does."""
    cluster.wait_until(lambda: write(cluster, topic, size) == Code.NONE, f"{topic} takes a record")


def offset(cluster: Cluster, topic: str, at: int) -> int:
    partition = TopicPartition(topic, 0)
    return cluster.client().offsets({partition: at})[partition].offset


def segments(cluster: Cluster, topic: str, node: int = 1) -> list[Path]:
    return sorted((Path(cluster.node(node).folder) / "data" / f"{topic}-0").glob("*.log"))


def test_the_largest_message_is_the_topics_or_the_brokers(cluster: Cluster) -> None:
    cluster.create_topic("sized", replication_factor=3)
    wait_until_written(cluster, "sized", 5000)
    alter(cluster, TOPIC, "sized", "max.message.bytes", "1000")
    cluster.wait_until(lambda: write(cluster, "sized", 5000) == Code.MESSAGE_TOO_LARGE, "the topic's limit holds")
    alter(cluster, TOPIC, "sized", "max.message.bytes", None)
    cluster.wait_until(lambda: write(cluster, "sized", 5000) == Code.NONE, "the limit is gone")
    alter(cluster, BROKER, "", "message.max.bytes", "2000")
    cluster.wait_until(lambda: write(cluster, "sized", 5000) == Code.MESSAGE_TOO_LARGE, "the cluster's limit holds")
    leader = cluster.leader("sized", 0)
    alter(cluster, BROKER, str(leader), "message.max.bytes", "10000")
    cluster.wait_until(lambda: write(cluster, "sized", 5000) == Code.NONE, "the leader's own limit goes before it")
    alter(cluster, BROKER, str(leader), "message.max.bytes", None)
    alter(cluster, BROKER, "", "message.max.bytes", None)
    cluster.wait_until(lambda: write(cluster, "sized", 5000) == Code.NONE, "the limits are gone")


def test_segments_roll_and_records_expire_as_they_are_told_to(cluster: Cluster) -> None:
    cluster.create_topic("aging", replication_factor=3)
    alter(cluster, TOPIC, "aging", "segment.bytes", str(1 << 20))

    def rolled() -> bool:
        write(cluster, "aging", 200_000, stamp=1)
        return len(segments(cluster, "aging")) > 1 or offset(cluster, "aging", EARLIEST) > 0

    assert offset(cluster, "aging", EARLIEST) == 0
    cluster.wait_until(rolled, "segments of the new size, the first of which may be deleted by now")
    cluster.wait_until(lambda: offset(cluster, "aging", EARLIEST) > 0, "what is as old as 1970 has expired")
    alter(cluster, TOPIC, "aging", "retention.ms", "-1")
    alter(cluster, BROKER, "", "log.retention.ms", "1")
    before = offset(cluster, "aging", LATEST)
    cluster.create_topic("younger", replication_factor=3)
    cluster.wait_until(lambda: write(cluster, "younger", stamp=1) == Code.NONE, "its leader has its folder")
    cluster.wait_until(lambda: offset(cluster, "younger", EARLIEST) == 1, "the cluster's default deletes at once")
    alter(cluster, BROKER, "", "log.retention.ms", None)
    assert offset(cluster, "aging", LATEST) == before


def test_a_topic_becomes_compacted_and_the_cleaner_hurries_when_told(cluster: Cluster) -> None:
    cluster.create_topic("compacted", replication_factor=3)
    alter(cluster, TOPIC, "compacted", "segment.bytes", str(1 << 20))
    alter(cluster, TOPIC, "compacted", "retention.ms", "-1")
    alter(cluster, TOPIC, "compacted", "cleanup.policy", "compact")
    alter(cluster, TOPIC, "compacted", "min.cleanable.dirty.ratio", "0.01")
    while len(segments(cluster, "compacted")) < 4:
        wait_until_written(cluster, "compacted", 200_000)
    first = segments(cluster, "compacted")[0].stat().st_size
    alter(cluster, BROKER, "", "log.cleaner.backoff.ms", "100")

    def cleaned() -> bool:
        write(cluster, "compacted", 10)  # moves the watermark along
        return segments(cluster, "compacted")[0].stat().st_size < first / 2

    cluster.wait_until(cleaned, "the first segment is compacted")
    alter(cluster, BROKER, "", "log.cleaner.backoff.ms", None)


def test_records_are_stamped_as_the_topic_says_now(cluster: Cluster) -> None:
    cluster.create_topic("stamped", replication_factor=3)
    partition = TopicPartition("stamped", 0)

    def stamp() -> int:
        data = build([(12_345, b"k", b"v", ())])
        return cluster.client().produce(partition, data).log_append_time_ms

    assert stamp() == -1
    alter(cluster, TOPIC, "stamped", "message.timestamp.type", "LogAppendTime")
    cluster.wait_until(lambda: stamp() > 12_345, "the log's time")
    alter(cluster, TOPIC, "stamped", "message.timestamp.type", None)
    cluster.wait_until(lambda: stamp() == -1, "the client's time")


def test_the_smallest_isr_and_unclean_elections_are_as_they_are_set_now(tmp_path: Path) -> None:
    with Cluster(3, data=tmp_path / "cluster") as cluster:
        cluster.create_topic("safe", replication_factor=3)
        wait_until_written(cluster, "safe")
        leader = cluster.leader("safe", 0)
        cluster.kill(next(id for id in (1, 2, 3) if id != leader))
        cluster.wait_until(lambda: write(cluster, "safe") == Code.NONE, "two are enough")
        alter(cluster, TOPIC, "safe", "min.insync.replicas", "3")
        cluster.wait_until(lambda: write(cluster, "safe") == Code.NOT_ENOUGH_REPLICAS, "two are not enough")
        alter(cluster, TOPIC, "safe", "min.insync.replicas", None)
        alter(cluster, BROKER, "", "min.insync.replicas", "3")
        cluster.wait_until(lambda: write(cluster, "safe") == Code.NOT_ENOUGH_REPLICAS, "the cluster's default counts")
        alter(cluster, TOPIC, "safe", "min.insync.replicas", "1")
        cluster.wait_until(lambda: write(cluster, "safe") == Code.NONE, "the topic's own goes before it")


def test_an_unclean_election_is_made_as_soon_as_it_is_allowed(tmp_path: Path) -> None:
    with Cluster(3, controllers=1, data=tmp_path / "cluster") as cluster:
        cluster.create_topic("risky", replication_factor=2)
        first = cluster.leader("risky", 0)
        (second,) = {*cluster.client().topics(["risky"])["risky"].partitions[0].replicas} - {first}
        cluster.kill(second)
        cluster.wait_until(lambda: write(cluster, "risky") == Code.NONE, "the leader goes on alone")
        cluster.kill(first)
        cluster.restart(second)

        def led() -> bool:
            return (cluster.client().topics(["risky"])["risky"].partitions[0].leader or -1) >= 0

        cluster.wait_until(lambda: not led(), "nobody leads")
        alter(cluster, TOPIC, "risky", "unclean.leader.election.enable", "true")
        cluster.wait_until(lambda: cluster.leader("risky", 0) == second, "the stale one leads")
        cluster.wait_until(lambda: write(cluster, "risky") == Code.NONE, "it takes writes")


LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO (\[.*?\]) (.*) \(state\.change\.logger\)")


def told_by(cluster: Cluster, node: int) -> tuple[list[str], list[str]]:
    """What a node's state-change log and its twin say of its replica of told-0: leader or follower, each time."""
    folder = Path(cluster.node(node).folder)
    (text,), (twin,) = folder.rglob("state-change.log"), folder.rglob("state-change.jsonl")
    lines = [LINE.fullmatch(line) for line in text.read_text().splitlines() if " told-0 " in line]
    words = [line[2].split()[0].lower() for line in lines if line is not None and line[1] == f"[Broker id={node}]"]
    mine = [word for word in words if word in ("leader", "follower")]
    events = [json.loads(line) for line in twin.read_text().splitlines() if line.endswith("}")]
    return mine, [one["role"] for one in events if one["event"] == "replica" and one["topic"] == "told"]


def test_each_node_tells_in_its_state_change_log_and_in_the_twin_what_it_leads_and_follows(cluster: Cluster) -> None:
    cluster.create_topic("told", replication_factor=3)
    cluster.leader("told", 0)

    def all_have_told() -> bool:
        found = [told_by(cluster, node) for node in (1, 2, 3)]
        firsts = sorted(text[0] for text, _ in found if text)
        return all(text == twin for text, twin in found) and firsts == ["follower", "follower", "leader"]

    cluster.wait_until(all_have_told, "each node tells the same in both")
    made = "Changed partition told-0 from NewPartition to OnlinePartition with state LeaderAndIsr("

    def the_controller_has() -> bool:
        folders = [Path(cluster.node(node).folder) for node in (1, 2, 3)]
        text = "".join(file.read_text() for folder in folders for file in folder.rglob("state-change.log"))
        return re.search(rf"INFO \[Controller id=\d epoch=\d+\] {re.escape(made)}", text) is not None

    cluster.wait_until(the_controller_has, "the controller tells what it decided")
