"""Asking the active controller, wherever it is: in this process, or behind a connection.

Requests that change the cluster arrive at any broker and are passed on as they are (KIP-590; one class holds all
versions, so nothing is translated). Retries while there is no controller, or it moved, until the request's time is up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from moldau.broker.api import CONTROLLER, handler
from moldau.ports.rare import UNREACHED_CONTROLLER
from moldau.terms import Code
from moldau.wire.schema import Message

T = TypeVar("T")

RETRY_MS = 20
RETRY_MAX_MS = 500


class LocalContext:
    """The context of a request that did not come over a connection."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "kind", "listener")
    peer_host = "local"

    def __init__(self, message: Message) -> None:
        self.api_key = message.api_key
        self.api_version = message.versions[1]
        self.client_id: str | None = None
        self.connection: Any = None
        self.correlation_id = 0
        self.kind = CONTROLLER
        self.listener = "local"


class Asking:
    """The way to the controller."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._retrying: dict[int, Callable[[], object]] = {}

    def controller_changed(self) -> None:
        """Whoever waits to ask again asks now."""
        for ask_again in self._retrying.values():
            ask_again()

    async def once(self, message: Message, timeout_ms: int | None = None) -> Any:
        """Ask whoever is the active controller now; ConnectionError when none is known or it cannot be reached."""
        node = self._node
        leader, _ = node.plane.leader
        if leader is None:
            raise ConnectionError("no active controller is known")
        if (rare := node.world.rare) is not None and rare(UNREACHED_CONTROLLER):
            raise ConnectionError("the controller is not reached")
        if leader == node.config.node_id and node.office is not None:
            answer = handler(message.api_key, CONTROLLER)(node, message, LocalContext(message))
            return await answer if inspect.isawaitable(answer) else answer
        address = node.voters().get(leader)
        if address is None:
            raise ConnectionError(f"controller {leader} has no known address")
        return await node.peers.ask(*address, message, timeout_ms)

    async def patiently(self, message: Message, timeout_ms: int = 30_000) -> Any:
        """Ask until an active controller answers or time is up; then the last answer, or ConnectionError."""
        node, clock = self._node, self._node.world.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        wait_ms: float = RETRY_MS
        while True:
            answer, error = None, None
            try:
                answer = await self.once(message, max(deadline_ms - clock.monotonic_ms(), 1))
                if not is_elsewhere(answer):
                    return answer
            except OSError as failure:
                error = failure
            if clock.monotonic_ms() + wait_ms > deadline_ms:
                if answer is not None:
                    return answer
                raise error or ConnectionError("no active controller answered in time")
            known = node.plane.leader
            await self._wait(wait_ms)
            wait_ms = min(wait_ms * 2, RETRY_MAX_MS) if node.plane.leader == known else RETRY_MS

    async def _wait(self, wait_ms: float) -> None:
        """As long, or until there is another controller."""
        import asyncio

        over = asyncio.Event()
        timer = self._node.world.tasks.call_later(wait_ms, over.set)
        self._retrying[id(over)] = over.set
        try:
            await over.wait()
        finally:
            timer.cancel()
            del self._retrying[id(over)]


async def pause(tasks: Any, wait_ms: float) -> None:
    """Wait on the node's own clock."""
    import asyncio

    waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = tasks.call_later(wait_ms, lambda: None if waited.done() else waited.set_result(None))
    try:
        await waited
    finally:
        timer.cancel()


async def turn(tasks: Any) -> None:
    """Let the loop turn once, for everybody else."""
    import asyncio

    turned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tasks.call_soon(lambda: None if turned.done() else turned.set_result(None))
    await turned


async def in_turns(tasks: Any, work: Generator[None, None, T]) -> T:
    """What ``work`` returns; the loop turns where it pauses."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        await turn(tasks)


def is_elsewhere(answer: Any) -> bool:
    """Whether an answer says NOT_CONTROLLER, at its top or in its items; or that a voter change came to no leader."""
    if getattr(answer, "error_code", None) in (Code.NOT_CONTROLLER, Code.NOT_LEADER_OR_FOLLOWER):
        return True
    for field in answer.fields:
        items = getattr(answer, field.name)
        if isinstance(items, list) and items and getattr(items[0], "error_code", None) == Code.NOT_CONTROLLER:
            return True
    return False
