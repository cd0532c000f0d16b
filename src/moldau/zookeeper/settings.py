"""Config entities as metadata records and back: topics, brokers, groups, quotas of users, clients and addresses, SCRAM.

An entity is a path below /config, ``users/alice/clients/<default>``. A key that means nothing here is no record, and
stays in its znode. Source: KIP-55 and KIP-546 (quotas), KIP-84 (SCRAM), KIP-226 (brokers), KIP-612 (addresses).
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterable, Mapping

from moldau.image.quotas import Entity, entity, quota_record
from moldau.model.config_key import ConfigError
from moldau.model.dynamic_config import DYNAMIC_KEYS
from moldau.model.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS
from moldau.model.named import NamedTuple
from moldau.model.topic_config import TOPIC_KEYS
from moldau.model.topic_defaults import check_default
from moldau.wire.records.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.payload import INT_MAX, TEXT_MAX

RESOURCES = {2: "topics", 4: "brokers", 16: "client-metrics", 32: "groups"}
"""Kafka's number of a kind of resource -> its folder."""

_KINDS = {folder: kind for kind, folder in RESOURCES.items()}
_WHOLE = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
"""Quotas that Kafka writes as whole numbers; the others have a decimal point."""
_QUOTAS = _WHOLE | {"request_percentage", "controller_mutation_rate"}
_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_QUOTA_FOLDERS = {"user": "users", "client-id": "clients", "ip": "ips"}
_QUOTA_KINDS = {folder: kind for kind, folder in _QUOTA_FOLDERS.items()}
_KEYS = {"topics": TOPIC_KEYS, "brokers": DYNAMIC_KEYS, "client-metrics": CLIENT_METRICS_KEYS, "groups": GROUP_KEYS}
_SHOWN = 100
"""Characters of a bad value that an error shows."""


class EntitySetting(NamedTuple):
    """One key of one entity; ``value`` None takes it away."""

    entity: str
    key: str
    value: str | None


def entity_of(kind: int, name: str) -> str:
    """The entity of a resource, given Kafka's number of its kind."""
    return f"{RESOURCES[kind]}/{_part(name)}"


def quota_entity_of(parts: Iterable[tuple[str, str | None]]) -> str:
    """The path of an entity that has quotas, given its (type, name) pairs; None is the default name."""
    named = dict(parts)
    return "/".join(f"{folder}/{_part(named[kind] or '')}" for kind, folder in _QUOTA_FOLDERS.items() if kind in named)


def quota_entity(path: str) -> Entity | None:
    """The entity that may have quotas under such a path; None when it is about something else."""
    parts = path.split("/")
    if len(parts) % 2 or any(each not in _QUOTA_KINDS for each in parts[::2]):
        return None
    return entity((_QUOTA_KINDS[each], _name(name) or None) for each, name in zip(parts[::2], parts[1::2], strict=True))


def setting_of(record: object) -> EntitySetting | None:
    """What a record means for a config entity; None when it is about something else."""
    match record:
        case ConfigRecord():
            return EntitySetting(entity_of(record.resource_type, record.resource_name), record.name, record.value)
        case ClientQuotaRecord():
            entity = quota_entity_of([(each.entity_type, each.entity_name) for each in record.entity])
            value = str(int(record.value + 1e-6)) if record.key in _WHOLE else str(float(record.value))
            return EntitySetting(entity, record.key, None if record.remove else value)
        case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
            mechanism = next(name for name, number in _MECHANISMS.items() if number == record.mechanism)
            text = _credential(record) if isinstance(record, UserScramCredentialRecord) else None
            return EntitySetting(f"users/{_part(record.name)}", mechanism, text)
        case _:
            return None


def judged(entity: str, settings: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings that may be acted upon, and a complaint about each of the others that names entity, key and value.

    Whoever wrote a znode was asked by nobody what it may hold: a value is taken within the bounds of the releases that
    may have written it, and any other is left out by itself. Keys that mean nothing here are nobody's business.

    >>> judged("topics/t", {"retention.ms": "abc", "segment.bytes": "14"})[0]
    {'segment.bytes': '14'}
    """
    known = _KEYS.get(entity.partition("/")[0], {})
    good: dict[str, str] = {}
    complaints: list[str] = []
    for name, text in settings.items():
        key = known.get(name)
        try:
            if len(text.encode()) > TEXT_MAX or len(name.encode()) > TEXT_MAX:
                raise ConfigError("no record can hold it")
            if key is not None:
                key.parse_existing(text)
                check_default(name, text, existing=True)
            good[name] = text
        except ConfigError:
            allowed = "" if key is None else f": {key.allowed()} is expected"
            shown = f"{text!r:.{_SHOWN}}"
            complaints.append(f"{entity} has {name!r:.{_SHOWN}} = {shown}{allowed}")
    return good, complaints


def records_of(path: str, settings: Mapping[str, str]) -> list[Message]:
    """An entity's settings as records, by key; [] for an entity of which nothing is known."""
    folder, *rest = path.split("/")
    if len(rest) == 1 and folder in _KINDS:
        name = _name(rest[0])
        return [
            ConfigRecord(resource_type=_KINDS[folder], resource_name=name, name=key, value=settings[key])
            for key in sorted(settings)
        ]
    of = quota_entity(path)
    if of is None:
        return []
    found: list[Message] = []
    for key in sorted(settings):
        record: Message | None = _quota(of, key, settings[key])
        if record is None and len(of) == 1 and of[0][0] == "user" and of[0][1] and key in _MECHANISMS:
            record = _parsed_credential(of[0][1], key, settings[key])
        if record is not None:
            found.append(record)
    return found


def _quota(of: Entity, key: str, value: str) -> ClientQuotaRecord | None:
    if key not in _QUOTAS:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return quota_record(of, key, number)


def _credential(record: UserScramCredentialRecord) -> str:
    salt, stored, server = (
        binascii.b2a_base64(bytes(each), newline=False).decode()
        for each in (record.salt, record.stored_key, record.server_key)
    )
    return f"salt={salt},stored_key={stored},server_key={server},iterations={record.iterations}"


def _parsed_credential(user: str, mechanism: str, text: str) -> UserScramCredentialRecord | None:
    parts = dict(each.partition("=")[::2] for each in text.split(","))
    try:
        if not 0 < int(parts["iterations"]) <= INT_MAX:
            return None
        return UserScramCredentialRecord(
            name=user,
            mechanism=_MECHANISMS[mechanism],
            salt=binascii.a2b_base64(parts["salt"]),
            stored_key=binascii.a2b_base64(parts["stored_key"]),
            server_key=binascii.a2b_base64(parts["server_key"]),
            iterations=int(parts["iterations"]),
        )
    except (KeyError, ValueError):
        return None


def _part(name: str) -> str:
    return paths.sanitized(name) if name else paths.DEFAULT_ENTITY


def _name(part: str) -> str:
    return "" if part == paths.DEFAULT_ENTITY else paths.plain(part)
