"""A tool's talk with a cluster: its properties file, its bootstrap servers, and failures as Kafka's admin client tells.

Security is not served: a file that asks for SASL or TLS is refused with a word. Read next: moldau/client/sync.py.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from moldau.admin.classic.client_keys import (
    ADMIN,
    CONSUMER,
    KAFKA_ERROR,
    PRODUCER,
    VERSIONS,
    demand_classes,
    demand_values,
    split_list,
)
from moldau.admin.classic.java import CONFIG_ERROR, JavaError, illegal_argument
from moldau.admin.classic.java_values import java_split
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error, timed_out
from moldau.admin.classic.options import java_integer
from moldau.client.client import Client, ClientOptions, Refused, Unreachable
from moldau.client.lines import ConnectionOptions, Line, RequestTimedOut, UnsupportedApi
from moldau.client.sockets import SocketLines, drive
from moldau.client.sync import Cluster
from moldau.client.view import Broker, Outcome
from moldau.model import Code
from moldau.model.config_key import ConfigError
from moldau.model.properties import read_properties

T = TypeVar("T")
P = ParamSpec("P")

_ADDRESS = re.compile(r"^(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)\Z")
_KEYS_OF = {"Admin": ADMIN, "LegacyAdmin": VERSIONS, "Producer": PRODUCER, "Consumer": CONSUMER}
ADMIN_FAILED = "org.apache.kafka.tools.AdminCommandFailedException"
ADMIN_OPERATION = "org.apache.kafka.tools.AdminOperationException"
_TOO_SHORT = "The specified value of default.api.timeout.ms must be no smaller than the value of request.timeout.ms."
_AGAIN_MS, _LATEST_AGAIN_MS = 50, 1_000
"""reconnect.backoff.ms and reconnect.backoff.max.ms of Kafka's clients."""
OF_CONTROLLERS = frozenset(
    {
        "addRaftVoter",
        "alterPartitionReassignments",
        "describeConfigs",
        "describeFeatures",
        "describeMetadataQuorum",
        "incrementalAlterConfigs",
        "listNodes",
        "listPartitionReassignments",
        "removeRaftVoter",
        "unregisterBroker",
        "updateFeatures",
    }
)
"""What Kafka's admin client asks controllers for, where it was told of no brokers."""


def read_config(path: str | None) -> dict[str, str]:
    """The properties of a file, none without one; JavaError when it cannot be read."""
    if path is None:
        return {}
    try:
        return read_properties(Path(path).read_bytes().decode("latin-1"))
    except FileNotFoundError:
        raise JavaError("java.nio.file.NoSuchFileException", path) from None
    except PermissionError:
        raise JavaError("java.nio.file.AccessDeniedException", path) from None
    except IsADirectoryError:
        raise JavaError("java.io.IOException", "Is a directory") from None
    except ConfigError as error:
        raise illegal_argument(str(error)) from None


def without_bootstrap(config: Mapping[str, str]) -> dict[str, str]:
    """The properties without where the cluster is: some tools take that from their options alone."""
    return {key: value for key, value in config.items() if key not in ("bootstrap.servers", "bootstrap.controllers")}


