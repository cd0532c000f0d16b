"""What commands that ask a running cluster share: a conversation with it, and how a refusal ends a command.

Every Kafka-compatible cluster will do: only standard requests are sent. Exit codes are those of ``main.py``. The client
is loaded when a conversation begins. Read next: options.py, output.py, advice.py; a noun's file, such as ``topic.py``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Concatenate, NamedTuple, NoReturn, ParamSpec, TypeVar

from moldau.admin.main import fail, is_local
from moldau.admin.options import DATA as DATA
from moldau.admin.options import IN_PROGRESS as IN_PROGRESS
from moldau.admin.options import MISMATCH as MISMATCH
from moldau.admin.options import OUTPUT as OUTPUT
from moldau.admin.options import SERVERS as SERVERS
from moldau.admin.options import client_config, given_timeout_ms
from moldau.admin.options import default_bootstrap as default_bootstrap
from moldau.admin.output import note as note
from moldau.admin.output import show as show
from moldau.admin.probe import why_not_kafka
from moldau.admin.waiting import Looks

if TYPE_CHECKING:
    from moldau.admin.client_config import ClientConfig
    from moldau.client.client import Client, ClientOptions
    from moldau.client.lines import ConnectionOptions
    from moldau.client.view import Topic
    from moldau.model import Code, TopicPartition

T = TypeVar("T")
P = ParamSpec("P")

PATIENCE_MS = 30_000
"""How long a command asks a cluster that does not answer."""
CONTROLLER_LEAST_MS = 1_000
"""A controller may take as long to answer, however short --timeout is."""
CONTROLLER_S = 5.0
"""How long a controller is waited for where something can be said without one: an election may be under way."""
WHY_NONE = "`moldau doctor` tells what is wrong"
"""What to do when there is no controller."""
METADATA = 3
"""The request that every broker serves, and no controller."""
LEADERS_S = 5.0
"""How long leaders are waited for where most can be said without them."""
NOBODY_S = 5.0
"""How long it waits for a cluster of which no broker listens."""


def client_options(config: ClientConfig, patience_ms: int = PATIENCE_MS) -> tuple[ClientOptions, ConnectionOptions]:
    """How a client asks and connects by the file of ``--command-config``; ends the command when a value is none."""
    from moldau.admin.client_config import BadClientConfig
    from moldau.client.client import PATIENT_MS, ClientOptions
    from moldau.client.lines import ConnectionOptions

    try:
        whole_ms, given_ms = config.integer("default.api.timeout.ms", patience_ms), given_timeout_ms()
        return ClientOptions(
            api_timeout_ms=whole_ms,
            controller_ms=max(min(whole_ms, PATIENT_MS, given_ms or PATIENT_MS), CONTROLLER_LEAST_MS),
            retry_backoff_ms=config.integer("retry.backoff.ms", 100),
            retry_backoff_max_ms=config.integer("retry.backoff.max.ms", 1_000),
            metadata_max_age_ms=config.integer("metadata.max.age.ms", 300_000),
        ), ConnectionOptions(
            client_id=config.text("client.id", "moldau"),
            request_timeout_ms=config.integer("request.timeout.ms", 30_000),
            connect_timeout_ms=config.integer("socket.connection.setup.timeout.ms", 10_000),
        )
    except BadClientConfig as error:
        fail(f"--command-config {error}", 2)


class Talk:
    """A conversation with one cluster; ends the command with a word when nobody answers."""

    def __init__(
        self,
        bootstrap: str,
        patience_ms: int = PATIENCE_MS,
        *,
        request_timeout_ms: int | None = None,
        answered: tuple[str, int] | None = None,
    ) -> None:
        """``answered``: a server that has just answered; without one all of ``bootstrap`` are asked whether they do."""
        from moldau.client.sync import Cluster
        from moldau.model.value import replace

        self.bootstrap = bootstrap
        self.config = client_config()
        options, connection = client_options(self.config, patience_ms)
        if request_timeout_ms is not None:
            connecting_ms = min(connection.connect_timeout_ms, request_timeout_ms)
            connection = replace(connection, request_timeout_ms=request_timeout_ms, connect_timeout_ms=connecting_ms)
            options = replace(options, controller_ms=None)  # no request waits long
        try:
            self.cluster = Cluster(bootstrap, connection=connection, options=options)
        except ValueError as error:
            fail(f"--bootstrap-server {bootstrap}: {error}", 2)
        if answered is None:
            answered, why = _who_answers(bootstrap)
            if answered is None:
                fail(f"{bootstrap}: {why}; `moldau up` starts a cluster, --bootstrap-server says where one is")
        self.cluster.client.answered = answered

    def apart(self, patience_ms: int) -> Talk:
        """Another conversation with the same cluster, over its own connections, that waits no longer for anything."""
        client = self.cluster.client
        other = Talk(self.bootstrap, patience_ms, request_timeout_ms=patience_ms, answered=client.answered)
        # those that live, by the view: the only address that was given may be that of a broker that has died since
        other.cluster.client.bootstrap += [(one.host, one.port) for one in client.view.brokers.values()]
        return other

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from moldau.client.client import NoController, Refused
        from moldau.client.lines import UnsupportedApi
        from moldau.wire.source import Malformed

        self.cluster.close()
        if isinstance(error, NoController):
            fail(f"{self.bootstrap}: {error}, and nothing can be changed without one; {WHY_NONE}")
        if isinstance(error, UnsupportedApi) and error.api_key == METADATA:
            fail(f"{self.bootstrap}: {error}: a controller listens there, and the address of a broker is expected")
        if isinstance(error, UnsupportedApi):
            fail(f"{self.bootstrap}: {error}: the brokers are too old for this, or of another kind")
        if isinstance(error, Malformed):  # what comes in that is malformed ends the connection, an OSError
            fail(f"that cannot be asked of any broker: {error}", 2)
        if isinstance(error, Refused):
            from moldau.admin.advice import advised

            fail(f"{self.bootstrap}: {advised(error.code, str(error))}")
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and error.filename is None:
            if is_local(error):
                return
            fail(f"{self.bootstrap}: {error}")

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """The named topics that exist; one that was made a moment ago is waited for until brokers know it."""
        client = self.cluster.client
        self.cluster.run(client.know(sorted(names), grace=True))
        return {name: client.view.topics[name] for name in names if name in client.view.topics}

    def existing(self, names: Collection[str]) -> dict[str, Topic]:
        """The named topics; ends the command when one does not exist, naming those that are called nearly so."""
        found = self.topics(names)
        for name in names:
            if name not in found:
                from moldau.admin.advice import no_such

                fail(no_such("topic", name, self.cluster.topics(), "`moldau topic list` lists them"))
        return found

    def partitions(self, text: str) -> list[TopicPartition]:
        """The partitions that ``orders`` or ``orders:0,3-5`` names; ends the command when one is not there."""
        from moldau.admin.options import partitions_of
        from moldau.model import TopicPartition

        name, numbers = partitions_of(text)
        known = self.existing([name])[name].partitions
        for number in numbers or ():
            if number not in known:
                fail(f"topic {name} has no partition {number}: it has {len(known)}, 0 to {len(known) - 1}")
        return [TopicPartition(name, number) for number in (sorted(known) if numbers is None else numbers)]

    def ask(
        self, work: Callable[Concatenate[Client, P], Coroutine[object, None, T]], *arguments: P.args, **named: P.kwargs
    ) -> T:
        """One of ``moldau.client.admin``'s calls."""
        return self.cluster.run(work(self.cluster.client, *arguments, **named))


