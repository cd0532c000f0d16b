"""Znodes of Apache Kafka 3.9.1 (tests/golden/znodes-3.9.json): read, understood, written to the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.image import Image
from moldau.model import uuid_bytes
from moldau.ports.zookeeper import Stat
from moldau.zookeeper import notes, paths, settings, znodes
from moldau.zookeeper.reading import Survey, SurveyResult, read

GOLDEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "golden" / "znodes-3.9.json").read_text()
)
WRITTEN = {path: str(each["data"]).encode() for path, each in GOLDEN.items()}


def again(path: str, data: bytes) -> bytes | None:
    """What we write for what we read; None for a znode that is a folder or a mark."""
    parts = path.split("/")[1:]
    match parts:
        case ["brokers", "ids", id]:
            return znodes.broker_json(znodes.parse_broker(int(id), data))
        case ["brokers", "topics", name]:
            return znodes.topic_json(znodes.parse_topic(name, data))
        case ["brokers", "topics", name, "partitions", number, "state"]:
            return znodes.state_json(znodes.parse_state(name, int(number), data))
        case ["controller"]:
            return znodes.controller_json(znodes.parse_controller(data))
        case ["controller_epoch"]:
            return znodes.controller_epoch_text(znodes.parse_controller_epoch(data))
        case ["cluster", "id"]:
            return znodes.cluster_id_json(znodes.parse_cluster_id(data))
        case ["feature"]:
            return znodes.feature_json(znodes.parse_feature(data))
        case ["latest_producer_id_block"]:
            block = znodes.parse_producer_ids(data)
            assert block is not None
            return znodes.producer_ids_json(block)
        case ["config", "changes", _]:
            return notes.config_change_json(notes.parse_config_change(path, data))
        case ["config", *_]:
            return notes.config_json(notes.parse_config(path.removeprefix("/config/"), data))
    return None


@pytest.mark.parametrize("path", [path for path in WRITTEN if WRITTEN[path]])
def test_what_kafka_wrote_is_written_again_to_the_byte(path: str) -> None:
    assert again(path, WRITTEN[path]) == WRITTEN[path]


def test_the_folders_that_kafka_makes_are_those_that_we_make() -> None:
    empty = {path for path in WRITTEN if not WRITTEN[path]} | {paths.PRODUCER_IDS}
    inner = {p for p in empty if p.startswith((paths.TOPICS + "/", "/config/users/", paths.DELETE_TOPICS + "/"))}
    assert empty - inner == {*paths.PERSISTENT, paths.CLUSTER}


def found(path: str) -> tuple[bytes, Stat]:
    return WRITTEN[path], Stat(czxid=12, mzxid=12, version=GOLDEN[path]["version"], ephemeral_owner=0)


@pytest.fixture(scope="module")
def reading() -> SurveyResult:
    topics = [
        path.removeprefix(paths.TOPICS + "/") for path in WRITTEN if path.count("/") == 3 and paths.TOPICS in path
    ]
    states = {}
    for path in WRITTEN:
        if path.endswith("/state"):
            _, _, _, topic, _, number, _ = path.split("/")
            states[topic, int(number)] = found(path)
    entities = [path.removeprefix("/config/") for path in WRITTEN if path.startswith("/config/") and WRITTEN[path]]
    survey = Survey(
        brokers={1: found(paths.broker(1)), 2: found(paths.broker(2))},
        topics={name: found(paths.topic(name)) for name in topics},
        states=states,
        configs={entity: WRITTEN[paths.config(entity)] for entity in entities if not entity.startswith("changes/")},
        feature=WRITTEN[paths.FEATURE],
        producer_ids=found(paths.PRODUCER_IDS),
    )
    return read(survey, lambda: pytest.fail("every topic has an id"))


def test_an_image_of_kafka_s_cluster(reading: SurveyResult) -> None:
    image = Image()
    for record in reading.records:
        image.apply(record)
    assert (reading.bad, reading.repairs, reading.known_znodes.new_partitions) == ([], [], {})
    assert {id: (b.rack, b.epoch, b.active) for id, b in image.brokers.items()} == {
        1: ("r1", 12, True),
        2: ("r2", 12, True),
    }
    assert [(e.name, e.security_protocol) for e in image.brokers[1].endpoints] == [("PLAINTEXT", 0), ("INSIDE", 0)]
    moving = image.topic("moving")
    assert moving is not None
    assert moving.id == uuid_bytes(json.loads(WRITTEN[paths.topic("moving")])["topic_id"])
    partition = moving.partitions[0]
    assert (partition.replicas, partition.adding, partition.isr, partition.leader) == ((2, 1), (2,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (1, GOLDEN[paths.state("moving", 0)]["version"])
    assert len(image.topics[image.names["wide"]].partitions) == 14
    assert image.config(2, "orders")["cleanup.policy"] == "compact"
    assert image.config(4, "") == {"message.max.bytes": "2000000"}
    assert image.config(4, "1") == {"log.cleaner.threads": "2"}
    assert image.next_producer_id == int(json.loads(WRITTEN[paths.PRODUCER_IDS])["block_end"]) + 1


def test_quotas_and_credentials_are_records_and_the_same_text_again(reading: SurveyResult) -> None:
    for entity, values in reading.known_znodes.settings.items():
        made = [settings.setting_of(record) for record in settings.records_of(entity, values)]
        assert {each.key: each.value for each in made if each is not None} == values
        assert {each.entity for each in made if each is not None} <= {entity}
    names = {type(record).__name__ for record in reading.records}
    assert {"ClientQuotaRecord", "UserScramCredentialRecord"} <= names
