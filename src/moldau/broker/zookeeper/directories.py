"""A log directory that fails in ZooKeeper mode (KIP-112): who notices leaves a note, and its replicas go offline.

The broker writes /log_dir_event_notification/log_dir_event_N. The controller tells that broker its roles again, and its
answer says which replicas it cannot have; so says its answer to any controller that becomes active, and nothing about
it needs to stand in ZooKeeper. A controller asks its own disks. What becomes of the partitions is the controller's
decision, as in KRaft mode (KIP-858): such a replica is in directory LOST. While a cluster migrates the quorum's
controller reads the notes (``migration/mode.py``). Source: KIP-112; Kafka 3.9's znodes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from moldau.broker.host import Host
from moldau.broker.node_parts import WithController, WithReplicas
from moldau.broker.zookeeper.parts import PlaneParts, Roles
from moldau.controller import requests
from moldau.image.partition import LOST, UNASSIGNED, Key
from moldau.model import Code
from moldau.model.protocol import Protocol
from moldau.ports.zookeeper import NoAuth, SessionExpired, Watch, ZooKeeper, ZooKeeperError
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from moldau.zookeeper import paths
from moldau.zookeeper.notes import LogDirEvent, log_dir_event_json, parse_log_dir_event
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.survey import get_each

log = logging.getLogger(__name__)

AT_ONCE = 100
"""Replicas in one request: no step of the loop holds more."""


def partition_codes(request: LeaderAndIsrRequest, answer: LeaderAndIsrResponse) -> dict[Key, Code]:
    """What a broker answered about each partition."""
    ids = {topic.topic_name: bytes(topic.topic_id) for topic in request.topic_states}
    found = {(ids[one.topic_name], one.partition_index): Code(one.error_code) for one in answer.partition_errors}
    for topic in answer.topics:
        for one in topic.partition_errors:
            found[bytes(topic.topic_id), one.partition_index] = Code(one.error_code)
    return found


async def tell(plane: PlaneParts, broker_id: int) -> None:
    """A directory of this broker's has failed. When the session ends meanwhile, whoever hears of the next one is told
    by the answer to its roles."""
    note = log_dir_event_json(LogDirEvent(broker_id))
    try:
        await plane.retry_until_connected(lambda: plane.zk.create(paths.NEW_LOG_DIR_EVENT, note, sequential=True))
    except SessionExpired:
        log.info("a failed directory is told of in the next session")
    except ZooKeeperError as error:
        log.error("nobody can be told of a failed directory: %s", error)


class DirectoriesHost(Host, WithController, WithReplicas, Protocol):
    """A controller that reads the notes of failed directories; it may be a broker as well."""


class Directories:
    """Notes of failed log directories, as the controller takes them, in either mode. ``remove`` removes a note, as the
    controller that we think we are."""

    def __init__(
        self, node: DirectoriesHost, zk: ZooKeeper, channels: Roles, remove: Callable[[str], Awaitable[object]]
    ) -> None:
        self._node = node
        self._zk = zk
        self._channels = channels
        self._remove = remove
        channels.on_roles_answered.append(self._note)

    async def take_notes(self, watch: Watch | None = None) -> None:
        """Have whoever left a note say what it cannot have, and take the notes away."""
        names = await self._zk.children(paths.LOG_DIR_EVENTS, watch)
        notes = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
        brokers: dict[int, None] = {}
        for path, found in zip(notes, await get_each(self._zk, notes), strict=True):
            try:
                if isinstance(found, NoAuth):
                    raise BadZnode(path, str(found))
                if found is not None:
                    brokers[parse_log_dir_event(path, found[0]).broker_id] = None
            except BadZnode as error:
                log.warning("a note is not understood: %s", error)
        for id in brokers:
            log.info("broker %d has lost a log directory", id)
            self._channels.send_roles_again(id)
        for path in notes:
            await self._remove(path)

    def own(self) -> None:
        """The controller is told nothing: it looks at its own replicas."""
        node = self._node
        known = node.metadata.image.brokers.get(node.config.node_id)
        if known is not None and not known.fenced:
            self._note(known.id, known.epoch, dict.fromkeys(node.replicas.offline_keys(), Code.KAFKA_STORAGE_ERROR))

    def _note(self, broker_id: int, broker_epoch: int, codes: Mapping[Key, Code]) -> None:
        """A broker's answer to its roles: which replicas it cannot have, and which it has again."""
        image = self._node.metadata.image
        lost, found = [], []
        for key, code in codes.items():
            partition = image.partition(*key)
            if partition is None or broker_id not in partition.replicas:
                continue
            was_lost = partition.directory(broker_id) == LOST
            if code is Code.KAFKA_STORAGE_ERROR and not was_lost:
                lost.append(key)
            elif code is Code.NONE and was_lost:
                found.append(key)
        if lost:
            log.warning("broker %d has %d replica(s) in log directories that failed", broker_id, len(lost))
        self._assign(broker_id, broker_epoch, LOST, lost)
        self._assign(broker_id, broker_epoch, UNASSIGNED, found)

    def _assign(self, broker_id: int, broker_epoch: int, directory: bytes, keys: Iterable[Key]) -> None:
        left = sorted(keys)
        for at in range(0, len(left), AT_ONCE):
            some = {directory: tuple(left[at : at + AT_ONCE])}
            self._node.controller.submit_nowait(
                requests.AssignReplicasToDirs(broker_id=broker_id, broker_epoch=broker_epoch, directories=some)
            )
