"""The znodes that ask or tell: moves, elections, deletions, changed ISRs, failed disks, settings and their changes.

Tools and brokers write them, the controller or the brokers read and remove them. Settings are here because they are
told of by notes. What the cluster is: ``znodes``. Source: Kafka's znodes; config changes 1 (0.9) and 2 (KIP-55).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.model import TopicPartition
from moldau.model.named import NamedTuple
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode, Payload, in_order, parsed, written

LOG_DIR_FAILURE = 1


class LogDirEvent(NamedTuple):
    """A broker lost a log directory."""

    broker_id: int
    event: int = LOG_DIR_FAILURE


def parse_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """/admin/reassign_partitions: partition -> replicas wished for. A partition named twice: the last one counts."""
    found = parsed(paths.REASSIGN_PARTITIONS, data)
    wishes = {}
    for item in found.items("partitions"):
        each = Payload(found.path, item)
        wishes[_partition(each)] = each.integers("replicas")
    return wishes


def reassignment_json(wishes: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    partitions = [{"topic": tp.topic, "partition": tp.partition, "replicas": list(wishes[tp])} for tp in wishes]
    return written({"version": 1, "partitions": partitions})


def parse_preferred_election(data: bytes | None) -> list[TopicPartition]:
    """/admin/preferred_replica_election: partitions that their preferred replica shall lead."""
    return _partitions(parsed(paths.PREFERRED_ELECTION, data))


def preferred_election_json(partitions: Iterable[TopicPartition]) -> bytes:
    return _partitions_json(partitions)


def parse_isr_note(path: str, data: bytes | None) -> list[TopicPartition]:
    """/isr_change_notification/isr_change_*: partitions whose ISR a leader changed."""
    return _partitions(parsed(path, data))


def parse_log_dir_event(path: str, data: bytes | None) -> LogDirEvent:
    found = parsed(path, data)
    return LogDirEvent(found.integer("broker"), found.integer("event"))


def log_dir_event_json(event: LogDirEvent) -> bytes:
    return written({"version": 1, "broker": event.broker_id, "event": event.event})


def parse_config(entity: str, data: bytes | None) -> dict[str, str]:
    """Settings of an entity (``topics/orders``); an empty znode has none. A key or a value that no file and no request
    can hold (half of a surrogate pair) is left out: what the others are worth, ``settings.judged`` says."""
    if not data:
        return {}
    found = parsed(paths.config(entity), data)
    settings: dict[str, str] = {}
    for name, value in found.inner("config").values.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise BadZnode(found.path, f"{name!r:.100} is {value!r:.100}, not a text")
        if _is_encodable(name) and _is_encodable(value):
            settings[name] = value
    return settings


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def config_json(settings: Mapping[str, str]) -> bytes:
    return written({"version": 1, "config": in_order(settings)})


def parse_config_change(path: str, data: bytes | None) -> str:
    """The entity that changed, as ``paths.config`` takes it."""
    found = parsed(path, data)
    if found.version(1, 2) == 1:
        kind, name = found.text("entity_type"), found.text("entity_name")
        if kind not in ("topics", "clients"):
            raise BadZnode(path, f"entity type {kind!r} has no change of version 1")
        return _entity(path, f"{kind}/{name}")
    entity = found.text("entity_path")
    return _entity(path, entity)


def _entity(path: str, entity: str) -> str:
    """The same; BadZnode when no znode can be named so."""
    parts = entity.split("/")
    if len(parts) < 2 or any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise BadZnode(path, f"{entity!r:.100} is no entity; KIND/NAME is expected")
    return entity


def config_change_json(entity: str) -> bytes:
    return written({"version": 2, "entity_path": entity})


def _partitions(found: Payload) -> list[TopicPartition]:
    seen = dict.fromkeys(_partition(Payload(found.path, item)) for item in found.items("partitions"))
    return list(seen)


def _partition(item: Payload) -> TopicPartition:
    return TopicPartition(item.text("topic"), item.integer("partition"))


def _partitions_json(partitions: Iterable[TopicPartition]) -> bytes:
    items: list[dict[str, Any]] = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return written({"version": 1, "partitions": items})