def refused(what: str, code: Code, message: str | None = None) -> NoReturn:
    """End the command with what the cluster said of something, and what to do about it."""
    from moldau.admin.advice import advised

    fail(advised(code, what, message))
    raise AssertionError


def _who_answers(bootstrap: str) -> tuple[tuple[str, int] | None, str]:
    """The first of the servers that answers as a broker; or why none does. Nobody is waited for, in case they start."""
    from moldau.client.addresses import addresses

    why = ""
    for _ in Looks(NOBODY_S):
        answered, problems = _probe_all(addresses(bootstrap))
        if answered is not None:
            return answered, ""
        why = problems[0].why
        if not any(one.absent for one in problems):
            break
    return None, why


class _Problem(NamedTuple):
    """Why an address is no broker; ``absent``: nobody is there, which may change in a moment."""

    why: str
    absent: bool = False


def _probe_all(places: Sequence[tuple[str, int]]) -> tuple[tuple[str, int] | None, list[_Problem]]:
    """The first address that answers as a broker, or what is wrong with each. All are asked at once: some may take
    connections and say nothing, which takes seconds to find out."""
    found: dict[int, _Problem] = {}
    for number, problem in _probes(places):
        if problem is None:
            return places[number], []
        found[number] = problem
    return None, [found[number] for number in sorted(found)]


def _probes(places: Sequence[tuple[str, int]]) -> Iterator[tuple[int, _Problem | None]]:
    """What is wrong with each address, by its number in the list, as they are found out about."""
    heard: SimpleQueue[tuple[int, _Problem | Exception | None]] = SimpleQueue()

    def probe(number: int) -> None:
        try:
            heard.put((number, _probe(*places[number])))
        except Exception as error:  # raised below, where it ends the command
            heard.put((number, error))

    for number in range(len(places)):
        Thread(target=probe, args=(number,), daemon=True).start()
    for _ in places:
        number, problem = heard.get()
        if isinstance(problem, Exception):
            raise problem
        yield number, problem


def silent_brokers(talk: Talk, ids: Collection[int] | None = None) -> dict[int, str]:
    """Brokers that count as alive, of ``ids`` if they are given, and do not answer, and why. All are asked at once, for
    seconds at most."""
    brokers = [one for id, one in sorted(talk.cluster.brokers().items()) if ids is None or id in ids]
    found = _probes([(one.host, one.port) for one in brokers])
    silent = {brokers[number].node_id: problem.why for number, problem in found if problem is not None}
    return dict(sorted(silent.items()))


def _probe(host: str, port: int) -> _Problem | None:
    try:
        other = why_not_kafka(host, port)
        return None if other is None else _Problem(other)
    except ConnectionRefusedError:
        return _Problem("nobody listens there", absent=True)
    except (socket.gaierror, ValueError, OverflowError) as error:  # a label of 64 letters, port 65536
        return _Problem(f"{host}:{port} is no address: {error.args[-1]}", absent=True)
    except OSError as error:
        return _Problem(f"{host}:{port} cannot be reached: {error.strerror or error}")
