"""What a node answers: api key -> versions, listener and the file that does it.

One request, one file: ``kNN_name.py`` holds ``handle(node, request, context)`` for broker listeners and, where a
controller answers too, ``control(node, request, context)`` for controller listeners. ``node`` is what the
function may use of it: ``BrokerServices`` and ``ControllerServices`` of ``broker/services.py``; ``dispatch`` binds
them. A handler returns the response,
None (nothing is sent), an awaitable of the response, or for a long request ``Slices``; it is imported when the first
such request arrives, or soon after the start (``handlers_to_import``), so that a slow disk holds up nobody's request.

The table is also the whole answer to ApiVersions: nothing is advertised that does not answer. Ranges are Apache Kafka
4.2's maxima with 3.9's minima, so that clients old and new see one coherent release. Produce shows 0-2 though it
serves from 3, as Kafka 4 does: older librdkafka would otherwise lose compression (KAFKA-18659).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from moldau.broker.api.functions import Unbound, control_of, function_of, module_of
from moldau.broker.api.refusing import guarded
from moldau.broker.network.requests import BROKER, CONTROLLER, ZOOKEEPER, Dispatch, Handler, ServedApi

if TYPE_CHECKING:
    from moldau.broker.services import BrokerServices, ControllerServices

__all__ = [
    "ANSWERS",
    "BROKER",
    "CONTROLLER",
    "ON_BROKER",
    "ON_CONTROLLER",
    "ON_ZOOKEEPER",
    "ZOOKEEPER",
    "Unbound",
    "control_of",
    "dispatch",
    "handler",
    "handlers_to_import",
    "is_controllers",
]


def _answers(*rows: tuple[int, int, int]) -> dict[int, ServedApi]:
    return {key: ServedApi(key, low, high, 0 if key == 0 else low) for key, low, high in rows}


ON_BROKER = _answers(
    (0, 3, 13), (1, 4, 18), (2, 1, 11), (3, 0, 13), (8, 2, 10), (9, 1, 10), (10, 0, 6), (11, 0, 9),
    (12, 0, 4), (13, 0, 5), (14, 0, 5), (15, 0, 6), (16, 0, 5), (18, 0, 4), (19, 2, 7), (20, 1, 6),
    (21, 0, 2), (22, 0, 5), (23, 2, 4), (27, 1, 2), (28, 0, 5),
    (29, 1, 3), (30, 1, 3), (31, 1, 3), (32, 1, 4), (33, 0, 2), (34, 1, 2), (35, 1, 4), (37, 0, 3), (42, 0, 2),
    (43, 0, 2), (44, 0, 1), (45, 0, 1), (46, 0, 0), (47, 0, 0), (48, 0, 1), (49, 0, 1), (50, 0, 0),
    (55, 0, 2), (57, 0, 2), (60, 0, 2), (61, 0, 0), (64, 0, 0), (74, 0, 1), (75, 0, 0), (80, 0, 1), (81, 0, 0),
)  # fmt: skip
"""Answered on broker listeners."""

ON_CONTROLLER = _answers(
    (1, 4, 18), (7, 0, 3), (18, 0, 4), (19, 2, 7), (20, 1, 6),
    (29, 1, 3), (30, 1, 3), (31, 1, 3), (32, 1, 4), (33, 0, 2), (37, 0, 3), (43, 0, 2),
    (44, 0, 1), (45, 0, 1), (46, 0, 0), (49, 0, 1), (52, 0, 2), (53, 0, 1), (54, 0, 1), (55, 0, 2), (56, 2, 3),
    (57, 0, 2), (58, 0, 0), (59, 0, 1), (60, 0, 2), (62, 0, 4), (63, 0, 2), (64, 0, 0), (67, 0, 0), (70, 0, 0),
    (73, 0, 0), (80, 0, 1), (81, 0, 0), (82, 0, 0),
)  # fmt: skip
"""Answered on controller listeners."""

QUORUM_ONLY = frozenset({55, 57, 64, 80, 81})
ON_ZOOKEEPER = {key: answer for key, answer in ON_BROKER.items() if key not in QUORUM_ONLY} | _answers(
    (4, 0, 7), (5, 0, 4), (6, 0, 8), (7, 0, 3), (56, 2, 3), (67, 0, 0),
)  # fmt: skip
"""Answered on the broker listeners of a node in ZooKeeper mode: what its controller tells it, what brokers ask their
controller, and nothing of a quorum."""

ANSWERS = {BROKER: ON_BROKER, CONTROLLER: ON_CONTROLLER, ZOOKEEPER: ON_ZOOKEEPER}


QUORUMS_OWN = frozenset({1, 18, 52, 53, 54, 55, 59})
"""Answered by this node's Raft replica, or from what it holds: nobody's request is passed on to them."""


def handler(key: int, kind: str) -> Unbound:
    """The function that answers ``key`` on a kind of listener."""
    if not is_controllers(key, kind):
        return function_of(key, "handle")
    if key in QUORUMS_OWN:
        return control_of(key)
    return guarded(control_of(key))


def is_controllers(key: int, kind: str) -> bool:
    """Whether a controller answers ``key`` on a kind of listener; in ZooKeeper mode brokers' listeners are its own."""
    return kind == CONTROLLER or (kind == ZOOKEEPER and not hasattr(module_of(key), "handle"))


def dispatch(kind: str, broker: Callable[[], BrokerServices], controller: Callable[[], ControllerServices]) -> Dispatch:
    """Finds the function that answers a request on a kind of listener, bound to its services; these are asked for when
    the first such request has come."""

    def find(key: int) -> Handler:
        return partial(handler(key, kind), controller() if is_controllers(key, kind) else broker())

    return find


LATER = (
    "moldau.broker.kraft.answers",
    "moldau.broker.kraft.describing",
    "moldau.broker.groups.coordinator",
    "moldau.controller.more_partitions",
    "moldau.controller.quotas",
    "moldau.wire.messages.k02_list_offsets",
    "moldau.wire.messages.k24_add_partitions_to_txn",
    "moldau.wire.messages.k56_alter_partition",
    "moldau.wire.messages.k67_allocate_producer_ids",
    "moldau.wire.messages.k73_assign_replicas_to_dirs",
)
"""What a node uses that no start waits for, beside handlers."""


def handlers_to_import() -> list[Callable[[], object]]:
    """Each imports what answers one request; for a thread, since a module that is not in memory may take its time."""
    keys = ON_BROKER.keys() | ON_CONTROLLER.keys() | ON_ZOOKEEPER.keys()
    return [*(partial(import_module, name) for name in LATER), *(partial(module_of, key) for key in sorted(keys))]
