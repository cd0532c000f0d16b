"""A node's settings: server.properties read, checked and made into values.

Every key and bound comes from ``moldau.model.broker_config``; this file knows only how they hang together (roles,
listeners, voters, folders). Bad values stop the start with the key, the value and what is allowed; unknown keys are
named in a warning. The reference page is generated from the same tables.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from moldau.broker.config.listeners import (
    LOOPBACK,
    PLAINTEXT,
    PROTOCOLS,
    EndPoint,
    advertised_of_brokers,
    advertised_of_controllers,
    is_loopback,
    parse_listeners,
    protocol_map,
    served_protocol,
)
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import INT_MAX, ConfigError
from moldau.model.dynamic_config import DYNAMIC_KEYS, ONLY_DYNAMIC
from moldau.model.properties import read_properties
from moldau.model.topic_defaults import check_default
from moldau.model.unserved_config import check_served, unknown, without_effect

_VOTER = re.compile(r"(\d{1,10})@(?:\[(.*)\]|([^:]+)):(\d{1,5})\Z", re.ASCII)
_ADDRESS = re.compile(r"(?:\[(.*)\]|([^:]+)):(\d{1,5})\Z", re.ASCII)
_PAGES = re.compile(r"(?:\[(.*)\]|([^:]*)):(\d{1,5})\Z", re.ASCII)
ROLES = ("broker", "controller")
PORT_MAX = 65535


class NodeConfig:
    """The settings of one node. ``config["log.segment.bytes"]`` is any key's value; what is derived has a name."""

    def __init__(self, given: Mapping[str, str], host_name: Callable[[], str] = socket.getfqdn) -> None:
        """``host_name`` tells the canonical name of this host, asked where an address must be told without one."""
        self.given = dict(given)
        self.values: dict[str, Any] = {}  # Any: keys have values of several types
        self.unknown = unknown(given)
        """Given keys that no broker knows, and below those that change nothing here: the start names both."""
        self.without_effect = without_effect(given)
        check_served(given)
        for name, text in given.items():
            key = BROKER_KEYS.get(name)
            if key is not None:
                self.values[name] = key.parse(text)
                check_default(name, text)
        self._of_file = self.values
        self.on_zookeeper = bool(self["zookeeper.connect"]) and not self["process.roles"]
        """Whether this node is in ZooKeeper mode: a broker, and a candidate for controller."""
        self.migrates: bool = self["zookeeper.metadata.migration.enable"]
        """Whether this node takes part in a migration to KRaft mode (KIP-866)."""
        self.node_id: int = self._node_id()
        for name in ("node.id", "broker.id"):  # an older name of the same number; both are shown
            self.given[name] = str(self.node_id)
            self.values[name] = self.node_id
        self.roles: frozenset[str] = self._roles()
        self.controller_listener_names: tuple[str, ...] = self._controller_listener_names()
        self.voters: dict[int, tuple[str, int]] = self._voters()
        protocols = self._protocols()
        self.listeners: tuple[EndPoint, ...] = parse_listeners("listeners", self["listeners"], protocols)
        self.advertised: tuple[EndPoint, ...] = self._advertised(protocols, host_name)
        self.bootstrap_controllers: tuple[tuple[str, int], ...] = self._bootstrap()
        # Of one that is given and empty the default would be taken otherwise, which its author did not write.
        named: tuple[str, ...] = self["log.dir"] if self["log.dirs"] is None else self["log.dirs"]
        self.log_dirs: tuple[str, ...] = tuple({normpath(name) if name else name: name for name in named}.values())
        if not self.log_dirs or not all(self.log_dirs):
            raise ConfigError(
                f"Invalid value {','.join(self.log_dirs)} for configuration log.dirs: a list of folders is expected"
            )
        self.metadata_dir: str = self["metadata.log.dir"] or self.log_dirs[0]
        self._check()

    def __getitem__(self, name: str) -> Any:  # Any: keys have values of several types
        if name in self.values:
            return self.values[name]
        return (BROKER_KEYS.get(name) or ONLY_DYNAMIC[name]).default

    def adopt(self, dynamic: Mapping[str, str]) -> set[str]:
        """Settings made while the node runs go before those of the file, until they are made otherwise.

        The keys whose values this has changed. What is derived from several keys (listeners, roles) stays as it is.
        """
        names = {*self.values, *dynamic}
        before = {name: self[name] for name in names}
        now = {name: DYNAMIC_KEYS[name].parse_existing(text) for name, text in dynamic.items()}
        self.values = {**self._of_file, **now}
        return {name for name in names if self[name] != before[name]}

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def broker_listeners(self) -> tuple[EndPoint, ...]:
        return tuple(one for one in self.listeners if one.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[EndPoint, ...]:
        return tuple(one for one in self.listeners if one.name in self.controller_listener_names)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener through which brokers reach each other."""
        name: str | None = self["inter.broker.listener.name"]
        return (name or str(self["security.inter.broker.protocol"])).upper()

    def is_for_clients(self, listener: str) -> bool:
        """Whether clients may use a broker's listener: not the one of the brokers, unless there is no other."""
        if listener in self.controller_listener_names:
            return False
        return listener != self.inter_broker_listener or len(self.broker_listeners) == 1

    def static_topic_config(self) -> dict[str, str]:
        """Broker keys that were given, as text: defaults of topic keys (``log.retention.ms`` and so on)."""
        return {name: text for name, text in self.given.items() if name in BROKER_KEYS}

    # ---- parts

    def _node_id(self) -> int:
        node, broker = self.values.get("node.id"), self.values.get("broker.id")
        if node is None:
            node = broker if broker is not None and broker >= 0 else None
        if node is None:
            key = "broker.id" if self.on_zookeeper else "node.id"
            raise ConfigError(f"Missing required configuration {key}: the number of this node, unique in the cluster")
        if broker is not None and broker >= 0 and broker != node:
            raise ConfigError(
                f"Invalid value {broker} for configuration broker.id: it must equal node.id, which is {node}"
            )
        return int(node)

    def ensemble(self) -> Ensemble:
        """Where ZooKeeper is, for a node in ZooKeeper mode or on the way from it."""
        from moldau.ports.zookeeper import Ensemble  # here: a node in KRaft mode has no use for it

        session_ms = self["zookeeper.session.timeout.ms"]
        return Ensemble(
            connect=self["zookeeper.connect"],
            session_timeout_ms=session_ms,
            connection_timeout_ms=self["zookeeper.connection.timeout.ms"] or session_ms,
        )

    def _roles(self) -> frozenset[str]:
        if self.on_zookeeper:
            return frozenset(ROLES)
        roles = self.values.get("process.roles")
        if not roles:
            raise ConfigError(
                "Missing required configuration process.roles: broker, controller, or broker,controller"
                " (or zookeeper.connect, for a node in ZooKeeper mode)"
            )
        return frozenset(roles)

    def _controller_listener_names(self) -> tuple[str, ...]:
        names = tuple(name.upper() for name in self["controller.listener.names"] or ())
        if self.on_zookeeper:
            return ()
        if not names:  # before the listeners are read, which would be called strange names without it
            raise ConfigError(
                "Missing required configuration controller.listener.names: the listener that controllers answer on"
            )
        return names

    def _protocols(self) -> dict[str, str]:
        """The protocol of each listener name; ConfigError when a controller's listener is not PLAINTEXT."""
        protocols = protocol_map(self["listener.security.protocol.map"])
        names = self.controller_listener_names
        spoken = {*names, *(text.partition("://")[0].upper() for text in self["listeners"])}
        if "listener.security.protocol.map" not in self.values and spoken.isdisjoint(set(PROTOCOLS) - {PLAINTEXT}):
            protocols = dict.fromkeys(names, PLAINTEXT) | protocols  # as in Kafka, only where nothing speaks of TLS
        for name in names:
            served_protocol(name, protocols, "controller.listener.names")
        return protocols

    def _advertised(self, protocols: dict[str, str], host_name: Callable[[], str]) -> tuple[EndPoint, ...]:
        texts = self["advertised.listeners"]
        given = parse_listeners("advertised.listeners", texts or (), protocols)
        names = self.controller_listener_names
        of_controllers = [one for one in given if one.name in names]
        of_brokers = [one for one in given if one.name not in names] if texts else None
        as_voter, _ = self.voters.get(self.node_id, (None, 0))
        return (
            *advertised_of_brokers(self.broker_listeners, of_brokers, host_name),
            *advertised_of_controllers(self.controller_listeners, of_controllers, as_voter, host_name),
        )

    def unreachable(self) -> list[tuple[EndPoint, EndPoint]]:
        """Listeners that bind loopback because they name no host, with the address elsewhere that others are told."""
        told = {one.name: one for one in self.advertised}
        bound = (one for one in self.listeners if not one.host and one.name in told)
        return [(one, told[one.name]) for one in bound if not is_loopback(told[one.name].host)]

    def pages(self) -> tuple[str, int] | None:
        """Where the node's pages are, None for nowhere. An empty host is loopback."""
        text = self["http.listener"]
        if not text:
            return None
        match = _PAGES.match(text)
        if match is None or int(match[3]) > PORT_MAX:
            raise ConfigError(f"Invalid value {text} for configuration http.listener: host:port is expected")
        return match[1] or match[2] or LOOPBACK, int(match[3])

    def _voters(self) -> dict[int, tuple[str, int]]:
        voters: dict[int, tuple[str, int]] = {}
        for text in self["controller.quorum.voters"]:
            match = _VOTER.match(text)
            if match is None or int(match[1]) > INT_MAX or int(match[4]) > PORT_MAX:
                raise ConfigError(
                    f"Invalid value {text} for configuration controller.quorum.voters: id@host:port is expected"
                )
            voters[int(match[1])] = (match[2] or match[3], int(match[4]))
        return voters

    def _bootstrap(self) -> tuple[tuple[str, int], ...]:
        found = []
        for text in self["controller.quorum.bootstrap.servers"]:
            match = _ADDRESS.match(text)
            if match is None or int(match[3]) > PORT_MAX:
                raise ConfigError(
                    f"Invalid value {text} for configuration controller.quorum.bootstrap.servers: host:port is expected"
                )
            found.append((match[1] or match[2], int(match[3])))
        return tuple(found)

    def _check_migration(self) -> None:
        setting = "zookeeper.metadata.migration.enable=true"
        if not self["zookeeper.connect"]:
            raise ConfigError(f"Missing required configuration zookeeper.connect: {setting} says to migrate from there")
        if self.on_zookeeper and not self.voters:
            raise ConfigError(
                f"Missing required configuration controller.quorum.voters: with {setting} a broker must know the"
                " controllers that it will follow, as id@host:port"
            )
        if not self.on_zookeeper and self.is_broker:
            raise ConfigError(
                f"Invalid configuration {setting}: a node with process.roles={','.join(self['process.roles'])} has"
                " left ZooKeeper already; the setting is for controllers alone, and for brokers still on ZooKeeper"
            )
        self._check_ensemble()

    def _check(self) -> None:
        least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
        if self[least] > self[most]:
            raise ConfigError(
                f"Invalid value {self[least]} for configuration {least}: at most {most} ({self[most]}) is expected"
            )
        least, most = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
        if 0 <= self[most] <= self[least]:
            raise ConfigError(
                f"Invalid value {self[most]} for configuration {most}: more than {least} ({self[least]}) is expected,"
                " or below 0 for no limit"
            )
        least, most = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
        if not 0 < self[least] <= self[most]:
            raise ConfigError(
                f"Invalid value {self[least]} for configuration {least}: more than 0 and at most {most} ({self[most]})"
                " is expected"
            )
        delay = "group.initial.rebalance.delay.ms"
        if self[delay] < 0:
            raise ConfigError(f"Invalid value {self[delay]} for configuration {delay}: at least 0 is expected")
        least, most = "replica.fetch.wait.max.ms", "replica.lag.time.max.ms"
        if self[least] > self[most]:
            raise ConfigError(
                f"Invalid value {self[most]} for configuration {most}: at least {least} ({self[least]}) is expected, or"
                " followers leave the ISR while their fetches wait"
            )
        if self.migrates:
            self._check_migration()
        if self.on_zookeeper:
            self._check_ensemble()
            self._check_listeners()
            return
        if not self.voters and not self.bootstrap_controllers:
            raise ConfigError(
                "Missing required configuration controller.quorum.voters: give the voters as id@host:port,"
                " or set controller.quorum.bootstrap.servers"
            )
        if self.voters and self.is_controller and self.node_id not in self.voters:
            raise ConfigError(
                f"Invalid value {','.join(self['controller.quorum.voters'])} for configuration"
                " controller.quorum.voters:"
                f" node.id {self.node_id} is a controller and must be among the voters"
            )
        if self.node_id in self.voters and not self.is_controller:
            raise ConfigError(
                f"Invalid value {','.join(self['controller.quorum.voters'])} for configuration"
                f" controller.quorum.voters: node.id {self.node_id} is among the voters, and process.roles does not"
                " make it a controller"
            )
        if self.is_controller and not self.controller_listeners:
            names = ",".join(self.controller_listener_names)
            raise ConfigError(
                f"Invalid value {names} for configuration controller.listener.names: listeners has no such listener"
            )
        self._check_listeners()

    def _check_ensemble(self) -> None:
        from moldau.zookeeper.connect import parse_connect

        try:
            parse_connect(self["zookeeper.connect"])
        except ValueError as error:
            raise ConfigError(f"Invalid configuration: {error}") from None

    def _check_listeners(self) -> None:
        self.pages()
        if not self.is_broker:
            return
        if not self.broker_listeners:
            raise ConfigError(
                "Invalid value for configuration listeners: a broker needs a listener that is not a controller's"
            )
        name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
        if self.values.get(name) and protocol in self.values:
            raise ConfigError(f"Invalid configuration: only one of {name} and {protocol} may be set")
        if self[protocol] != PLAINTEXT:
            raise ConfigError(
                f"Invalid value {self[protocol]} for configuration {protocol}: PLAINTEXT is the only protocol this"
                " version serves (TLS and SASL are not served yet)"
            )
        told = [one.name for one in self.advertised if one.name not in self.controller_listener_names]
        if self.inter_broker_listener not in told:
            unset = "" if self[name] else f" (not set: it is the one named after {protocol})"
            raise ConfigError(
                f"Invalid value {self.inter_broker_listener} for configuration {name}{unset}: listeners, and"
                f" advertised.listeners where it is set, do not name it; one of {', '.join(told)} is expected"
            )


if TYPE_CHECKING:
    from moldau.ports.zookeeper import Ensemble


def load(text: str, overrides: Mapping[str, str] | None = None) -> NodeConfig:
    """Settings from the text of a server.properties, with overrides on top; ConfigError names what is wrong."""
    given = read_properties(text)
    given.update(overrides or {})
    return NodeConfig(given)
