"""Apache Kafka's own Java tools against a live cluster, from kafka-topics to kafka-reassign-partitions.

Each call is a JVM, so a test walks through a whole life rather than one step. Missing Java or jars fail, and say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign import create_topic, read_confluent, read_java, wait_led, write_confluent, write_java
from kafka_peer import KafkaPeer, ToolRun, java_tool, start_java_tool, wait_until

Fresh = Callable[[str], str]


def tool(name: str, bootstrap: str, *arguments: object, check: bool = True, stdin: str = "") -> ToolRun:
    """Run a tool against the cluster."""
    return java_tool(name, "--bootstrap-server", bootstrap, *arguments, check=check, stdin=stdin)


def json_lines(text: str) -> list[dict[str, object]]:
    """The JSON objects among the lines."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def described(text: str) -> list[dict[str, str]]:
    """kafka-topics --describe: one {"Partition": ..., "Leader": ..., "Replicas": ..., "Isr": ...} a partition."""
    lines = [line for line in text.splitlines() if line.startswith("\t")]
    return [dict(re.findall(r"(\w+): ([^\t]*)", line)) for line in lines]


def test_a_topic_lives_from_creation_to_deletion(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("life")
    config = ("--config", "retention.ms=60000")
    create = ("--create", "--topic", topic, "--partitions", 2, "--replication-factor", 3, *config)
    assert f"Created topic {topic}." in tool("kafka-topics", bootstrap_servers, *create).stdout

    wait_led(bootstrap_servers, topic, 2)  # whoever is asked below has heard of it
    again = tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, check=False)
    assert again.status != 0
    assert "already exists" in again.stdout + again.stderr

    tool("kafka-topics", bootstrap_servers, "--alter", "--topic", topic, "--partitions", 3)

    def shown() -> str:
        return tool("kafka-topics", bootstrap_servers, "--describe", "--topic", topic).stdout

    wait_until(lambda: "PartitionCount: 3" in shown(), "there is a third partition", pause_s=0.2)
    wait_led(bootstrap_servers, topic, 3)
    said = shown()
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 3\s+Configs: .*retention\.ms=60000", said)
    for number, line in enumerate(described(said)):
        assert int(line["Partition"]) == number
        assert sorted(line["Replicas"].strip().split(",")) == ["1", "2", "3"]
        assert line["Leader"].strip() == line["Replicas"].split(",")[0]

    tool("kafka-topics", bootstrap_servers, "--delete", "--topic", topic)
    wait_until(lambda: topic not in tool("kafka-topics", bootstrap_servers, "--list").stdout.split(), "it is gone")


def test_what_its_console_producer_writes_its_console_consumer_reads(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("console")
    create_topic(bootstrap_servers, topic)
    records = [(f"k{turn}".encode(), f"v{turn}".encode()) for turn in range(50)]

    write_java(bootstrap_servers, topic, records)

    assert read_java(bootstrap_servers, topic, 50) == records
    assert read_confluent(bootstrap_servers, topic, 50) == records


def test_its_verifiable_producer_and_consumer_agree_on_every_record(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("verified"), fresh("verifiers")
    create_topic(bootstrap_servers, topic, partitions=3)

    written = tool("kafka-verifiable-producer", bootstrap_servers, "--topic", topic, "--max-messages", 2000)
    acked = {(one["partition"], one["offset"]) for one in json_lines(written.stdout) if "offset" in one}
    assert len(acked) == 2000
    assert json_lines(written.stdout)[-1]["name"] in ("tool_data", "shutdown_complete")

    options = ("--topic", topic, "--group-id", group, "--max-messages", 2000, "--verbose")
    read = json_lines(tool("kafka-verifiable-consumer", bootstrap_servers, *options).stdout)
    came = {(one["partition"], one["offset"]) for one in read if one["name"] == "record_data"}
    assert came == acked
    committed = [one for one in read if one["name"] == "offsets_committed"]
    assert committed
    assert all(one["success"] for one in committed)
    last = {part["partition"]: part["offset"] for one in committed for part in one["offsets"]}  # type: ignore[attr-defined]
    assert sum(last.values()) == 2000


def test_a_group_is_described_reset_and_deleted(bootstrap_servers: str, fresh: Fresh) -> None:
    topic, group = fresh("owned"), fresh("owners")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(b"k", b"v")] * 20)
    read = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", 20)
    tool("kafka-console-consumer", bootstrap_servers, *read)

    def offsets() -> list[str]:
        said = tool("kafka-consumer-groups", bootstrap_servers, "--describe", "--group", group).stdout
        rows = [line.split() for line in said.splitlines() if topic in line.split()]
        return rows[0][3:6]  # current, end, lag

    assert group in tool("kafka-consumer-groups", bootstrap_servers, "--list").stdout.split()
    assert offsets() == ["20", "20", "0"]
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 5, "--execute")
    tool("kafka-consumer-groups", bootstrap_servers, *reset)
    assert offsets() == ["5", "20", "15"]
    state = tool("kafka-consumer-groups", bootstrap_servers, "--describe", "--group", group, "--state").stdout
    assert "Empty" in state
    tool("kafka-consumer-groups", bootstrap_servers, "--delete", "--group", group)
    assert group not in tool("kafka-consumer-groups", bootstrap_servers, "--list").stdout.split()


