"""Moldau's tools with --zookeeper say and write what Apache Kafka 2.8.2's do, in ZooKeeper mode."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import classic_cases
import classic_cases_zookeeper as more_cases
import pytest
from classic import Both, Case, lines, ours, write_json
from kafka_peer import wait_until
from tests.golden.classic_lines import CLASSES_OF_2_8
from tests.golden.java_tools import JARS, JavaTools
from znodes import in_zookeeper, znode

from moldau import Cluster
from moldau.ports.zookeeper import ZooKeeper

CONFIG = {
    "offsets.topic.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "40000",  # nobody stops leading because a machine is slow
}
MASKS = {r"Leader: \S+": "Leader: (id)", r"Isr: [\d,]*": "Isr: (ids)"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("old-tools") / "cluster"
    with Cluster(3, mode="zookeeper", data=folder, config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def old_java() -> Iterator[JavaTools]:
    with JavaTools(JARS / "tools-2.8.2") as tools:
        yield tools


@pytest.fixture
def old(old_java: JavaTools, cluster: Cluster, tmp_path: Path) -> Both:
    """Runs a line with both; knows where ZooKeeper is."""
    write_json(tmp_path)
    names = {"z": str(cluster.spec.zookeeper), "b": cluster.bootstrap_servers, "json": str(tmp_path)}
    return Both(old_java, names, MASKS, CLASSES_OF_2_8)


def test_topics(old: Both) -> None:
    old.run(lines(classic_cases.TOPICS_IN_ZOOKEEPER))
    old.check()


def test_what_is_written_is_the_same(old: Both, cluster: Cluster) -> None:
    """But for the topic's id, which the controller adds."""
    connect = str(cluster.spec.zookeeper)
    alter = "kafka-topics.sh --zookeeper {z} --alter --topic {s}-written"
    old.run([
        "kafka-topics.sh --zookeeper {z} --create --topic {s}-written --replica-assignment 1:2,2:3 "
        "--config retention.ms=70000 --config segment.ms=60000 --config cleanup.policy=compact",
        f"{alter} --partitions 12",
        f"{alter} --partitions 13 --replica-assignment {'1:2,' * 12}3:2",
        f"{alter} --delete-config segment.ms --config flush.ms=9",
    ])  # fmt: skip
    old.check()
    for path in ("/brokers/topics/{}-written", "/config/topics/{}-written"):
        _await_same(connect, [path.format(side) for side in "jm"])


def test_settings(old: Both, cluster: Cluster, tmp_path: Path) -> None:
    """Of topics, users, clients, addresses, and brokers that run or do not: what is said, and what is written."""
    connect = str(cluster.spec.zookeeper)
    (tmp_path / "settings.properties").write_text("flush.ms=9\n# a note\nsegment.ms = 60000\n")
    for side in "jm":
        words = ["--zookeeper", connect, "--create", "--topic", f"{side}-told", "--replica-assignment", "1:2"]
        assert ours("kafka-topics.sh", words).status == 0
    old.masks[r"(?m)^(?:Configs for .*\n){2,}"] = _sorted  # as the server has them in a hash table
    old.by_side = {"nine": {"j": "8", "m": "9"}, "ip": {"j": "10.0.0.8", "m": "10.0.0.9"}}
    old.run(lines(more_cases.CONFIGS))
    old.check()
    written = ("topics/{}-told", "users/{}-user/clients/{}-client", "users/{}-user%3Da%20b", "users/{}-gr%C3%B6%C3%9Fe")
    for entity in (*written, "brokers/89", "ips/10.0.0.89"):
        both = [entity.replace("{}", side).replace("89", "8" if side == "j" else "9") for side in "jm"]
        _await_same(connect, [f"/config/{one}" for one in both])


def test_a_password_is_kept_as_a_credential_that_belongs_to_it(cluster: Cluster) -> None:
    connect = str(cluster.spec.zookeeper)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        words = ["--zookeeper", connect, "--alter", "--user", "alice"]
        said = ours("kafka-configs.sh", [*words, "--add-config", f"{mechanism}=[iterations=8192,password=a,b]"])
        assert (said.status, said.err) == (0, "")
        parts = dict(
            p.partition("=")[::2] for p in znode(connect, "/config/users/alice")["config"][mechanism].split(",")
        )
        assert parts["iterations"] == "8192"
        algorithm = "sha" + mechanism[-3:]
        salted = hashlib.pbkdf2_hmac(algorithm, b"a,b", b64decode(parts["salt"]), 8192)
        stored = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
        assert b64decode(parts["stored_key"]) == stored
        assert b64decode(parts["server_key"]) == hmac.digest(salted, b"Server Key", algorithm)


