"""The listeners of a node: where it binds, what it tells others, and which security protocol each name stands for.

Decides whether ``listeners``, ``advertised.listeners`` and ``listener.security.protocol.map`` fit together; the rest of
server.properties is ``node_config.py``. Only PLAINTEXT is served: a listener that is to speak anything else is refused,
and so is one of which nothing says what it speaks, for it must never be open by mistake. Rules: Apache Kafka 4.3's
KafkaConfig, but for an empty host, which binds loopback (docs/decisions/0004).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from moldau.model.config_key import ConfigError
from moldau.model.value import value

_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[(.*)\]|([^:/]*)):(-?\d{1,5})\Z", re.ASCII)
LOOPBACK = "127.0.0.1"
WILDCARDS = ("0.0.0.0", "::")
PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAP = "listener.security.protocol.map"


@value
class EndPoint:
    """One address with its name and security protocol. ``host`` may be empty: all interfaces is never our default."""

    name: str
    host: str
    port: int
    protocol: str = PLAINTEXT


def protocol_map(text: str) -> dict[str, str]:
    """Which security protocol each listener name stands for; ConfigError when the text is no such map.

    >>> protocol_map("internal:PLAINTEXT, EXTERNAL:ssl")
    {'INTERNAL': 'PLAINTEXT', 'EXTERNAL': 'SSL'}
    """
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not name or not colon or protocol.upper() not in PROTOCOLS:
            raise ConfigError(
                f"Invalid value {entry} for configuration {MAP}: NAME:PROTOCOL is expected, with one of"
                f" {', '.join(PROTOCOLS)}"
            )
        if found.setdefault(name.upper(), protocol.upper()) != protocol.upper():
            raise ConfigError(f"Invalid value {entry} for configuration {MAP}: {name} has another protocol as well")
    return found


def served_protocol(name: str, protocols: dict[str, str], key: str) -> str:
    """PLAINTEXT, the protocol of listener ``name``; ConfigError when the map says another, or nothing."""
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(f"Invalid value {name} for configuration {key}: {MAP} does not name it")
    if protocol != PLAINTEXT:
        raise ConfigError(
            f"Invalid value {protocol} for configuration {MAP}: listener {name} must be PLAINTEXT, the only protocol"
            " this version serves (TLS and SASL are not served yet)"
        )
    return protocol


def parse_listeners(key: str, texts: Sequence[str], protocols: dict[str, str]) -> tuple[EndPoint, ...]:
    """The listeners that ``NAME://host:port`` texts describe; ConfigError names the one that is wrong."""
    found = []
    for text in texts:
        match = _LISTENER.match(text)
        if match is None or not 0 <= int(match[4]) <= 65535:
            raise ConfigError(f"Invalid value {text} for configuration {key}: NAME://host:port is expected")
        name = match[1].upper()
        found.append(EndPoint(name, match[2] or match[3] or "", int(match[4]), served_protocol(name, protocols, key)))
    names = [one.name for one in found]
    if len(set(names)) != len(names):
        raise ConfigError(
            f"Invalid value {','.join(texts)} for configuration {key}: each listener has one name of its own"
        )
    return tuple(found)


def advertised_of_brokers(
    bound: Sequence[EndPoint], given: Sequence[EndPoint] | None, host_name: Callable[[], str]
) -> tuple[EndPoint, ...]:
    """What clients and brokers are told: ``given`` (advertised.listeners) where it is set, else what is ``bound``.

    A listener that a given list leaves out is told nobody. An empty host is filled with the host's canonical name where
    all interfaces are bound, and with loopback's name where loopback alone is. ConfigError for an address that nobody
    can connect to.
    """
    by_name = {one.name: one for one in bound}
    shown = []
    for one in bound if given is None else given:
        at = by_name.get(one.name)
        if at is None:
            raise ConfigError(
                f"Invalid value {one.name} for configuration advertised.listeners: listeners does not name it"
            )
        if one.host in WILDCARDS:
            where = "listeners, and advertised.listeners is not set" if given is None else "advertised.listeners"
            raise ConfigError(
                f"Invalid value {one.host} for configuration {where}: clients cannot connect to it; set"
                f" advertised.listeners={one.name}://HOST:{one.port} with the name of this host"
            )
        host = one.host or _reached_at(at.host, host_name)
        shown.append(EndPoint(one.name, host, one.port, one.protocol))
    return tuple(shown)


def advertised_of_controllers(
    bound: Sequence[EndPoint], given: Sequence[EndPoint], as_voter: str | None, host_name: Callable[[], str]
) -> tuple[EndPoint, ...]:
    """What nodes and administrators are told of this controller: what is ``given`` for a listener, else where it is.

    Where that names no host, it is the one ``as_voter`` under which the voters know this controller, as in Kafka.
    """
    by_name = {one.name: one for one in given}
    shown = []
    for at in bound:
        one = by_name.get(at.name, at)
        host = one.host if one.host not in WILDCARDS else ""
        host = host or as_voter or _reached_at(at.host, host_name)
        shown.append(EndPoint(one.name, host, one.port, one.protocol))
    return tuple(shown)


def _reached_at(bound: str, host_name: Callable[[], str]) -> str:
    """A name under which a bound address is reached: no host is loopback, all interfaces are the host's own name."""
    return host_name() if bound in WILDCARDS else bound or "localhost"


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, which no other machine reaches."""
    return host in ("", "localhost", "::1") or host.startswith("127.")