def test_configurations_of_topics_and_brokers_are_altered_and_described(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("configured")
    create_topic(bootstrap_servers, topic)
    which = ("--entity-type", "topics", "--entity-name", topic)

    def shown() -> str:
        return tool("kafka-configs", bootstrap_servers, "--describe", *which).stdout

    tool("kafka-configs", bootstrap_servers, "--alter", *which, "--add-config", "retention.ms=5000")
    wait_until(lambda: "retention.ms=5000" in shown(), "retention is five seconds", pause_s=0.2)
    tool("kafka-configs", bootstrap_servers, "--alter", *which, "--delete-config", "retention.ms")
    wait_until(lambda: "retention.ms=5000" not in shown(), "retention is the default", pause_s=0.2)
    broker = tool(
        "kafka-configs", bootstrap_servers, "--describe", "--all", "--entity-type", "brokers", "--entity-name", 1
    )
    assert "node.id=1" in broker.stdout


def test_offsets_are_shown_and_records_deleted(bootstrap_servers: str, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("cut")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(10)])
    wish = tmp_path / "cut.json"
    wish.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))

    tool("kafka-delete-records", bootstrap_servers, "--offset-json-file", wish)

    def offset(time: str) -> str:
        return tool("kafka-get-offsets", bootstrap_servers, "--topic", topic, "--time", time).stdout.strip()

    assert (offset("earliest"), offset("latest")) == (f"{topic}:0:4", f"{topic}:0:10")


def test_replicas_move_where_the_reassignment_says(bootstrap_servers: str, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("moved")
    create_topic(bootstrap_servers, topic, rf=1)
    write_confluent(bootstrap_servers, topic, [(b"k", str(turn).encode()) for turn in range(100)])
    wish = tmp_path / "move.json"
    move = {"topic": topic, "partition": 0, "replicas": [3, 1]}
    wish.write_text(json.dumps({"version": 1, "partitions": [move]}))
    what = ("--reassignment-json-file", wish)

    tool("kafka-reassign-partitions", bootstrap_servers, *what, "--execute")

    def done() -> bool:
        said = tool("kafka-reassign-partitions", bootstrap_servers, *what, "--verify", "--preserve-throttles").stdout
        return "is completed" in said

    wait_until(done, "the move is completed", pause_s=0.2)

    def moved() -> bool:
        line = described(tool("kafka-topics", bootstrap_servers, "--describe", "--topic", topic).stdout)[0]
        return (line["Replicas"].strip(), sorted(line["Isr"].strip().split(","))) == ("3,1", ["1", "3"])

    wait_until(moved, "replicas are where they were sent", pause_s=0.2)
    assert len(read_confluent(bootstrap_servers, topic, 100)) == 100


def test_the_preferred_leader_is_elected_when_asked(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("elected")
    create_topic(bootstrap_servers, topic)
    which = ("--election-type", "preferred", "--topic", topic, "--partition", 0)

    said = tool("kafka-leader-election", bootstrap_servers, *which)

    assert "Valid replica already elected" in said.stdout or "Successfully completed" in said.stdout


def test_the_cluster_tells_its_id_and_its_versions(bootstrap_servers: str) -> None:
    versions = tool("kafka-broker-api-versions", bootstrap_servers).stdout
    assert versions.count("Produce(0): ") == 3
    assert versions.count("Fetch(1): ") == 3
    named = java_tool("kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap_servers).stdout
    assert re.search(r"Cluster ID: \S{22}\n", named)


@pytest.mark.of_quorum("there is none to describe")
def test_the_cluster_tells_its_quorum(bootstrap_servers: str) -> None:
    quorum = tool("kafka-metadata-quorum", bootstrap_servers, "describe", "--status").stdout
    assert re.search(r"LeaderId:\s+[123]\n", quorum)
    assert re.search(r"HighWatermark:\s+\d+\n", quorum)


def test_replicas_are_verified_to_hold_the_same(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("same")
    create_topic(bootstrap_servers, topic, partitions=2)
    write_confluent(bootstrap_servers, topic, [(str(turn).encode(), b"v") for turn in range(200)])
    where = ("--broker-list", bootstrap_servers, "--topics-include", topic, "--time", -2, "--report-interval-ms", 200)

    with start_java_tool("kafka-replica-verification", *where) as running:
        assert running.stdout is not None
        said: list[str] = []
        for line in running.stdout:
            said.append(line)
            if "max lag is 0" in line or len(said) == 100:
                break
        running.kill()  # it would go on for ever

    assert "max lag is 0" in said[-1], said


def test_its_dump_tool_reads_the_log_on_disk(live_cluster: KafkaPeer, bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("dumped")
    create_topic(bootstrap_servers, topic)
    write_confluent(bootstrap_servers, topic, [(f"k{turn}".encode(), b"v") for turn in range(30)], "lz4")
    segment = live_cluster.data_dir(1) / f"{topic}-0" / f"{0:020}.log"

    said = java_tool("kafka-dump-log", "--files", segment, "--print-data-log").stdout

    assert re.findall(r"\| offset: (\d+) ", said) == [str(turn) for turn in range(30)]
    assert re.findall(r"payload: (\w+)", said) == ["v"] * 30
    assert "compresscodec: lz4" in said
    assert "isvalid: false" not in said