def test_reassignments(old: Both, cluster: Cluster, tmp_path: Path) -> None:
    """Refusals, plans, and a throttled move that is verified when the controller has carried it out."""
    connect = str(cluster.spec.zookeeper)
    for topic in ("placed", "j-moved", "m-moved"):
        words = ["--zookeeper", connect, "--create", "--topic", topic, "--replica-assignment", "1:2,2:3,3:1"]
        assert ours("kafka-topics.sh", words).status == 0
    words = ["--zookeeper", connect, "--create", "--topic", "alone", "--replica-assignment", "1"]
    assert ours("kafka-topics.sh", words).status == 0
    _write_plans(tmp_path)
    for side in "jm":
        moves = [(f"{side}-moved", 0, [3, 2]), (f"{side}-moved", 1, [2, 1])]
        (tmp_path / f"{side}-move.json").write_text(_plan(*moves))
    old.run(lines(more_cases.REASSIGNMENTS))
    move = "kafka-reassign-partitions.sh --zookeeper {z} --{action} --reassignment-json-file {json}/{s}-move.json"
    execute, verify = (move.replace("{action}", action) for action in ("execute", "verify"))
    written = ("topics/{}-moved", "brokers/1")
    for line in (execute + " --throttle 50000000", verify + " --preserve-throttles", verify, verify):
        for side in "jm":  # one after the other: a znode is all that there is to ask the controller by
            old.run([Case(line, sides=side)])
            wait_until(lambda: znode(connect, "/admin/reassign_partitions") is None, "the wish is taken", 60)
            place = f"/brokers/topics/{side}-moved"
            wait_until(lambda place=place: _moves(znode(connect, place)) == [], "the partitions are moved", 60)  # type: ignore[misc]
        if line != verify:
            _await_same(connect, [f"/config/{written[0].format(side)}" for side in "jm"])
            assert znode(connect, "/config/brokers/1")["config"]
    old.check()
    assert [znode(connect, f"/config/{path.format('m')}")["config"] for path in written] == [{}, {}]


def _sorted(found: re.Match[str]) -> str:
    return "".join(sorted(found[0].splitlines(keepends=True)))


def _moves(topic: Any) -> list[str]:  # JSON
    return [*topic["adding_replicas"], *topic["removing_replicas"]]


def _plan(*partitions: tuple[object, ...]) -> str:
    keys = ("topic", "partition", "replicas", "log_dirs")
    return json.dumps({"version": 1, "partitions": [dict(zip(keys, one, strict=False)) for one in partitions]})


def _write_plans(folder: Path) -> None:
    stay = [("placed", number, replicas) for number, replicas in enumerate(([1, 2], [2, 3], [3, 1]))]
    plans = {
        "stay": _plan(*stay),
        "half": _plan(*stay)[:70],
        "noreplicas": _plan(("placed", 0, [])),
        "movetwice": _plan(*stay, stay[0]),
        "samebroker": _plan(("placed", 0, [1, 1, 2]), ("placed", 1, [2, 2, 3, 3])),
        "dirs": _plan(("placed", 0, [1, 2], ["any"])),
        "elsewhere": _plan(("placed", 0, [1, 2], ["any", "/elsewhere"])),
        "ninth": _plan(("placed", 0, [1, 9]), ("placed", 1, [8, 2])),
        "nosuch": _plan(("nosuch", 0, [1, 2]), ("placed", 7, [1, 2]), stay[0]),
        "many": _plan(*((f"größe-{number}", number, [number, number + 7]) for number in range(9))),
    }
    topics = {"listed": ["placed"], "alone": ["alone"], "topicstwice": ["a", "b", "a", "b"], "notopics": ["b"]}
    plans |= {name: json.dumps({"topics": [{"topic": one} for one in names]}) for name, names in topics.items()}
    for name, text in plans.items():
        (folder / f"{name}.json").write_text(text)


def _await_same(connect: str, both: list[str]) -> None:
    """The controller writes what it has carried out once more, in its order of keys: one may be ahead of the other."""

    def same() -> bool:
        theirs, own = (in_zookeeper(connect, partial(_data, path)) for path in both)
        return theirs == own

    wait_until(same, f"the same is written to {both}", 30)


async def _data(path: str, zk: ZooKeeper) -> bytes:
    return re.sub(rb'"topic_id":"[^"]+",', b"", (await zk.get(path))[0])


def test_preferred_elections(old: Both, cluster: Cluster, tmp_path: Path) -> None:
    connect = str(cluster.spec.zookeeper)
    for name in ("led", "far", "twice"):
        listed = [{"topic": "led", "partition": 0}]
        listed += {"led": [], "far": [{"topic": "nosuch", "partition": 9}], "twice": listed}[name]
        (tmp_path / f"{name}.json").write_text(json.dumps({"partitions": listed}))
    words = ["--zookeeper", connect, "--create", "--topic", "led", "--replica-assignment", "1:2,2:3,3:1,1:3,2:1,3:2"]
    assert ours("kafka-topics.sh", words).status == 0
    wait_until(lambda: znode(connect, "/brokers/topics/led/partitions/5/state") is not None, "the topic is made", 60)
    strangers = [{"topic": "nosuch", "partition": number} for number in range(20)]
    (tmp_path / "strangers.json").write_text(json.dumps({"partitions": [*strangers, {"topic": "led", "partition": 1}]}))
    (tmp_path / "client.properties").write_text("client.id=tool\n")
    for line in lines(classic_cases.PREFERRED_IN_ZOOKEEPER) + lines(more_cases.PREFERRED_AT_BROKERS):
        wait_until(lambda: znode(connect, "/admin/preferred_replica_election") is None, "elections are held", 60)
        old.run([line])
    old.check()
