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
from typing import Protocol, TypeVar, cast

from moldau.client.addresses import addresses
from moldau.client.lines import ConnectionOptions, Line, Lines, UnsupportedApi
from moldau.client.refusals import NoController as NoController
from moldau.client.refusals import Refused as Refused
from moldau.client.refusals import Unreachable as Unreachable
from moldau.client.view import Broker, View
from moldau.model import Code, TopicPartition
from moldau.model.backoff import backoff_ms
from moldau.model.named import NamedTuple
from moldau.model.value import value
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.wire.messages.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.schema import Message, Request, ResponseT

R = TypeVar("R")


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class ForNode(NamedTuple):
    """A request for one broker and no other."""

    node_id: int


class ForCoordinator(NamedTuple):
    """A request for whoever coordinates a group or a transactional id."""

    kind: CoordinatorKind
    key: str


class Anyone(NamedTuple):
    """A request that any broker answers."""


class ForController(NamedTuple):
    """A request for the controller; a KRaft broker forwards it."""


ANYONE, CONTROLLER = Anyone(), ForController()
CONTROLLERS = 2
"""DescribeCluster's type of endpoint for what controllers listen at."""
Target = ForNode | ForCoordinator | Anyone | ForController


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


_NONE_YET = MOVED | {Code.REQUEST_TIMED_OUT}
"""A broker that asked the controller for us has heard nothing: one may be elected a moment later."""
PATIENT_MS = 10_000
"""How long who only looks, or has not begun yet, waits for whoever alone can answer: an election may be under way."""
TRY_LEAST_MS = 3_000
"""A try takes as long before the next one, however little time there is: servers may be busy."""


@value(kw_only=True)
class ClientOptions:
    """How long to try. Times in ms."""

    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    unknown_topic_grace_ms: int = 1_500
    """How long a topic may be unknown before we believe it: one made a moment ago has not reached every broker."""
    controller_ms: int | None = None
    """How long a controller is waited for before the first request for it is sent, which may still be carried out when
    its answer is not waited for any more; None: as long as for the answer."""
    controllers: bool = False
    """The addresses are those of controllers, and only controllers are asked (KIP-919)."""


class _HasErrorCode(Protocol):
    error_code: int


def top_codes(response: Message) -> Iterable[int]:
    """The error code at the top of a response, which must have one there."""
    return (cast("_HasErrorCode", response).error_code,)


