"""What Apache Kafka 4.3.1 says of a server.properties that it does not start with: the usual mistakes, in its words.

Others are refused in ours. Of nodes on ZooKeeper, which are Moldau's and older Kafka's, it knows nothing any more.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from moldau.admin.classic.java import CONFIG_ERROR, ILLEGAL_ARGUMENT, JavaError, illegal_argument
from moldau.admin.classic.scala_sets import shown_numbers
from moldau.admin.classic.topic_values import refusal
from moldau.broker.config.node_config import ROLES
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError, Kind

ROLES_KEY, NODE, BROKER = "process.roles", "node.id", "broker.id"
_REQUIRED = (ROLES_KEY, NODE, "controller.listener.names")
_NOT_EMPTY = {
    ROLES_KEY: f"[{', '.join(ROLES)}]",
    **dict.fromkeys(("log.dir", "log.dirs", "listeners", "controller.listener.names"), "any non-empty value"),
}


def demand_startable(given: Mapping[str, str]) -> None:
    """JavaError when Kafka does not start with these properties, for one of the usual reasons."""
    _demand_required(given)
    _demand_lists(given)
    _demand_numbers(given)
    if BROKER in given and NODE in given and given[BROKER].strip() not in ("-1", given[NODE].strip()):
        raise _wrong("You must set `node.id` to the same value as `broker.id`.")
    if not any(given.get(f"controller.quorum.{key}", "").strip() for key in ("voters", "bootstrap.servers")):
        raise _wrong(
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers."
        )
    _demand_no_vote_of_a_broker(given)
    _demand_ports(given.get("listeners", ""))


def _demand_required(given: Mapping[str, str]) -> None:
    for key in _REQUIRED:
        if key not in given and not (key == NODE and BROKER in given):
            raise _wrong(f'Missing required configuration "{key}" which has no default value.')


def _demand_lists(given: Mapping[str, str]) -> None:
    for key, valid in _NOT_EMPTY.items():
        if key not in given:
            continue
        if not given[key].strip():
            raise _wrong(f"Configuration '{key}' must not be empty. Valid values include: {valid}")
        words = [word.strip() for word in given[key].split(",")]
        if not all(words) and key != "log.dir":
            raise _wrong(f"Configuration '{key}' values must not be empty.")
        strange = [word for word in words if word not in ROLES] if key == ROLES_KEY else []
        if strange:
            known = ", ".join(ROLES)
            raise _wrong(f"Invalid value {strange[0]} for configuration {key}: String must be one of: {known}")


def _demand_numbers(given: Mapping[str, str]) -> None:
    for name, text in given.items():
        key = BROKER_KEYS.get(name)
        if key is None or key.kind not in (Kind.BOOLEAN, Kind.INT, Kind.SHORT, Kind.LONG, Kind.DOUBLE):
            continue
        try:
            key.parse(text)
        except ConfigError:
            why = refusal(key, text.strip())
            raise _wrong(why.replace(NODE, BROKER) if name == NODE and "Not a number" in why else why) from None


def _demand_no_vote_of_a_broker(given: Mapping[str, str]) -> None:
    """A node that is no controller is not among the voters."""
    id = given.get(NODE, given.get(BROKER, "")).strip()
    voters = [text.partition("@")[0].strip() for text in given.get("controller.quorum.voters", "").split(",")]
    if {word.strip() for word in given[ROLES_KEY].split(",")} == {"broker"} and id in voters:
        what = f"the node id {id} must not be included in the set of voters controller.quorum.voters"
        shown = shown_numbers([int(one) for one in voters if one.isdecimal()])
        raise illegal_argument(f"requirement failed: If process.roles contains just the 'broker' role, {what}={shown}")


def _demand_ports(listeners: str) -> None:
    """Two listeners may have one port when one is of IPv4 and the other of IPv6."""
    texts = [text.strip() for text in listeners.split(",")]
    by_port: dict[str, list[str]] = {}
    for text in texts:
        host, _, port = text.partition("://")[2].rpartition(":")
        if port != "0":
            by_port.setdefault(port, []).append(host)
    shown = f"[{', '.join(texts)}]"
    for port, hosts in by_port.items():
        if len(hosts) == 2 and sorted(map(_family, hosts)) != [4, 6]:
            what = "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6"
            cause = illegal_argument(f"{what}, listeners: {shown}, port: {port}")
            raise JavaError(ILLEGAL_ARGUMENT, f"Error creating broker listeners from '{shown}': {cause.said}", cause)


def _family(host: str) -> int:
    """4 or 6; 0 for what is no number."""
    try:
        return ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return 0


def _wrong(message: str) -> JavaError:
    return JavaError(CONFIG_ERROR, message)
