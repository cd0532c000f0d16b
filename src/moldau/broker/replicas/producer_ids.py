"""Producer ids, handed out of blocks that the controller allots to this broker (KIP-730).

Decides when the next block is asked for: before the present one runs out, so that producers do not wait. Ids of a block
that was not used up are lost with the process; they are never given twice.
"""

from __future__ import annotations

import asyncio
import logging

from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.model import Code

log = logging.getLogger(__name__)

RETRY_MS = 50
ID_MAX = (1 << 63) - 1
AHEAD = 100
"""Ids left when the next block is asked for."""


class ProducerIds:
    """This broker's blocks: the one in use and the next."""

    def __init__(self, deps: ReplicaManagerDeps) -> None:
        self._deps = deps
        self._next = 0
        self._end = 0
        self._spare: tuple[int, int] | None = None
        self._asking = False
        self._waiting: list[asyncio.Future[int]] = []

    def take(self) -> int | asyncio.Future[int]:
        """An id that no producer has had, at once or when the controller has allotted some."""
        if self._next == self._end and self._spare is not None:
            (self._next, self._end), self._spare = self._spare, None
        if self._end - self._next <= AHEAD and self._spare is None and not self._asking:
            self._asking = True
            self._deps.world.tasks.spawn(self._allocate(), "producer-ids")
        if self._next < self._end:
            self._next += 1
            return self._next - 1
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    async def _allocate(self) -> None:
        """Ask until a block is allotted. Who waits for an id waits at most as long as its client does."""
        from moldau.wire.messages.k67_allocate_producer_ids import (
            AllocateProducerIdsRequest,  # here: a start sends none
        )

        while True:
            request = AllocateProducerIdsRequest(broker_id=self._deps.me, broker_epoch=self._deps.broker_epoch())
            try:
                answer = await self._deps.send_to_controller(request)
                start, count = answer.producer_id_start, answer.producer_id_len
                if answer.error_code == Code.NONE and start >= 0 and 0 < count <= ID_MAX - start:
                    break
                log.info("no producer ids yet: %s, %d from %d", Code(answer.error_code).name, count, start)
            except OSError as error:
                log.info("no producer ids yet: %s", error)
            pause = asyncio.Event()
            self._deps.world.tasks.call_later(RETRY_MS, pause.set)
            await pause.wait()
        self._asking = False
        self._spare = (start, start + count)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if one.done():
                continue
            id = self.take()
            if isinstance(id, int):
                one.set_result(id)
            else:
                self._waiting[-1] = one  # a block smaller than the queue: wait for the next
