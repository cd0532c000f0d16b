"""Quotas of users, clients and addresses: which entities may have which, and which values (KIP-13, KIP-124, KIP-546).

Pure tables and checks with Kafka's words. An entity is a mapping of types to names; None names the default entity.
Names of addresses are IP addresses: no name of a host is looked up here. Read next: ``moldau.image.quotas``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from moldau.model.config_key import INT_MAX, LONG_MAX, shown

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCE, FETCH, REQUEST, MUTATION = (
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
)  # fmt: skip
CONNECTION = "connection_creation_rate"
ANONYMOUS = "ANONYMOUS"
"""The user of every connection that nobody has authenticated."""

EntityParts = Sequence[tuple[str, str | None]]
"""(type, name) pairs; None is the default name."""

_WHOLE_MAX: dict[str, int | None] = {PRODUCE: LONG_MAX, FETCH: LONG_MAX, REQUEST: None, MUTATION: None}
_WHOLE_MAX_OF_ADDRESSES: dict[str, int | None] = {CONNECTION: INT_MAX}
_EPSILON = 1e-6


def wrong_entity(parts: EntityParts) -> str | None:
    """What is wrong with an entity that is to have quotas; None when nothing is."""
    types = [type for type, _ in parts]
    if not types:
        return "Invalid empty client quota entity"
    for type, name in parts:
        if type not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {shown(type)}"
        if types.count(type) > 1:
            return f"Invalid client quota entity, duplicate entity entry {type}"
        if name == "":
            return f"Empty {type} not supported"
    if IP in types:
        if len(types) > 1:
            return "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        name = parts[0][1]
        if name is not None and not is_address(name):
            return f"{shown(name)} is not a valid IP; names of hosts are not looked up."
    return None


def wrong_quota(parts: EntityParts, key: str, value: float) -> str | None:
    """What is wrong with one quota of an entity that is right; None when nothing is."""
    known = keys_of(parts)
    if key not in known:
        return f"Invalid configuration key {shown(key)}"
    if not math.isfinite(value):
        return f"Quota {key} must be a finite number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    most = known[key]
    if most is None:
        return None
    if value > most:
        return f"Proposed value for {key} is too large for {'an INT' if most == INT_MAX else 'a LONG'}."
    if math.fmod(value, 1.0) > _EPSILON:
        return f"{key} cannot be a fractional value."
    return None


def keys_of(parts: EntityParts) -> dict[str, int | None]:
    """The quotas that an entity may have, each with the largest whole number, or None where it may be fractional."""
    return _WHOLE_MAX_OF_ADDRESSES if any(type == IP for type, _ in parts) else _WHOLE_MAX


def is_address(name: str) -> bool:
    """Whether a name is an IP address as it is written."""
    from ipaddress import ip_address  # seldom needed, and 1.4 ms of a broker's start

    try:
        ip_address(name)
    except ValueError:
        return False
    return True
