"""Apache Kafka's administration tools against a live cluster, each through what an operator does with it.

Reassignment with throttle, verification, cancellation and listing; elections; quorum, features, log directories;
broker settings. What the tools change is looked up with another tool. Runs against Apache Kafka as well
(MOLDAU_LIVE_SYSTEM=kafka), which is how the tests themselves are checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign import create_topic, read_confluent, write_confluent
from kafka_peer import KafkaPeer, ToolRun, java_tool, wait_until

Fresh = Callable[[str], str]


def tool(name: str, bootstrap: str, *arguments: object, check: bool = True) -> ToolRun:
    """Run a tool against the cluster."""
    return java_tool(name, "--bootstrap-server", bootstrap, *arguments, check=check)


def partitions(bootstrap: str, topic: str) -> list[dict[str, str]]:
    """kafka-topics --describe of one topic, a dictionary for each partition."""
    said = tool("kafka-topics", bootstrap, "--describe", "--topic", topic).stdout
    lines = [line for line in said.splitlines() if line.startswith("\t")]
    return [{key: value.strip() for key, value in re.findall(r"(\w+): ([^\t]*)", line)} for line in lines]


def settings(bootstrap: str, kind: str, name: str | None) -> str:
    """kafka-configs --describe of what is set on one resource (None: the default of all)."""
    which = ("--entity-default",) if name is None else ("--entity-name", name)
    return tool("kafka-configs", bootstrap, "--describe", "--entity-type", kind, *which).stdout


def throttled(bootstrap: str, topic: str, broker: str) -> bool:
    """Whether a throttle is set on the topic or the broker."""
    return "throttled" in settings(bootstrap, "topics", topic) + settings(bootstrap, "brokers", broker)


def move_file(folder: Path, **targets: list[int]) -> Path:
    """The JSON file of a reassignment: topic-partition (with a dash) to its new replicas."""
    moves = [
        {"topic": name.rpartition("-")[0], "partition": int(name.rpartition("-")[2]), "replicas": replicas}
        for name, replicas in targets.items()
    ]
    path = folder / "moves.json"
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return path


def fill(bootstrap: str, topic: str, megabytes: int) -> None:
    """Records that make a move take its time: also one whose brokers hear of its throttle after it has begun, as they
    may in ZooKeeper mode, where 5 MB had been moved by then in one run of about twenty."""
    write_confluent(bootstrap, topic, [(b"k", bytes(100_000))] * (megabytes * 10))


def test_topics_are_placed_by_hand_grown_by_hand_and_described_by_trouble(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("hand")
    tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, "--replica-assignment", "2:3,3:1")

    def placed() -> list[str]:
        return [one["Replicas"] for one in partitions(bootstrap_servers, topic)]

    wait_until(lambda: placed() == ["2,3", "3,1"], "replicas are where they were put", pause_s=0.1)
    grow = ("--alter", "--topic", topic, "--partitions", 3, "--replica-assignment", "2:3,3:1,1:2")
    tool("kafka-topics", bootstrap_servers, *grow)
    wait_until(lambda: placed() == ["2,3", "3,1", "1,2"], "there is a third", pause_s=0.1)
    fewer = tool("kafka-topics", bootstrap_servers, "--alter", "--topic", topic, "--partitions", 2, check=False)
    assert fewer.status != 0
    assert "would not be an increase" in fewer.stdout + fewer.stderr
    for trouble in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert topic not in tool("kafka-topics", bootstrap_servers, "--describe", trouble).stdout


def test_a_generated_reassignment_is_executed_verified_and_its_throttle_removed(
    bootstrap_servers: str, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("generated")
    tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, "--replica-assignment", "1:2,1:2,2:1")
    fill(bootstrap_servers, topic, 2)
    wish = tmp_path / "topics.json"
    wish.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generate = ("--generate", "--topics-to-move-json-file", wish, "--broker-list", "2,3")
    said = tool("kafka-reassign-partitions", bootstrap_servers, *generate).stdout
    proposal = json.loads(said.splitlines()[-1] or said.splitlines()[-2])
    assert {r for one in proposal["partitions"] for r in one["replicas"]} <= {2, 3}
    moves = tmp_path / "moves.json"
    moves.write_text(json.dumps(proposal))
    what = ("--reassignment-json-file", moves)

    said = tool("kafka-reassign-partitions", bootstrap_servers, *what, "--execute", "--throttle", 50_000_000).stdout

    assert "Successfully started partition reassignments" in said

    def verified() -> str:
        return tool("kafka-reassign-partitions", bootstrap_servers, *what, "--verify").stdout

    wait_until(lambda: "is still in progress" not in verified(), "the moves are completed", pause_s=0.1)
    wanted = {one["partition"]: set(map(str, one["replicas"])) for one in proposal["partitions"]}

    def moved() -> bool:
        return all(
            set(one["Replicas"].split(",")) == set(one["Isr"].split(",")) == wanted[int(one["Partition"])]
            for one in partitions(bootstrap_servers, topic)
        )

    wait_until(moved, "replicas are where they were sent", pause_s=0.1)
    wait_until(lambda: not throttled(bootstrap_servers, topic, "2"), "the throttle is gone", pause_s=0.1)
    assert len(read_confluent(bootstrap_servers, topic, 20)) == 20


def test_a_throttled_move_is_listed_speeded_up_and_done(bootstrap_servers: str, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("slow")
    tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, "--replica-assignment", "1:2")
    fill(bootstrap_servers, topic, 40)
    what = ("--reassignment-json-file", move_file(tmp_path, **{f"{topic}-0": [3, 1]}))
    tool("kafka-reassign-partitions", bootstrap_servers, *what, "--execute", "--throttle", 1000)
    follower, leader = "follower.replication.throttled.replicas=0:3", "leader.replication.throttled.rate=1000"
    wait_until(
        lambda: follower in settings(bootstrap_servers, "topics", topic), "the replica is throttled", pause_s=0.1
    )
    wait_until(lambda: leader in settings(bootstrap_servers, "brokers", "1"), "and the leader", pause_s=0.1)

    listed = tool("kafka-reassign-partitions", bootstrap_servers, "--list").stdout
    assert re.search(rf"{topic}-0: replicas: \S+\. *adding: 3\. *removing: 2\.", listed)
    said = tool("kafka-reassign-partitions", bootstrap_servers, *what, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is still in progress" in said

    faster = ("--execute", "--additional", "--throttle", 100_000_000)
    tool("kafka-reassign-partitions", bootstrap_servers, *what, *faster)

    def done() -> bool:
        return "is completed" in tool("kafka-reassign-partitions", bootstrap_servers, *what, "--verify").stdout

    wait_until(done, "the move is completed", pause_s=0.1)
    assert "No partition reassignments found" in tool("kafka-reassign-partitions", bootstrap_servers, "--list").stdout
    wait_until(lambda: not throttled(bootstrap_servers, topic, "1"), "the throttle is gone", pause_s=0.1)


def test_a_move_is_cancelled_and_nothing_of_it_stays(
    live_cluster: KafkaPeer, bootstrap_servers: str, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("cancelled")
    tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, "--replica-assignment", "1:2")
    fill(bootstrap_servers, topic, 40)
    what = ("--reassignment-json-file", move_file(tmp_path, **{f"{topic}-0": [3, 1]}))
    tool("kafka-reassign-partitions", bootstrap_servers, *what, "--execute", "--throttle", 1000)
    wait_until((live_cluster.data_dir(3) / f"{topic}-0").exists, "broker 3 has begun")

    said = tool("kafka-reassign-partitions", bootstrap_servers, *what, "--cancel").stdout

    assert f"Successfully cancelled partition reassignment for: {topic}-0" in said

    def as_before() -> bool:
        (line,) = partitions(bootstrap_servers, topic)
        return (line["Replicas"], sorted(line["Isr"].split(","))) == ("1,2", ["1", "2"])

    wait_until(as_before, "replicas are those of before", pause_s=0.1)
    gone = live_cluster.data_dir(3) / f"{topic}-0"
    wait_until(lambda: not gone.exists(), "the copy is gone")
    wait_until(lambda: not throttled(bootstrap_servers, topic, "1"), "the throttle is gone", pause_s=0.1)
    again = tool("kafka-reassign-partitions", bootstrap_servers, *what, "--cancel")
    assert "None of the specified partition moves are active" in again.stdout


def test_the_replication_factor_grows_and_shrinks(bootstrap_servers: str, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("factor")
    tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, "--replica-assignment", "1,2,3")
    write_confluent(bootstrap_servers, topic, [(str(n).encode(), b"v") for n in range(50)])
    for replicas in ([1, 2, 3], [2]):
        moves = move_file(tmp_path, **{f"{topic}-{n}": replicas for n in range(3)})
        tool("kafka-reassign-partitions", bootstrap_servers, "--reassignment-json-file", moves, "--execute")
        wanted = {(",".join(map(str, replicas)), str(len(replicas)))}

        def moved(wanted: set[tuple[str, str]] = wanted) -> bool:
            shown = partitions(bootstrap_servers, topic)
            return {(one["Replicas"], str(len(one["Isr"].split(",")))) for one in shown} == wanted

        wait_until(moved, f"replicas are {replicas}", pause_s=0.1)
    assert len(read_confluent(bootstrap_servers, topic, 50)) == 50


def test_what_cannot_be_moved_is_refused_by_name(bootstrap_servers: str, fresh: Fresh, tmp_path: Path) -> None:
    topic = fresh("unmoved")
    create_topic(bootstrap_servers, topic)
    for target, words in (
        ({f"{topic}-0": [1, 9]}, "Unknown broker id 9"),
        ({"nowhere-0": [1]}, "Topic nowhere not found"),
    ):
        what = ("--reassignment-json-file", move_file(tmp_path, **target))
        said = tool("kafka-reassign-partitions", bootstrap_servers, *what, "--execute", check=False)
        assert words in said.stdout + said.stderr
    assert "No partition reassignments found" in tool("kafka-reassign-partitions", bootstrap_servers, "--list").stdout


def test_leaders_are_elected_by_file_and_for_all(
    live_cluster: KafkaPeer, bootstrap_servers: str, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("led")
    tool("kafka-topics", bootstrap_servers, "--create", "--topic", topic, "--replica-assignment", "3:1,3:2")
    live_cluster.stop_node(3)
    live_cluster.restart(3)

    def all_back() -> bool:
        shown = partitions(bootstrap_servers, topic)
        return all(sorted(one["Isr"].split(",")) == sorted(one["Replicas"].split(",")) for one in shown)

    wait_until(all_back, "broker 3 is in sync again", pause_s=0.1)
    one = tmp_path / "one.json"
    one.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}]}))

    said = tool("kafka-leader-election", bootstrap_servers, "--election-type", "preferred", "--path-to-json-file", one)

    assert f"{topic}-0" in said.stdout

    def leaders() -> list[str]:
        return [each["Leader"] for each in partitions(bootstrap_servers, topic)]

    wait_until(lambda: leaders()[0] == "3", "the first is led as preferred", pause_s=0.1)
    tool("kafka-leader-election", bootstrap_servers, "--election-type", "preferred", "--all-topic-partitions")
    wait_until(lambda: leaders() == ["3", "3"], "both are", pause_s=0.1)
    which = ("--election-type", "unclean", "--topic", topic, "--partition", 0)
    said = tool("kafka-leader-election", bootstrap_servers, *which)
    assert "Valid replica already elected" in said.stdout
    which = ("--election-type", "preferred", "--topic", "nowhere", "--partition", 0)
    nobody = tool("kafka-leader-election", bootstrap_servers, *which, check=False)
    assert "nowhere-0" in nobody.stdout + nobody.stderr


@pytest.mark.of_quorum("there is none: kafka-metadata-quorum has nobody to ask")
def test_the_quorum_tells_its_replicas_and_how_far_they_are(bootstrap_servers: str) -> None:
    said = tool("kafka-metadata-quorum", bootstrap_servers, "describe", "--replication").stdout
    rows = [line.split() for line in said.splitlines()[1:] if line.strip()]
    assert sorted(row[0] for row in rows) == ["1", "2", "3"]
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]
    status = tool("kafka-metadata-quorum", bootstrap_servers, "describe", "--status").stdout
    for field in ("ClusterId", "LeaderId", "LeaderEpoch", "HighWatermark", "MaxFollowerLag", "CurrentVoters"):
        assert re.search(rf"{field}:\s+\S+", status), field


@pytest.mark.of_quorum("metadata.version is a level of the metadata log")
def test_features_are_described_and_bad_levels_refused(bootstrap_servers: str) -> None:
    said = tool("kafka-features", bootstrap_servers, "describe").stdout
    assert re.search(r"Feature: metadata\.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: \S+", said)
    assert re.search(r"metadata\.version.*FinalizedVersionLevel: \S+\s+Epoch: \d+", said)
    refused = tool("kafka-features", bootstrap_servers, "upgrade", "--feature", "metadata.version=99", check=False)
    assert refused.status != 0
    assert "Could not upgrade metadata.version to 99" in refused.stdout + refused.stderr
    no_such = tool("kafka-features", bootstrap_servers, "upgrade", "--feature", "tea.version=1", check=False)
    assert no_such.status != 0


def test_log_directories_are_described_with_sizes(bootstrap_servers: str, fresh: Fresh) -> None:
    topic = fresh("sized")
    create_topic(bootstrap_servers, topic)
    fill(bootstrap_servers, topic, 1)
    said = tool("kafka-log-dirs", bootstrap_servers, "--describe", "--topic-list", topic).stdout
    shown = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert sorted(one["broker"] for one in shown["brokers"]) == [1, 2, 3]
    for broker in shown["brokers"]:
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        (partition,) = directory["partitions"]
        assert partition["partition"] == f"{topic}-0"
        assert partition["size"] > 1_000_000
        assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


def test_offsets_are_told_by_time_and_records_deleted_up_to_one(
    bootstrap_servers: str, fresh: Fresh, tmp_path: Path
) -> None:
    topic = fresh("offsets")
    create_topic(bootstrap_servers, topic, partitions=2)
    write_confluent(bootstrap_servers, topic, [(str(n).encode(), b"v") for n in range(40)])

    def offsets(time: object) -> dict[str, int]:
        said = tool("kafka-get-offsets", bootstrap_servers, "--topic", topic, "--time", time).stdout
        return {line.rpartition(":")[0]: int(line.rpartition(":")[2]) for line in said.split()}

    assert sum(offsets("latest").values()) == 40
    assert set(offsets("earliest").values()) == {0}
    assert set(offsets(0).values()) == {0}, "the first record from the beginning of time on"
    assert set(offsets("max-timestamp")) == {f"{topic}:0", f"{topic}:1"}
    cut = {"topic": topic, "partition": 0, "offset": -1}
    wish = tmp_path / "cut.json"
    wish.write_text(json.dumps({"version": 1, "partitions": [cut, {"topic": topic, "partition": 1, "offset": 2}]}))
    said = tool("kafka-delete-records", bootstrap_servers, "--offset-json-file", wish).stdout
    assert "low_watermark: 2" in said
    latest, earliest = offsets("latest"), offsets("earliest")
    assert earliest[f"{topic}:0"] == latest[f"{topic}:0"]
    assert earliest[f"{topic}:1"] == 2
    wish.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 1, "offset": 10**9}]}))
    beyond = tool("kafka-delete-records", bootstrap_servers, "--offset-json-file", wish, check=False)
    assert "OffsetOutOfRange" in beyond.stdout + beyond.stderr


def test_brokers_are_set_by_default_and_each_for_itself(bootstrap_servers: str) -> None:
    alter = ("--alter", "--entity-type", "brokers")
    key = "log.cleaner.backoff.ms"
    tool("kafka-configs", bootstrap_servers, *alter, "--entity-default", "--add-config", f"{key}=14000")
    tool("kafka-configs", bootstrap_servers, *alter, "--entity-name", 2, "--add-config", f"{key}=13000")

    def shown() -> str:
        return settings(bootstrap_servers, "brokers", "2")

    wait_until(lambda: f"{key}=13000" in shown(), "broker 2 has its own", pause_s=0.1)
    both = f"DYNAMIC_BROKER_CONFIG:{key}=13000, DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=14000"
    wait_until(lambda: both in shown(), "its own goes before the default", pause_s=0.1)
    tool("kafka-configs", bootstrap_servers, *alter, "--entity-name", 2, "--delete-config", key)
    tool("kafka-configs", bootstrap_servers, *alter, "--entity-default", "--delete-config", key)
    wait_until(lambda: key not in shown(), "broker 2 has the default", pause_s=0.1)
    bad = tool(
        "kafka-configs", bootstrap_servers, *alter, "--entity-default", "--add-config", f"{key}=soon", check=False
    )
    assert bad.status != 0
    assert "Invalid value soon for configuration" in bad.stdout + bad.stderr


@pytest.mark.of_quorum("a broker that is gone is forgotten with its session; UnregisterBroker is not served")
def test_the_cluster_tells_its_endpoints_and_forgets_a_broker_that_is_gone(
    live_cluster: KafkaPeer, bootstrap_servers: str
) -> None:
    shown = java_tool("kafka-cluster", "list-endpoints", "--bootstrap-server", bootstrap_servers).stdout
    for client, _ in live_cluster.ports.values():
        assert re.search(rf"127\.0\.0\.1\s+{client}\s", shown)
    controllers = ",".join(f"127.0.0.1:{port}" for _, port in live_cluster.ports.values())
    named = java_tool("kafka-cluster", "list-endpoints", "--bootstrap-controller", controllers).stdout
    for _, controller in live_cluster.ports.values():
        assert re.search(rf"127\.0\.0\.1\s+{controller}\s", named)
    unknown = java_tool("kafka-cluster", "unregister", "--bootstrap-server", bootstrap_servers, "--id", 77, check=False)
    assert "Broker ID 77 is not currently registered" in unknown.stdout + unknown.stderr
