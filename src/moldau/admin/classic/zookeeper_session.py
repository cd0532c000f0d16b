"""How Kafka's tools of the ZooKeeper era are run: a session with ZooKeeper, and failures as those tools tell them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.session import warn
from moldau.cluster.serving import ask_zookeeper
from moldau.ports.zookeeper import ConnectionLoss, NoNode, SessionExpired, ZooKeeper, ZooKeeperError
from moldau.zookeeper.connect import parse_connect
from moldau.zookeeper.payload import BadZnode

T = TypeVar("T")

ADMIN_OPERATION = "kafka.admin.AdminOperationException"
ADMIN_FAILED = "kafka.common.AdminCommandFailedException"
PATIENCE_MS = SESSION_MS = 30_000
"""What Kafka's tools take."""
MOST_BYTES = 1_048_575 - 1_024
"""What ZooKeeper's servers take in one request by default, less its header and path."""


def fitting(data: bytes) -> bytes:
    """The same; JavaError when it is so much that ZooKeeper would break the connection over it (jute.maxbuffer)."""
    if len(data) > MOST_BYTES:
        what = f"{len(data)} bytes would have to be written to one znode, and ZooKeeper takes at most {MOST_BYTES}"
        raise JavaError(ADMIN_OPERATION, what)
    return data


def _tell_as_kafka_does() -> None:
    """From now on warnings of the library are lines of a log, as those of Kafka's tools are, and not bare words.

    For good, as its thread may have something to say after the last answer.
    """
    log = logging.getLogger("moldau.zookeeper")
    if not any(isinstance(one, _Told) for one in log.handlers):
        log.addHandler(_Told(logging.WARNING))


class _Told(logging.Handler):
    """Writes records to standard error as Kafka's tools log them."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage(), "org.apache.zookeeper.ClientCnxn")


def in_zookeeper(where: str, work: Callable[[ZooKeeper], Awaitable[T]]) -> T:
    """What ``work`` makes of a session with ZooKeeper; JavaError when there is none to be had."""
    try:
        parse_connect(where)
        _tell_as_kafka_does()
        return ask_zookeeper(where, work, patience_ms=PATIENCE_MS, session_ms=SESSION_MS)
    except ValueError as error:
        raise illegal_argument(str(error)) from None
    except (ConnectionLoss, SessionExpired):
        what = "Timed out waiting for connection while in state: CONNECTING"
        raise JavaError("kafka.zookeeper.ZooKeeperClientTimeoutException", what) from None
    except NoNode as error:
        raise JavaError("org.apache.zookeeper.KeeperException$NoNodeException", str(error)) from None
    except (ZooKeeperError, BadZnode) as error:
        raise JavaError("org.apache.zookeeper.KeeperException", str(error)) from None