def try_ms_of(whole_ms: int, options: ConnectionOptions) -> int:
    """How long a server may take to answer what can be asked of another one, or of the same again, while there are
    ``whole_ms`` for all of it: one that takes connections and says nothing (its process is stopped, its disk hangs) is
    replaced as leader or coordinator meanwhile."""
    return min(options.request_timeout_ms, max(whole_ms // 3, TRY_LEAST_MS))


class _Patience:
    """How often to try again: pauses double up to a bound, with a fifth of chance, until time is up (KIP-580)."""

    def __init__(self, lines: Lines, options: ClientOptions, timeout_ms: int | None) -> None:
        self._lines = lines
        self._options = options
        self._tries = 0
        self._start_ms = lines.now_ms()
        self._whole_ms = options.api_timeout_ms if timeout_ms is None else timeout_ms
        self.deadline_ms = self._start_ms + self._whole_ms

    @property
    def try_ms(self) -> int:
        """How long one more try may take: what is left, and no more of the whole than leaves time for others."""
        left_ms = self.deadline_ms - self._lines.now_ms()
        return max(min(left_ms, try_ms_of(self._whole_ms, self._lines.options)), 1)

    @property
    def has_seen_enough(self) -> bool:
        """Whether a topic that is not there may be believed not to exist."""
        return self._lines.now_ms() - self._start_ms >= self._options.unknown_topic_grace_ms

    async def wait(self, least_ms: int = 0) -> bool:
        """Pause, for ``least_ms`` at least; False when there is no time for another try."""
        options = self._options
        pause = backoff_ms(self._tries, options.retry_backoff_ms, options.retry_backoff_max_ms)
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
        self.bootstrap = addresses(bootstrap)
        self.answered: tuple[str, int] | None = None
        """A server that has just answered somebody: asked before others, which may take connections and say nothing."""
        self._open: dict[tuple[str, int, str], Line] = {}
        self._coordinators: dict[ForCoordinator, int] = {}
        self._learnt_ms: dict[str, int] = {}
        self._controller_was_there = False

    def close(self) -> None:
        """End all connections; the client may be used again, it opens new ones."""
        lines, self._open = self._open, {}
        for line in lines.values():
            line.close()

    # -- connections

    @property
    def try_ms(self) -> int:
        """How long one try of a look-up may take."""
        return try_ms_of(self.options.api_timeout_ms, self.lines.options)

    async def line(self, node_id: int, purpose: str = "", limit_ms: int | None = None) -> Line:
        """A connection to a broker of the view; Unreachable when the view does not know it, OSError when it is down.

        Requests that the broker answers late (a long poll, a join) hold up what is behind them on their connection, so
        each ``purpose`` has a connection of its own. ``limit_ms`` is what connecting may take.
        """
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise Unreachable(f"broker {node_id} is not known")
        return await self._line_to((broker.host, broker.port), purpose, limit_ms)

    async def any_line(self) -> Line:
        """A connection to any broker: an open one, a known one, or a bootstrap address; Unreachable without one."""
        for (_, _, purpose), line in self._open.items():
            if not purpose and not line.closed:
                return line
        known = [(b.host, b.port) for b in self.view.brokers.values()]
        first = [self.answered] if self.answered is not None and not known else []
        places = list(dict.fromkeys(first + self._shuffled(known) + self._shuffled(self.bootstrap)))
        problems = []
        for host, port in places:
            try:
                return await self._line_to((host, port), limit_ms=self.try_ms)
            except OSError as error:
                problems.append(f"{host}:{port}: {error or type(error).__name__}")
        raise Unreachable("no broker can be reached (" + "; ".join(problems) + ")")

    async def _line_to(self, place: tuple[str, int], purpose: str = "", limit_ms: int | None = None) -> Line:
        name = (*place, purpose)
        line = self._open.get(name)
        if line is None or line.closed:
            line = await self.lines.connect(*place, limit_ms)
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

    async def _line_for(self, target: Target, limit_ms: int | None = None) -> Line:
        if isinstance(target, ForNode):
            if target.node_id not in self.view.brokers:
                await self.refresh([])
            return await self.line(target.node_id, limit_ms=limit_ms)
        if isinstance(target, ForCoordinator):
            return await self.line(await self._coordinator(target), "group", limit_ms)
        if (
            isinstance(target, ForController) or self.options.controllers
        ):  # other controllers would refuse most requests
            if self.view.controller_id is None:
                await self.refresh([])
            if self.view.controller_id is not None:
                return await self.line(self.view.controller_id, limit_ms=limit_ms)
            if self.options.controllers:
                raise Unreachable("no controller leads the quorum")
        return await self.any_line()

    def coordinator(self, target: ForCoordinator) -> Broker | None:
        """The broker that was last found to coordinate ``target``, None when nobody was."""
        return self.view.brokers.get(self._coordinators.get(target, -1))

    async def _coordinator(self, target: ForCoordinator) -> int:
        node_id = self._coordinators.get(target)
        if node_id is not None and node_id in self.view.brokers:
            return node_id
        request = FindCoordinatorRequest(key=target.key, key_type=target.kind, coordinator_keys=[target.key])
        response = await (await self.any_line()).ask(request, timeout_ms=self.try_ms)
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
        response = await (await self.any_line()).ask(request, timeout_ms=self.try_ms)
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
        message: Request[ResponseT],
        to: Target = ANYONE,
        *,
        codes: Callable[[ResponseT], Iterable[int]] = top_codes,
        again: frozenset[Code] = MOVED,
        lowest: int = 0,
        highest: int | None = None,
        timeout_ms: int | None = None,
        request_timeout_ms: int | None = None,
    ) -> ResponseT:
        """The response of whoever ``to`` names.

        Tried again while any of ``codes(response)`` is one of ``again`` or the connection fails; when time is up the
        last response is returned with its codes, or Unreachable raised. ``lowest`` and ``highest`` bound the version
        (UnsupportedApi for a server that knows only older ones), ``request_timeout_ms`` each try, and connecting
        for it, and ``timeout_ms`` the whole. NoController as ``ClientOptions.controller_ms`` says.
        """
        if isinstance(to, ForController):
            await self.demand_controller(timeout_ms)
        patience = self.patience(timeout_ms)
        while True:
            response: ResponseT | None = None
            problem: Exception | None = None
            try:
                line = await self._line_for(to, request_timeout_ms)
                version = line.version_for(type(message), highest)
                if version < lowest:
                    name = type(message).__name__
                    raise UnsupportedApi(f"{name} is served up to version {version} only, and {lowest} is needed")
                response = await line.ask(message, version=version, timeout_ms=request_timeout_ms)
            except (OSError, Refused) as error:
                if isinstance(error, Refused) and not error.code.retriable:
                    raise
                problem = error
            if response is not None and again.isdisjoint(codes(response)):
                return response
            if not await patience.wait():
                if response is not None:
                    return response
                if isinstance(problem, Refused):
                    raise problem
                raise Unreachable(f"{type(message).__name__}: {problem or type(problem).__name__}") from problem
            await self._look_again(to)

    async def demand_controller(self, timeout_ms: int | None = None) -> None:
        """NoController when none answers within ``ClientOptions.controller_ms``, or ``timeout_ms`` if that is less, and
        none has before; another OSError when no broker does. Asked for moves of nothing, which only a controller can
        tell."""
        if self.options.controller_ms is None or self._controller_was_there:
            return
        within_ms = min(self.options.controller_ms, timeout_ms or self.options.controller_ms)
        self._controller_was_there = True  # for the request that asks
        try_ms = try_ms_of(within_ms, self.lines.options)  # KRaft brokers name any broker, which may be a silent one
        request = ListPartitionReassignmentsRequest(topics=[], timeout_ms=try_ms)
        why: str | None = None
        try:
            response = await self.ask(
                request, CONTROLLER, again=_NONE_YET, timeout_ms=within_ms, request_timeout_ms=try_ms
            )
            missing = response.error_code in (Code.NOT_CONTROLLER, Code.REQUEST_TIMED_OUT)
            why = response.error_message if response.error_code == Code.NOT_CONTROLLER else None
        except UnsupportedApi:  # before Apache Kafka 2.4
            return
        except (OSError, Refused):
            missing = True
        if missing:
            self._controller_was_there = False
            await self.refresh([])
            raise NoController(within_ms, why)

    async def _look_again(self, to: Target) -> None:
        """What was believed about ``to`` did not hold."""
        if isinstance(to, ForCoordinator):
            self._coordinators.pop(to, None)
        with suppress(OSError):  # the next try says so itself
            await self.refresh([])

    async def per_leader(
        self,
        partitions: Collection[TopicPartition],
        build: Callable[[list[TopicPartition]], Request[ResponseT]],
        read: Callable[[ResponseT], Mapping[TopicPartition, tuple[int, R]]],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
        try_ms: int | None = None,
    ) -> dict[TopicPartition, tuple[Code, R | None]]:
        """Ask the leader of each partition, one request per leader, until each partition has an answer that stands.

        ``build`` makes the request for a leader's partitions, ``read`` takes (error code, answer) per partition from a
        response. In the result an answer is None where nobody could be asked in time (LEADER_NOT_AVAILABLE, or
        NETWORK_EXCEPTION when the leader was lost). ``try_ms`` is how long a leader may take, if not as for a look-up.
        """
        done: dict[TopicPartition, tuple[Code, R | None]] = {}
        left = set(partitions)
        patience = self.patience(timeout_ms)
        while left:
            for partition, (number, answer) in (
                await self._round(left, build, read, highest, patience=patience, try_ms=try_ms)
            ).items():
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
        build: Callable[[list[TopicPartition]], Request[ResponseT]],
        read: Callable[[ResponseT], Mapping[TopicPartition, tuple[int, R]]],
        highest: int | None,
        *,
        patience: _Patience,
        try_ms: int | None,
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
                line = await self.line(leader, limit_ms=patience.try_ms)
            except OSError:
                continue
            request = build(theirs)
            version = line.version_for(type(request), highest)
            asked.append(line.ask(request, version=version, timeout_ms=try_ms or patience.try_ms))
        for answer in asked:
            try:
                answers |= read(await answer)
            except OSError:
                continue
        return answers
