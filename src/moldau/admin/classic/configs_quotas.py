"""Quotas as kafka-configs.sh describes and alters them: of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from decimal import Decimal
from itertools import zip_longest
from math import inf, isnan

from moldau.admin.classic.configs_entities import Entities
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.java_values import java_double
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.admin.classic.session import ToolSession, checked
from moldau.client import quotas
from moldau.client.quotas import ANY, DEFAULT, EXACT, Component, Quotas

KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
TITLES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_RATES = ("connection_creation_rate",)
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
UNSERVED = "SCRAM credentials are not served by Moldau's tools yet"


def describe(session: ToolSession, entities: Entities) -> None:
    """Print the quotas of the entities that were asked for."""
    for one in _quotas(session, entities):
        parts = []
        for kind in TITLES:
            if kind in one.entity:
                name = one.entity[kind]
                parts.append(f"the default {TITLES[kind]}" if name is None else f"{TITLES[kind]} '{name}'")
        values = ", ".join(f"{key}={double_text(value)}" for key, value in one.values.items())
        print(f"Quota configs for {', '.join(parts)} are {values}")


def alter(session: ToolSession, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    """Set quotas and take them away; JavaError when a key is none."""
    _check_keys(entities, added, deleted)
    old = next((one.values for one in _quotas(session, entities)), {})
    unknown = [key for key in deleted if key not in old]
    if unknown:
        raise JavaError(f"{PACKAGE}InvalidConfigurationException", f"Invalid config(s): {','.join(unknown)}")
    changes: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            changes[key] = java_double(text)
        except ValueError:
            raise illegal_argument(f"Cannot parse quota configuration value for {key}: {text}") from None
    changes.update(dict.fromkeys(deleted))
    entity = {KINDS[type]: name or None for type, name in zip(entities.types, entities.names, strict=True)}
    checked(session.ask("alterClientQuotas", quotas.alter_quotas, entity, changes))


def _check_keys(entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    if entities.type == "ips":
        unknown = [key for key in (*added, *deleted) if key not in IP_RATES]
        if unknown:
            what = "Only connection quota configs can be added for 'ips' using --bootstrap-server."
            raise illegal_argument(f"{what} Unexpected config names: {','.join(unknown)}")
        return
    of_user = entities.types == ["users"]
    allowed = (*RATES, *SCRAM) if of_user else RATES
    what = "quota and SCRAM credential configs" if of_user else "quota configs"
    title = "users" if of_user else "clients"
    for keys, done, shown in ((list(added), "added", "Set"), (deleted, "deleted", "ArrayBuffer")):
        unknown = [key for key in keys if key not in allowed]
        if unknown:
            text = f"Only {what} can be {done} for '{title}' using --bootstrap-server."
            raise illegal_argument(f"{text} Unexpected config names: {shown}({', '.join(unknown)})")
    keys = [*added, *deleted]
    if any(key in SCRAM for key in keys):
        if not all(entities.names):
            text = "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials"
            raise illegal_argument(f"{text} using --bootstrap-server.")
        if any(key not in SCRAM for key in keys):
            text = "Cannot alter both quota and SCRAM credential configs simultaneously for 'users'"
            raise illegal_argument(f"{text} using --bootstrap-server.")
        raise illegal_argument(UNSERVED)


def _quotas(session: ToolSession, entities: Entities) -> list[Quotas]:
    components = []
    for type, name in zip_longest(entities.types, entities.names):
        if type is None:
            raise illegal_argument("More entity names specified than entity types")
        match = ANY if name is None else EXACT if name else DEFAULT
        components.append(Component(KINDS[type], match, name or None))
    outcome, found = session.ask("describeClientQuotas", quotas.describe_quotas, components)
    checked(outcome)
    return [found[at] for at in hash_order(range(len(found)), lambda at: _entity_hash(found[at]), len(found))]


def _entity_hash(one: Quotas) -> int:
    """ClientQuotaEntity.hashCode of Kafka's client."""
    parts = (string_hash(kind) ^ string_hash(name or "") for kind, name in one.entity.items())
    return 31 + sum(parts) & 0xFFFFFFFF


def double_text(value: float) -> str:
    """As Java writes a double (JDK 19 and later: the shortest digits that mean it).

    >>> [double_text(one) for one in (0.5, 1e7, 123456789.0, 1.5e-5, float("inf"), float("nan"))]
    ['0.5', '1.0E7', '1.23456789E8', '1.5E-5', 'Infinity', 'NaN']
    """
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{Decimal(repr(value)).adjusted()}"
