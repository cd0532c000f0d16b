"""A client of a cluster: one connection per broker, a view of the metadata, requests sent to whoever must answer them.

Decides where a request goes (any broker, one node, the controller, a coordinator, partition leaders), when the view is
asked for again, and when a refusal or a lost connection is worth another try: retriable codes and OSErrors, with
growing pauses, until the api timeout. A refusal that stands is returned in the response, as the broker gave it.
Written once for both ways of waiting (lines.py). Sources: KIP-580 (backoff), KIP-320, KIP-516.
Read next: reading.py, groups.py, admin.py, producer.py, consumer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any, TypeVar

from moldau.client.lines import Line, Lines
from moldau.client.view import Broker, View
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.model.value import value
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.schema import Message

R = TypeVar("R")


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Node(NamedTuple):
    """A request for one broker and no other."""

    node_id: int


class Coordinator(NamedTuple):
    """A request for whoever coordinates a group or a transactional id."""

    kind: CoordinatorKind
    key: str


class Anyone(NamedTuple):
    """A request that any broker answers."""


class Controller(NamedTuple):
    """A request for the controller; a KRaft broker forwards it."""


ANYONE, CONTROLLER = Anyone(), Controller()
CONTROLLERS = 2
"""DescribeCluster's type of endpoint for what controllers listen at."""
Target = Node | Coordinator | Anyone | Controller


MOVED = frozenset(
    {
        Code.NOT_CONTROLLER,
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.CONCURRENT_TRANSACTIONS,
    }
)
"""Nothing was done, and another node, or the same a moment later, will do it.

Other retriable codes may be about one thing of many in a request, of which the rest has been done: not to be repeated.
"""


class Unreachable(ConnectionError):
    """Nobody answered in time; the text says who was tried and what came of it."""


class Refused(Exception):
    """A refusal where no response can carry it: no coordinator was named, or a blocking call has no value to return."""

    def __init__(self, code: Code, what: str, message: str | None = None) -> None:
        """``message``: the words of who refused."""
        super().__init__(f"{what}: {code.name}")
        self.code = code
        self.message = message


@value(kw_only=True)
class ClientOptions:
    """How long to try. Times in ms."""

    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    unknown_topic_grace_ms: int = 1_500
    """How long a topic may be unknown before we believe it: one made a moment ago has not reached every broker."""
    controllers: bool = False
    """The addresses are those of controllers, and only controllers are asked (KIP-919)."""


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """``host:port,[::1]:port`` as pairs; ValueError names what is not one."""
    found = []
    for one in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = one.rpartition(":")
        if not colon or not port.isdecimal() or not host or "/" in host or len(port) > 5 or int(port) > 65535:
            raise ValueError(f"{one!r} is not an address: host:port is expected")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not found:
        raise ValueError("no bootstrap address is given")
    return found


def top_codes(response: Any) -> Iterable[int]:
    """The error code at the top of a response."""
    return (response.error_code,)


