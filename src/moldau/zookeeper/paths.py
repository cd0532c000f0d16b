"""Where Kafka's znodes stand, relative to the chroot, and how names become parts of paths.

What stands in them: ``znodes`` and ``notes``. Source: Kafka 0.8 to 3.9; sanitised names KIP-55.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
PRODUCER_IDS = "/latest_producer_id_block"
MIGRATION = "/migration"
ADMIN = "/admin"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_NOTES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"

NEW_ISR_NOTE = ISR_NOTES + "/isr_change_"
NEW_LOG_DIR_EVENT = LOG_DIR_EVENTS + "/log_dir_event_"
NEW_CONFIG_CHANGE = CONFIG_CHANGES + "/config_change_"
"""Prefixes of sequential znodes: ZooKeeper adds ten digits."""

CONFIG_KINDS = ("topics", "clients", "users", "brokers", "ips")
"""Kinds of things with settings that Kafka 3.9 keeps a folder for."""

PERSISTENT = (
    "/consumers",
    BROKERS,
    BROKER_IDS,
    TOPICS,
    CONFIG,
    CONFIG_CHANGES,
    ADMIN,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_NOTES,
    PRODUCER_IDS,
    LOG_DIR_EVENTS,
    *(f"{CONFIG}/{kind}" for kind in CONFIG_KINDS),
)
"""What stands before anything else does, parents first; whoever comes first creates it, without data."""

DEFAULT_ENTITY = "<default>"

_NODE_ID = re.compile(r"(0|[1-9][0-9]{0,9})\Z")
_STATE = re.compile(rf"{TOPICS}/([^/]+)/partitions/([0-9]+)/state\Z")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")


def broker(id: int) -> str:
    return f"{BROKER_IDS}/{id}"


def broker_ids(names: Iterable[str]) -> tuple[list[int], list[str]]:
    """The brokers that children of /brokers/ids are named after, and the names that are no number of 32 bits."""
    ids: list[int] = []
    others: list[str] = []
    for name in names:
        if _NODE_ID.match(name) and int(name) < 1 << 31:
            ids.append(int(name))
        else:
            others.append(name)
    return ids, others


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition(topic: str, number: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{number}"


def state(topic: str, number: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{number}/state"


def of_state(path: str) -> tuple[str, int] | None:
    """Topic and number of the partition whose state a path is; None for any other path, such as that of a topic called
    ``state``.

    >>> of_state("/brokers/topics/orders/partitions/3/state")
    ('orders', 3)
    """
    found = _STATE.match(path)
    return None if found is None else (found[1], int(found[2]))


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def config(entity: str) -> str:
    """``entity`` as a config change names it: ``topics/orders``, ``users/alice/clients/<default>``."""
    return f"{CONFIG}/{entity}"


def sanitized(name: str) -> str:
    """A name as one part of a path: url-encoded, as Java does it, with nothing left that JMX would trip over (KIP-55).

    >>> sanitized('CN=Joe, O=ä*')
    'CN%3DJoe%2C%20O%3D%C3%A4%2A'
    """
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def plain(part: str) -> str:
    """The name behind a sanitised part of a path; a part that nobody sanitised stays what it is.

    >>> plain('CN%3DJoe%2C%20O%3D%C3%A4%2A')
    'CN=Joe, O=ä*'
    """
    first, *rest = part.split("%")
    name = bytearray(first.encode())
    for piece in rest:
        try:
            name.append(int(piece[:2], 16))
        except ValueError:
            return part
        name += piece[2:].encode()
    try:
        return name.decode()
    except UnicodeDecodeError:
        return part
