"""Sends requests to the active controller, wherever it is: in this process, or behind a connection.

Requests that change the cluster arrive at any broker and are passed on as they are (KIP-590; one class holds all
versions, so nothing is translated). Retries while there is no controller, or it moved, until the request's time is up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, cast

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.network.peers import PassedOn, Peers
from moldau.broker.network.requests import CONTROLLER, Outcome
from moldau.broker.rate_limited_log import RateLimitedLog
from moldau.client.lines import RequestTimedOut
from moldau.model import Code
from moldau.model.backoff import longer_ms
from moldau.model.protocol import Protocol
from moldau.ports import World
from moldau.ports.buggify import UNREACHED_CONTROLLER
from moldau.wire.schema import Message, Request, ResponseT

if TYPE_CHECKING:
    import asyncio

RETRY_MS = 20
RETRY_MAX_MS = 500
WIRE_MS = 30_000
"""Whoever waits longer than this for what is passed on has the connection wait as long. Whoever gives up sooner leaves
it alone: many share it, and it waits for ``request.timeout.ms``."""
UNANSWERED_MAX = 1_000
"""Requests passed on that the controller has not answered. More are refused: each takes memory until it is."""


class LocalContext:
    """The context of a request that did not come over a connection."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "kind", "listener")
    peer_host = "local"

    def __init__(self, message: Message, client: PassedOn | None = None) -> None:
        self.api_key = message.api_key
        self.api_version = message.versions[1] if client is None else client.highest
        self.client_id = None if client is None else client.client_id
        self.connection: None = None
        self.correlation_id = 0
        self.kind = CONTROLLER
        self.listener = "local"


class LeaderOfPlane(Protocol):
    """Where the active controller is, as the node's control plane knows it."""

    @property
    def leader(self) -> tuple[int | None, int]: ...

    @property
    def why_no_controller(self) -> str: ...

    def voters(self) -> Mapping[int, tuple[str, int]]: ...


