"""One of a broker's log directories fails in ZooKeeper mode (KIP-112): it leads on in the other, a tool of Kafka
3.9 says what is lost, all is in sync again when the broker comes back with an empty one. Real processes and files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from foreign import write_confluent
from kafka_peer import ALL_JARS, java_tool
from znodes import znode

from moldau import Cluster
from moldau.client.admin import NewTopic, create_topics, describe_log_dirs

PARTITIONS = 6
WAIT_S = 120
TOOLS = ALL_JARS / "tools-3.9.1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    config = {"zookeeper.session.timeout.ms": "40000", "auto.leader.rebalance.enable": "false"}
    with_two = Cluster(3, mode="zookeeper", data=tmp_path / "cluster", config=config)
    for node in with_two.spec.nodes:
        text = node.properties.read_text()
        first = str(Path(node.folder) / "data")
        node.properties.write_text(text.replace(f"log.dirs={first}\n", f"log.dirs={first},{node.folder}/more\n"))
    with with_two as running:
        yield running


def places(cluster: Cluster, broker: int) -> dict[str, set[int]]:
    """Directory -> partitions of the topic in it, by the broker's own word; an offline one is left out."""
    client = cluster.client()
    found = client.run(describe_log_dirs(client.client, [broker]))[broker]
    return {
        dir.log_dir: {part.partition_index for topic in dir.topics if topic.name == "t" for part in topic.partitions}
        for dir in found
        if not dir.error_code
    }


def test_a_broker_leads_on_what_is_in_its_other_directory(cluster: Cluster) -> None:
    client = cluster.client()
    wish = NewTopic(name="t", assignment=dict.fromkeys(range(PARTITIONS), (1, 2, 3)))
    assert client.run(create_topics(client.client, [wish]))["t"].code == 0
    write_confluent(cluster.bootstrap_servers, "t", [(str(n).encode(), b"value") for n in range(60)])
    gone = f"{cluster.node(1).folder}/more"
    before = places(cluster, 1)
    lost, kept = before[gone], before[f"{cluster.node(1).folder}/data"]
    assert lost
    assert kept

    Path(gone).rename(f"{gone}-away")  # at once, and not file by file while the broker makes others

    def moved() -> bool:
        parts = cluster.client().topics(["t"])["t"].partitions
        return all((parts[n].leader not in (1, -1, None) and 1 not in parts[n].isr) for n in lost) and all(
            parts[n].leader == 1 and len(parts[n].isr) == 3 for n in kept
        )

    cluster.wait_until(moved, "others lead what is lost, and broker 1 the rest", WAIT_S)
    assert 1 in cluster.alive()
    number = min(lost)
    state = znode(cluster.spec.zookeeper, f"/brokers/topics/t/partitions/{number}/state")
    assert 1 not in state["isr"]
    arguments = ("--bootstrap-server", cluster.bootstrap_servers, "--describe", "--broker-list", "1")
    said = java_tool("kafka-log-dirs", *arguments, jars=TOOLS).stdout
    assert gone in said, said
    assert "KafkaStorageException" in said, said

    cluster.restart(1)  # with an empty directory in its place
    cluster.wait_until_in_sync()
    cluster.wait_until(lambda: sum(map(len, places(cluster, 1).values())) == PARTITIONS, "it has all again", WAIT_S)
