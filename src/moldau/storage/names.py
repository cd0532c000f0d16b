"""Kafka's names on disk: files of a segment, folders of a partition, files of a log directory.

Pure text. Source: the layout of Apache Kafka's log directories. Read next: ``segment.py``, ``log_dirs.py``.
"""

from __future__ import annotations

from moldau.model import TopicPartition
from moldau.model.named import NamedTuple

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
SNAPSHOT = ".snapshot"
TXN_INDEX = ".txnindex"

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED_TO = "cleaner-offset-checkpoint"
META = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
RESTARTED = "restarted"
"""In a partition's folder: what the checkpoint files say of its log was said of what it was before it started over."""

DELETE_FOLDER = "-delete"
STRAY_FOLDER = "-stray"
FUTURE_FOLDER = "-future"
METADATA_TOPIC = "__cluster_metadata"

_MAX_NAME = 255
_INT32_MAX, _INT64_MAX, _DIGITS = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF, 10
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
"""The letters of a topic's name: with others, a line of a checkpoint file could not be read back."""


def offset_name(offset: int, suffix: str) -> str:
    """A file of the segment (or snapshot) at ``offset``: 20 digits and a suffix.

    >>> offset_name(42, LOG)
    '00000000000000000042.log'
    """
    return f"{offset:020d}{suffix}"


class OffsetFile(NamedTuple):
    """A file name taken apart: ``00000000000000000042.log.swap`` is (42, ".log", ".swap")."""

    offset: int
    kind: str
    state: str


def parse_offset_name(name: str) -> OffsetFile | None:
    """The parts of a segment file's name, or None for any other file."""
    digits, kind, state = name[:20], name[20:], ""
    for suffix in (DELETED, CLEANED, SWAP):
        if kind.endswith(suffix):
            kind, state = kind[: -len(suffix)], suffix
            break
    if kind not in (LOG, INDEX, TIME_INDEX, SNAPSHOT, TXN_INDEX) or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return OffsetFile(offset, kind, state) if offset <= _INT64_MAX else None


def parse_folder(name: str) -> TopicPartition | None:
    """``topic-0`` as a partition, or None when the name is not a live partition's (deleted, stray, something else).

    >>> parse_folder("a-b-7"), parse_folder("a b-7"), parse_folder("a-07")
    (TopicPartition(topic='a-b', partition=7), None, None)
    """
    topic, dash, number = name.rpartition("-")
    if not dash or not (number.isascii() and number.isdigit()) or len(number) > _DIGITS:
        return None
    if not _LEGAL.issuperset(topic) or topic in ("", ".", "..") or (number[0] == "0" and number != "0"):
        return None
    partition = int(number)
    return TopicPartition(topic, partition) if partition <= _INT32_MAX else None


def looks_like_folder(name: str) -> bool:
    """Whether a name ends as a partition's folder does, or a copy's."""
    return name.rpartition("-")[2].isdigit() or name.endswith(FUTURE_FOLDER)


def future_folder(partition: TopicPartition, unique: str) -> str:
    """The name of a copy's folder, ``topic-0.<unique>-future``; longer than 255 bytes is too long for a disk."""
    return f"{partition}.{unique}{FUTURE_FOLDER}"


def parse_future(name: str) -> tuple[TopicPartition, str] | None:
    """The partition and the unique part of a copy's folder; None for any other name.

    >>> parse_future("a.b-7.0f-future")
    (TopicPartition(topic='a.b', partition=7), '0f')
    """
    live, _, unique = name.removesuffix(FUTURE_FOLDER).rpartition(".")
    partition = parse_folder(live) if name.endswith(FUTURE_FOLDER) else None
    return None if partition is None else (partition, unique)


def doomed_folder(partition: TopicPartition, unique: str, suffix: str) -> str:
    """The name a partition's folder takes when it is no longer wanted: ``topic-0.<unique>-delete``, at most 255
    bytes.
    """
    tail = f"-{partition.partition}.{unique}{suffix}"
    return partition.topic[: _MAX_NAME - len(tail)] + tail