class ChannelNode(Protocol):
    """The node that the channel is of; its plane is there before anything is sent."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def world(self) -> World: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def plane(self) -> LeaderOfPlane: ...

    def handler_failed(self, header: LocalContext, error: BaseException) -> None: ...


Local = Callable[[Message, LocalContext], Outcome]
"""Answers a request as the controller in this process."""


class NodeToControllerChannel:
    """What a node sends to the active controller goes through here (Kafka: NodeToControllerChannelManager). ``local``
    answers where the controller is this node, None where it never is."""

    def __init__(self, node: ChannelNode, local: Local | None = None) -> None:
        self._node = node
        self._local = local
        self._retrying: dict[int, Callable[[], object]] = {}
        self._unanswered = 0
        self._given_up: dict[Hashable, asyncio.Future[Any]] = {}  # Any: responses of any class, not looked at
        """What a client asked last and no longer waits for."""
        self.unheard = RateLimitedLog(node.world.clock)
        """For the line that no controller answered."""

    def controller_changed(self) -> None:
        """Whoever waits to send again sends now."""
        for send_again in self._retrying.values():
            send_again()

    async def send(self, message: Request[ResponseT], timeout_ms: int | None = None) -> ResponseT:
        """The answer of whoever is the active controller now; ConnectionError when none is known or it is not reached.

        A connection on which no answer came within ``timeout_ms`` is closed.
        """
        return await self._send(message, timeout_ms)

    async def _send(
        self,
        message: Request[ResponseT],
        timeout_ms: int | None,
        client: PassedOn | None = None,
        *,
        passed_on: bool = False,
    ) -> ResponseT:
        node = self._node
        leader, _ = node.plane.leader
        if leader is None:
            raise ConnectionError(node.plane.why_no_controller or "no active controller is known")
        if (buggify := node.world.buggify) is not None and buggify(UNREACHED_CONTROLLER):
            raise ConnectionError("the controller is not reached")
        if leader == node.config.node_id and self._local is not None:
            answer = self._local(message, LocalContext(message, client))
            return cast("ResponseT", await answer if inspect.isawaitable(answer) else answer)
        address = node.plane.voters().get(leader)
        if address is None:
            raise ConnectionError(node.plane.why_no_controller or f"controller {leader} has no known address")
        if passed_on:
            return await node.peers.pass_on(*address, message, timeout_ms, who=client)
        return await node.peers.ask(*address, message, timeout_ms)

    async def send_with_retry(
        self,
        message: Request[ResponseT],
        timeout_ms: int = 30_000,
        who: Hashable = None,
        client: PassedOn | None = None,
    ) -> ResponseT:
        """The answer of an active controller, asked again and again until time is up; then the last answer, or
        ConnectionError. ``who`` is the client's connection; ``client`` is given where it matters to the controller who
        asks."""
        node, clock = self._node, self._node.world.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        wait_ms: float = RETRY_MS
        while True:
            answer: ResponseT | None = None
            error: OSError | None = None
            try:
                answer = await self._send_within(message, max(deadline_ms - clock.monotonic_ms(), 1), who, client)
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
            wait_ms = longer_ms(wait_ms, RETRY_MS, RETRY_MAX_MS) if node.plane.leader == known else RETRY_MS

    async def _send_within(
        self, message: Request[ResponseT], wait_ms: int, who: Hashable, client: PassedOn | None
    ) -> ResponseT:
        """The answer, if it comes in time. What was asked is never called off: it may be half decided, and the
        connection it went over is not ours alone. So who gave up once waits for that answer before it is passed on
        again: the impatient would have more requests at the controller than the patient."""
        import asyncio

        earlier = self._given_up.get(who)
        if earlier is not None:
            began_ms = self._node.world.clock.monotonic_ms()
            if not await self._in_time(earlier, wait_ms):
                raise RequestTimedOut("the controller has not answered what the client asked before")
            wait_ms = max(wait_ms - (self._node.world.clock.monotonic_ms() - began_ms), 1)
        if self._unanswered >= UNANSWERED_MAX:
            raise ConnectionError(f"{self._unanswered} requests wait for the controller's answer already")
        self._unanswered += 1
        wire_ms = wait_ms if wait_ms > WIRE_MS else None
        asked = asyncio.ensure_future(self._send(message, wire_ms, client, passed_on=True))
        waiting = True

        def answered(_: object) -> None:
            self._unanswered -= 1
            if self._given_up.get(who) is asked:
                del self._given_up[who]
            error = None if waiting or asked.cancelled() else asked.exception()
            if error is not None and not isinstance(error, OSError):
                self._node.handler_failed(LocalContext(message), error)  # nobody else would hear of it

        asked.add_done_callback(answered)
        try:
            if await self._in_time(asked, wait_ms):
                return asked.result()
        finally:
            waiting = False
            if not asked.done() and who is not None:
                self._given_up[who] = asked
        raise RequestTimedOut(f"the controller did not answer within {wait_ms} ms")

    async def _in_time(self, asked: asyncio.Future[ResponseT], wait_ms: int) -> bool:
        """Whether it is done within that time; it goes on in any case."""
        import asyncio

        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: object = None) -> None:
            if not over.done():
                over.set_result(None)

        timer = self._node.world.tasks.call_later(wait_ms, end)
        asked.add_done_callback(end)
        try:
            await over
        finally:
            timer.cancel()
            asked.remove_done_callback(end)
        return asked.done()

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


def is_elsewhere(answer: Message) -> bool:
    """Whether an answer says NOT_CONTROLLER, at its top or in its items; or that a voter change came to no leader."""
    if getattr(answer, "error_code", None) in (Code.NOT_CONTROLLER, Code.NOT_LEADER_OR_FOLLOWER):
        return True
    for field in answer.fields:
        items = getattr(answer, field.name)
        if isinstance(items, list) and items and getattr(items[0], "error_code", None) == Code.NOT_CONTROLLER:
            return True
    return False
