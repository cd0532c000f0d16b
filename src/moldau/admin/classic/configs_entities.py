"""What kafka-configs.sh is asked about: the types and names of entities, and which options go together."""

from __future__ import annotations

import socket

from moldau.admin.classic.java import illegal_argument
from moldau.admin.classic.options import GivenOptions, java_integer
from moldau.model.named import NamedTuple

TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
FLAGS = {
    "topic": "topics", "client": "clients", "user": "users", "broker": "brokers", "broker-logger": "broker-loggers",
    "ip": "ips", "client-metrics": "client-metrics", "group": "groups",
}  # fmt: skip
DEFAULT_FLAGS = {"client-defaults": "clients", "user-defaults": "users", "broker-defaults": "brokers"}
DEFAULT_FLAGS["ip-defaults"] = "ips"
WITH_DEFAULT = {"users", "clients", "brokers", "ips"}


class Entities(NamedTuple):
    """What is asked about, in the order of the command line; an empty name is the default of its type."""

    types: list[str]
    names: list[str]

    @property
    def type(self) -> str:
        return self.types[0]


def entities_of(given: GivenOptions) -> Entities:
    """The types and names that the options give, unchecked."""
    flags = [flag for flag in FLAGS if given.has(flag)]
    defaults = [flag for flag in DEFAULT_FLAGS if given.has(flag)]
    types = [*given.values("entity-type"), *(FLAGS[flag] for flag in flags)]
    types += [DEFAULT_FLAGS[flag] for flag in defaults]
    listed = iter(given.values("entity-name"))
    named = [name for name in given.order if name in ("entity-name", "entity-default")]
    names = [next(listed) if name == "entity-name" else "" for name in named]
    return Entities(types, [*names, *(given.text(flag) for flag in flags), *("" for _ in defaults)])


def check(given: GivenOptions, entities: Entities) -> None:
    """JavaError or UsageError when the options do not go together."""
    if given.has("alter") == given.has("describe"):
        given.refuse("Command must include exactly one action: --describe, --alter")
    given.exclude("describe", ["alter", "add-config", "delete-config"])
    types = entities.types
    twice = [one for at, one in enumerate(types) if one in types[:at]]
    if twice:
        raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
    servers = [name for name in ("bootstrap-server", "bootstrap-controller") if given.has(name)]
    if not servers:
        raise illegal_argument("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if len(servers) > 1:
        raise illegal_argument("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    for one in types:
        if one not in TYPES:
            allowed = f"the entity type must be one of {', '.join(TYPES)}"
            server = "with a --bootstrap-server or --bootstrap-controller argument"
            raise illegal_argument(f"Invalid entity type {one}, {allowed} {server}")
    if not types:
        raise illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise illegal_argument("Only 'users' and 'clients' entity types may be specified together")
    general = any(map(given.has, ("entity-name", "entity-type", "entity-default")))
    if general and any(map(given.has, (*FLAGS, *DEFAULT_FLAGS))):
        text = "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        raise illegal_argument(text)
    check_names(given, entities)
    _check_action(given, entities)


def check_names(given: GivenOptions, entities: Entities) -> None:
    """JavaError for the name of a broker or an address that is none."""
    if not any(entities.names):
        return
    if {"brokers", "broker-loggers"} & set(entities.types):
        for id in [given.text(name) for name in ("entity-name", "broker", "broker-logger") if given.has(name)]:
            try:
                java_integer(id)
            except ValueError:
                text = f"The entity name for {entities.type} must be a valid integer broker id, but it is: {id}"
                raise illegal_argument(text) from None
    if "ips" in entities.types:
        for address in [given.text(name) for name in ("entity-name", "ip") if given.has(name)]:
            try:
                socket.getaddrinfo(address, None)
            except (OSError, UnicodeError):
                valid = "must be a valid IP or resolvable host"
                raise illegal_argument(f"The entity name for {entities.type} {valid}, but it is: {address}") from None


def _check_action(given: GivenOptions, entities: Entities) -> None:
    types, listed = set(entities.types), ",".join(entities.types)
    if given.has("describe"):
        if not types & WITH_DEFAULT and given.has("entity-default"):
            raise illegal_argument(f"--entity-default must not be specified with --describe of {listed}")
        if "broker-loggers" in types and not any(entities.names):
            raise illegal_argument(f"An entity name must be specified with --describe of {listed}")
        return
    if types & WITH_DEFAULT:
        if not entities.names:
            what = "An entity-name or default entity must be specified"
            raise illegal_argument(f"{what} with --alter of users, clients, brokers or ips")
    elif not any(entities.names):
        raise illegal_argument(f"An entity name must be specified with --alter of {listed}")
    check_changes(given)


def check_changes(given: GivenOptions) -> None:
    """JavaError unless the options of --alter say what is to be changed."""
    if given.has("add-config") and given.has("add-config-file"):
        raise illegal_argument("Only one of --add-config or --add-config-file must be specified")
    if not any(map(given.has, ("add-config", "add-config-file", "delete-config"))):
        text = "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        raise illegal_argument(text)