class ToolSession:
    """Asks a cluster. Use as a context manager. JavaError where Kafka's own client would not start."""

    def __init__(
        self,
        config: Mapping[str, str],
        bootstrap: str | None = None,
        *,
        controllers: str | None = None,
        client: str = "Admin",
        timeout_ms: int | None = None,
    ) -> None:
        """``controllers``: where to ask instead of ``bootstrap`` (KIP-919); ``timeout_ms``: of each call, whatever the
        properties say.
        """
        self.client_name = client
        config = dict(config)
        config |= {} if bootstrap is None else {"bootstrap.servers": bootstrap}
        config |= {} if controllers is None else {"bootstrap.controllers": controllers}
        demand_values(_KEYS_OF[client], config)
        asks_controllers, places = self._bootstrap(config)
        if client == "Admin":
            demand_classes({"metric.reporters": config.get("metric.reporters", "")}, self._no_client)
        protocol = config.get("security.protocol", "PLAINTEXT").strip()
        if protocol.upper() != "PLAINTEXT":
            raise JavaError(CONFIG_ERROR, f"security.protocol={protocol} is not served by Moldau's tools yet")
        request_timeout_ms = _number(config, "request.timeout.ms", 5_000 if client == "LegacyAdmin" else 30_000)
        api_timeout_ms = request_timeout_ms
        if client != "LegacyAdmin":
            api_timeout_ms = _number(config, "default.api.timeout.ms", max(60_000, request_timeout_ms))
        if api_timeout_ms < request_timeout_ms and client == "Admin":
            raise self._no_client(JavaError(CONFIG_ERROR, _TOO_SHORT))
        if timeout_ms is not None:
            api_timeout_ms, request_timeout_ms = timeout_ms, min(timeout_ms, request_timeout_ms)
        self.bootstrap = ",".join(places)
        self.connection = connection = ConnectionOptions(
            client_id=config.get("client.id") or "adminclient-1",
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=_number(config, "socket.connection.setup.timeout.ms", 10_000),
        )
        options = ClientOptions(api_timeout_ms=api_timeout_ms, retry_backoff_ms=100, controllers=asks_controllers)
        self.cluster = Cluster(self.bootstrap, connection=connection, options=options)
        self.cluster.client.lines = _LoudLines(connection, self.cluster.client.view.brokers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def _bootstrap(self, config: Mapping[str, str]) -> tuple[bool, list[str]]:
        """If controllers are to be asked, and where; JavaError unless brokers or controllers are given, not both."""
        servers = split_list("bootstrap.servers", config.get("bootstrap.servers", ""))
        controllers: list[str] = []
        if self.client_name == "Admin":
            controllers = split_list("bootstrap.controllers", config.get("bootstrap.controllers", ""))
        if servers and controllers:
            why = "You cannot set both bootstrap.servers and bootstrap.controllers"
            raise self._no_client(JavaError(CONFIG_ERROR, why))
        if not servers and not controllers:
            why = "You must set either bootstrap.servers or bootstrap.controllers"
            raise self._no_client(JavaError(CONFIG_ERROR, why))
        return bool(controllers), self._places(servers or controllers)

    def _places(self, given: Sequence[str]) -> list[str]:
        places = []
        for one in given:
            match = _ADDRESS.match(one)
            if match is None:
                raise self._no_client(JavaError(CONFIG_ERROR, f"Invalid url in bootstrap.servers: {one}"))
            host, port = match[1], int(match[2])
            if port > 65535:
                raise self._no_client(JavaError(CONFIG_ERROR, f"Invalid port in bootstrap.servers: {one}"))
            try:
                socket.getaddrinfo(host or "localhost", port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                name = "org.apache.kafka.clients.ClientUtils"
                warn(f"Couldn't resolve server {one} from bootstrap.servers as DNS resolution failed for {host}", name)
                continue
            host = host or "localhost"
            places.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        if not places:
            raise self._no_client(JavaError(CONFIG_ERROR, "No resolvable bootstrap urls given in bootstrap.servers"))
        return places

    def _no_client(self, cause: JavaError) -> JavaError:
        if self.client_name != "Admin":
            return cause
        return JavaError(KAFKA_ERROR, "Failed to create new KafkaAdminClient", cause)

    def ask(
        self,
        call: str,
        work: Callable[Concatenate[Client, P], Coroutine[object, None, T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """One call of moldau.client; ``call`` is how Kafka's admin client names it in failures."""
        if self.cluster.client.options.controllers and call not in OF_CONTROLLERS:
            why = "This Admin API is not yet supported when communicating directly with the controller quorum."
            raise kafka_error(Code.UNSUPPORTED_ENDPOINT_TYPE, why)
        try:
            if not self.cluster.client.view.brokers:  # as Kafka's: what is no broker is refused by any first call
                drive(self.cluster.client.know([]))
            return drive(work(self.cluster.client, *arguments, **named))
        except RequestTimedOut as error:
            raise timed_out(f"Call(callName={call}) timed out: {error}") from None
        except (Unreachable, OSError):
            raise timed_out(f"Timed out waiting for a node assignment. Call: {call}") from None
        except UnsupportedApi as error:
            raise JavaError(f"{PACKAGE}UnsupportedVersionException", _unsupported(str(error))) from None
        except Refused as error:
            raise kafka_error(error.code, error.message) from None

    def know(self, call: str, topics: Collection[str] | None) -> None:
        """Learn the brokers, and the named topics or all (None), into ``self.cluster.client.view``."""
        self.ask(call, lambda client: client.know(topics))


def _unsupported(text: str) -> str:
    """The name of the request that a broker does not serve, in Kafka's words."""
    name = re.search(r"serves? ([A-Za-z]+)Request", text)
    return f"The node does not support {re.sub('(?<=[a-z])(?=[A-Z])', '_', name[1]).upper()}" if name else text


def checked(outcome: Outcome) -> Outcome:
    """The outcome itself when it is good; else the JavaError that Kafka's client makes of it."""
    if not outcome.ok:
        raise kafka_error(outcome.code, outcome.message)
    return outcome


def empty_servers() -> JavaError:
    """A producer or a consumer is not told where the cluster is."""
    why = "Configuration 'bootstrap.servers' must not be empty. Valid values include: any non-empty value"
    return JavaError(CONFIG_ERROR, why)


def no_consumer(why: JavaError) -> JavaError:
    """Kafka's consumer would not start."""
    return JavaError(KAFKA_ERROR, "Failed to construct kafka consumer", why)


def no_groups(why: JavaError) -> JavaError:
    """Groups could not be listed."""
    return JavaError(KAFKA_ERROR, "Failed to find brokers to send ListGroups", why)


def no_name() -> JavaError:
    """Kafka's client asks nobody for a topic without a name."""
    return kafka_error(Code.INVALID_TOPIC_EXCEPTION, "The given topic name '' cannot be represented in a request.")


def executed(error: JavaError) -> JavaError:
    """The failure as a tool has it that waits for an answer: wrapped once."""
    return JavaError("java.util.concurrent.ExecutionException", str(error), error)


def call_timed_out(call: str, since_ms: int) -> JavaError:
    """Brokers have answered, but none so that the call could go on; ``since_ms``: when it began, on the wall clock."""
    now = int(time.time() * 1000)
    text = f"Call(callName={call}, deadlineMs={now}, tries=2, nextAllowedTryMs={now + 100}) timed out at {now}"
    return timed_out(f"{text} after {max((now - since_ms) // 100, 1)} attempt(s)")


def is_address(text: str) -> bool:
    """Whether this is host:port, as Kafka reads it."""
    return _ADDRESS.match(text) is not None


def are_addresses(servers: str) -> bool:
    """Whether this is host:port, or several behind commas; what is empty at the end is passed over, as Java does."""
    parts = java_split(servers, ",")
    return bool(parts) and all(map(is_address, parts))


def warn(text: str, logger: str) -> None:
    """Write a line to standard error as Kafka's tools log it."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    print(f"[{stamp},{int(now * 1000) % 1000:03}] WARN {text} ({logger})", file=sys.stderr)


def _number(config: Mapping[str, str], key: str, default: int) -> int:
    text = config.get(key)
    if text is None:
        return default
    try:
        return java_integer(text.strip())
    except ValueError:
        why = f"Invalid value {text} for configuration {key}: Not a number of type INT"
        raise JavaError(CONFIG_ERROR, why) from None


class _LoudLines(SocketLines):
    """Opens connections, and says in the log when one cannot be had, as often as Kafka's client tries that again."""

    def __init__(self, options: ConnectionOptions, brokers: Mapping[int, Broker]) -> None:
        super().__init__(options)
        self._brokers = brokers
        self._silences: dict[tuple[str, int], tuple[int, int]] = {}
        """By address: until when nothing more is said of it, and for how long that is, in ms."""

    async def connect(self, host: str, port: int, limit_ms: int | None = None) -> Line:
        try:
            return await super().connect(host, port, limit_ms)
        except OSError:
            until_ms, silent_ms = self._silences.get((host, port), (0, _AGAIN_MS // 2))
            if self.now_ms() < until_ms:
                raise
            silent_ms = min(2 * silent_ms, _LATEST_AGAIN_MS)
            self._silences[host, port] = (self.now_ms() + silent_ms, silent_ms)
            node = next((id for id, b in self._brokers.items() if (b.host, b.port) == (host, port)), -1)
            place = f"{host}:{port}" if re.match(r"[\d.:]+\Z", host) else f"{host}/{host}:{port}"
            text = f"Connection to node {node} ({place}) could not be established. Node may not be available."
            warn(f"[AdminClient clientId={self.options.client_id}] {text}", "org.apache.kafka.clients.NetworkClient")
            raise