class _Patience:
    """How often to try again: pauses double up to a bound, with a fifth of chance, until time is up (KIP-580)."""

    def __init__(self, lines: Lines, options: ClientOptions, timeout_ms: int | None) -> None:
        self._lines = lines
        self._options = options
        self._tries = 0
        self._start_ms = lines.now_ms()
        self.deadline_ms = lines.now_ms() + (options.api_timeout_ms if timeout_ms is None else timeout_ms)

    @property
    def has_seen_enough(self) -> bool:
        """Whether a topic that is not there may be believed not to exist."""
        return self._lines.now_ms() - self._start_ms >= self._options.unknown_topic_grace_ms

    async def wait(self, least_ms: int = 0) -> bool:
        """Pause, for ``least_ms`` at least; False when there is no time for another try."""
        options = self._options
        pause = min(options.retry_backoff_max_ms, options.retry_backoff_ms << min(self._tries, 20))
        pause = max(least_ms, pause * (80 + self._lines.below(41)) // 100)
        self._tries += 1
        if self._lines.now_ms() + pause >= self.deadline_ms:
            return False
        await self._lines.pause(pause)
        return True


class Client:
    """Asks a cluster. Owns its connections; ``close`` ends them."""

    def __init__(self, lines: Lines, bootstrap: str, options: ClientOptions | None = None) -> None:
        self.lines = lines
        self.options = options if options is not None else ClientOptions()
        self.view = View()
        self._bootstrap = addresses(bootstrap)
        self.answered: tuple[str, int] | None = None
        """A server that has just answered somebody: asked before others, which may take connections and say nothing."""
        self._open: dict[tuple[str, int, str], Line] = {}
        self._coordinators: dict[Coordinator, int] = {}
        self._learnt_ms: dict[str, int] = {}

    def close(self) -> None:
        """End all connections; the client may be used again, it opens new ones."""
        lines, self._open = self._open, {}
        for line in lines.values():
            line.close()

    # -- connections

    async def line(self, node_id: int, purpose: str = "") -> Line:
        """A connection to a broker of the view; Unreachable when the view does not know it, OSError when it is down.

        Requests that the broker answers late (a long poll, a join) hold up what is behind them on their connection, so
        each ``purpose`` has a connection of its own.
        """
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise Unreachable(f"broker {node_id} is not known")
        return await self._line_to((broker.host, broker.port), purpose)

    async def any_line(self) -> Line:
        """A connection to any broker: an open one, a known one, or a bootstrap address; Unreachable without one."""
        for (_, _, purpose), line in self._open.items():
            if not purpose and not line.closed:
                return line
        known = [(b.host, b.port) for b in self.view.brokers.values()]
        first = [self.answered] if self.answered is not None and not known else []
        places = list(dict.fromkeys(first + self._shuffled(known) + self._shuffled(self._bootstrap)))
        problems = []
        for host, port in places:
            try:
                return await self._line_to((host, port))
            except OSError as error:
                problems.append(f"{host}:{port}: {error or type(error).__name__}")
        raise Unreachable("no broker can be reached (" + "; ".join(problems) + ")")

    async def _line_to(self, place: tuple[str, int], purpose: str = "") -> Line:
        name = (*place, purpose)
        line = self._open.get(name)
        if line is None or line.closed:
            line = await self.lines.connect(*place)
            other = self._open.get(name)
            if other is not None and not other.closed:  # another caller was faster
                line.close()
                return other
            self._open[name] = line
        return line

    def _shuffled(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        rest, out = list(places), []
        while rest:
            out.append(rest.pop(self.lines.below(len(rest))))
        return out

    async def _line_for(self, target: Target) -> Line:
        if isinstance(target, Node):
            if target.node_id not in self.view.brokers:
                await self.refresh([])
            return await self.line(target.node_id)
        if isinstance(target, Coordinator):
            return await self.line(await self._coordinator(target), "group")
        if isinstance(target, Controller) or self.options.controllers:  # other controllers would refuse most requests
            if self.view.controller_id is None:
                await self.refresh([])
            if self.view.controller_id is not None:
                return await self.line(self.view.controller_id)
            if self.options.controllers:
                raise Unreachable("no controller leads the quorum")
        return await self.any_line()

    def coordinator(self, target: Coordinator) -> Broker | None:
        """The broker that was last found to coordinate ``target``, None when nobody was."""
        return self.view.brokers.get(self._coordinators.get(target, -1))

    async def _coordinator(self, target: Coordinator) -> int:
        node_id = self._coordinators.get(target)
        if node_id is not None and node_id in self.view.brokers:
            return node_id
        request = FindCoordinatorRequest(key=target.key, key_type=target.kind, coordinator_keys=[target.key])
        response = await (await self.any_line()).ask(request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code != Code.NONE:
            raise Refused(Code(found.error_code), f"no coordinator for {target.key!r}")
        if found.node_id not in self.view.brokers:
            await self.refresh([])
        self._coordinators[target] = found.node_id
        return int(found.node_id)

    # -- metadata

    async def refresh(self, topics: Collection[str] | None) -> Mapping[str, Code]:
        """Ask for metadata once: the named topics, all (None), or only the brokers (empty). Codes of refused topics."""
        if self.options.controllers:
            await self._refresh_controllers()
            return {}
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        response = await (await self.any_line()).ask(request)
        troubles = self.view.learn(response, topics is None)
        now_ms = self.lines.now_ms()
        for name in self.view.topics if topics is None else topics:
            self._learnt_ms[name] = now_ms
        return troubles

    async def _refresh_controllers(self) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)
        line = await self.any_line()
        if line.version_for(DescribeClusterRequest) < 1:  # older servers do not read the type, and answer with brokers
            raise Refused(Code.UNSUPPORTED_VERSION, "controllers")
        response: DescribeClusterResponse = await line.ask(request)
        if response.error_code != Code.NONE:
            raise Refused(Code(response.error_code), "controllers", response.error_message)
        if response.endpoint_type != CONTROLLERS:
            raise Refused(Code.MISMATCHED_ENDPOINT_TYPE, "controllers")
        self.view.learn_controllers(response)

    async def know(
        self, topics: Collection[str] | None, *, grace: bool = False, timeout_ms: int | None = None
    ) -> Mapping[str, Code]:
        """Ask for metadata until it is had: like ``refresh``, over broken connections and elections of a moment.

        Topics that do not exist are in the codes, not waited for; with ``grace`` they are, for as long as it takes a
        new topic to reach every broker.
        """
        patience = self.patience(timeout_ms)
        while True:
            try:
                troubles = await self.refresh(topics)
            except OSError:
                if not await patience.wait():
                    raise
                continue
            codes = set(troubles.values())
            young = grace and Code.UNKNOWN_TOPIC_OR_PARTITION in codes and not patience.has_seen_enough
            if not (young or Code.LEADER_NOT_AVAILABLE in codes) or not await patience.wait():
                return troubles

    async def know_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Refresh the topics of partitions whose leader is unknown, or known too long."""
        now_ms, oldest_ms = self.lines.now_ms(), self.options.metadata_max_age_ms
        stale = {
            p.topic
            for p in partitions
            if self.view.leader(p) is None or now_ms - self._learnt_ms.get(p.topic, -oldest_ms) >= oldest_ms
        }
        if stale:
            await self.refresh(sorted(stale))

    # -- asking

    def patience(self, timeout_ms: int | None = None) -> _Patience:
        """A fresh measure of time for one operation."""
        return _Patience(self.lines, self.options, timeout_ms)

    async def ask(
        self,
        message: Message,
        to: Target = ANYONE,
        *,
        codes: Callable[[Any], Iterable[int]] = top_codes,
        again: frozenset[Code] = MOVED,
        highest: int | None = None,
        timeout_ms: int | None = None,
        request_timeout_ms: int | None = None,
    ) -> Any:
        """The response of whoever ``to`` names.

        Tried again while any of ``codes(response)`` is one of ``again`` or the connection fails; when time is up the
        last response is returned with its codes, or Unreachable raised. ``highest`` bounds the version,
        ``request_timeout_ms`` each try and ``timeout_ms`` the whole.
        """
        patience = self.patience(timeout_ms)
        while True:
            response: Any = None
            problem: Exception | None = None
            try:
                line = await self._line_for(to)
                version = line.version_for(type(message), highest)
                response = await line.ask(message, version=version, timeout_ms=request_timeout_ms)
            except (OSError, Refused) as error:
                if isinstance(error, Refused) and not error.code.retriable:
                    raise
                problem = error
            if problem is None and again.isdisjoint(codes(response)):
                return response
            if not await patience.wait():
                if problem is None:
                    return response
                if isinstance(problem, Refused):
                    raise problem
                raise Unreachable(f"{type(message).__name__}: {problem or type(problem).__name__}") from problem
            await self._look_again(to)

    async def _look_again(self, to: Target) -> None:
        """What was believed about ``to`` did not hold."""
        if isinstance(to, Coordinator):
            self._coordinators.pop(to, None)
        with suppress(OSError):  # the next try says so itself
            await self.refresh([])

    async def per_leader(
        self,
        partitions: Collection[TopicPartition],
        build: Callable[[list[TopicPartition]], Message],
        read: Callable[[Any], Mapping[TopicPartition, tuple[int, R]]],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, tuple[Code, R | None]]:
        """Ask the leader of each partition, one request per leader, until each partition has an answer that stands.

        ``build`` makes the request for a leader's partitions, ``read`` takes (error code, answer) per partition from a
        response. In the result an answer is None where nobody could be asked in time (LEADER_NOT_AVAILABLE, or
        NETWORK_EXCEPTION when the leader was lost).
        """
        done: dict[TopicPartition, tuple[Code, R | None]] = {}
        left = set(partitions)
        patience = self.patience(timeout_ms)
        while left:
            for partition, (number, answer) in (await self._round(left, build, read, highest)).items():
                code = Code(number)
                done[partition] = (code, answer)
                if not code.retriable:
                    left.discard(partition)
            if not left or not await patience.wait():
                break
            try:
                troubles = await self.refresh(sorted({p.topic for p in left}))
            except OSError:
                continue
            if patience.has_seen_enough:
                missing = {p for p in left if troubles.get(p.topic) is Code.UNKNOWN_TOPIC_OR_PARTITION}
                done |= dict.fromkeys(missing, (Code.UNKNOWN_TOPIC_OR_PARTITION, None))
                left -= missing
        return done

    async def _round(
        self,
        partitions: Collection[TopicPartition],
        build: Callable[[list[TopicPartition]], Message],
        read: Callable[[Any], Mapping[TopicPartition, tuple[int, R]]],
        highest: int | None,
    ) -> dict[TopicPartition, tuple[int, R | None]]:
        """One try: all leaders are asked before the first answer is awaited."""
        answers: dict[TopicPartition, tuple[int, R | None]] = {}
        try:
            await self.know_leaders(partitions)
        except OSError:
            return dict.fromkeys(partitions, (Code.NETWORK_EXCEPTION, None))
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            leader = self.view.leader(partition)
            if leader is None:
                answers[partition] = (Code.LEADER_NOT_AVAILABLE, None)
            else:
                by_leader.setdefault(leader, []).append(partition)
        asked = []
        for leader, theirs in by_leader.items():
            answers |= dict.fromkeys(theirs, (Code.NETWORK_EXCEPTION, None))
            try:
                line = await self.line(leader)
            except OSError:
                continue
            request = build(theirs)
            asked.append(line.ask(request, version=line.version_for(type(request), highest)))
        for answer in asked:
            try:
                answers |= read(await answer)
            except OSError:
                continue
        return answers
