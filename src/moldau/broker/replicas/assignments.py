"""Telling the controller in which log directory each replica lies: AssignReplicasToDirs, many replicas in one
(KIP-858).

A broker with several directories chooses where a new replica goes, and the controller must know, so that a directory
that fails takes its own leaders down and no others. Told whenever the image says otherwise; asked again until it does.
Decides how often. What it means is ``moldau.controller.reassignment``'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.broker.replicas.replica import Key, Replica
from moldau.image import Image
from moldau.image.partition import LOST, Partition
from moldau.model import Code
from moldau.model.backoff import longer_ms

if TYPE_CHECKING:
    from moldau.wire.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest

log = logging.getLogger(__name__)

AT_ONCE_MAX = 2_250
"""Replicas in one request, as KIP-858 bounds it."""
RETRY_MS = 20
RETRY_MAX_MS = 5_000


class AssignmentsManager:
    """What the controller does not know yet: replica -> directory."""

    def __init__(self, deps: ReplicaManagerDeps) -> None:
        self._deps = deps
        self._untold: dict[Key, bytes] = {}
        self._talking = False
        self._closed = False

    def __len__(self) -> int:
        """How many replicas the controller has yet to be told of."""
        return len(self._untold)

    def compare(self, key: Key, known: bytes, real: bytes) -> None:
        """The image has a replica in directory ``known``, and it lies in ``real``."""
        if known == real:
            self._untold.pop(key, None)
            return
        if self._untold.get(key) == real:
            return
        self._untold[key] = real
        if not self._talking and not self._closed:
            self._talking = True
            self._deps.world.tasks.spawn(self._talk(), "replica directories")

    def place(self, assigned: Partition, image: Image, replica: Replica | None, *, waits: bool) -> None:
        """Have the controller know in which directory a replica of this broker lies; a log that cannot be had is in
        none (KIP-858). ``waits``: it could not be had, and is tried again: until it is there nothing new is told, or
        each try would be told, and each word of it would be a reason to try again."""
        me = self._deps.me
        registered = image.brokers.get(me)
        if registered is None or not registered.log_dirs:
            return
        known = assigned.directory(me)
        if replica is None:
            if registered.has_online_dir(known):
                self.compare(assigned.key, known, LOST)
        elif not waits:
            self.compare(assigned.key, known, replica.log.dir.id)

    def forget(self, key: Key) -> None:
        """The replica is gone from here."""
        self._untold.pop(key, None)

    def close(self) -> None:
        self._closed = True
        self._untold.clear()

    async def _talk(self) -> None:
        wait_ms = 0
        while self._untold and not self._closed:
            if wait_ms:
                await self._pause(wait_ms)
            told = dict(list(self._untold.items())[:AT_ONCE_MAX])
            wait_ms = 0 if await self._tell(told) else longer_ms(wait_ms, RETRY_MS, RETRY_MAX_MS)
        self._talking = False

    async def _pause(self, wait_ms: int) -> None:
        over = asyncio.Event()
        self._deps.world.tasks.call_later(wait_ms, over.set)
        await over.wait()

    async def _tell(self, told: dict[Key, bytes]) -> bool:
        """One request; whether it was answered. What is refused is gone from the cluster, or from here."""
        try:
            answer = await self._deps.send_to_controller(self._request(told.items()))
        except OSError as error:
            log.debug("the controller is not told of directories: %s", error)
            return False
        if answer.error_code != Code.NONE:
            log.debug("the controller is not told of directories: %s", Code(answer.error_code).name)
            return False
        for key, directory in told.items():
            if self._untold.get(key) == directory:
                del self._untold[key]
        return True

    def _request(self, told: Iterable[tuple[Key, bytes]]) -> AssignReplicasToDirsRequest:
        from moldau.wire.messages.k73_assign_replicas_to_dirs import (
            AssignReplicasToDirsRequest,  # here: a start sends none
        )

        kind = AssignReplicasToDirsRequest
        places: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, number), directory in told:
            places.setdefault(directory, {}).setdefault(topic_id, []).append(number)
        return kind(
            broker_id=self._deps.me,
            broker_epoch=self._deps.broker_epoch(),
            directories=[
                kind.DirectoryData(
                    id=directory,
                    topics=[
                        kind.TopicData(
                            topic_id=topic_id, partitions=[kind.PartitionData(partition_index=n) for n in numbers]
                        )
                        for topic_id, numbers in topics.items()
                    ],
                )
                for directory, topics in places.items()
            ],
        )
