"""Settings that may be changed while the cluster runs: of topics, brokers, groups, client metrics. Checked by tables.

A resource's changes are taken as a whole or not at all. What must fit together is in
``config_rules.py``, which value wins in ``moldau.image.configs``.
Changing min.insync.replicas clears eligible leader replicas that the old value made, and allowing unclean elections
elects for leaderless partitions at once. Source: KIP-226, KIP-339, KIP-966.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from moldau.controller import failures
from moldau.controller.batched import Work, batched
from moldau.controller.config_rules import wrong_together
from moldau.controller.facts import FINE, Decision, DecisionContext, Problem
from moldau.controller.replies import ConfigsAltered, Done
from moldau.controller.requests import AdoptConfigs, AlterConfigs, ConfigChange, IncrementalAlterConfigs, Operation
from moldau.controller.sizes import settings_too_large
from moldau.image import NO_LEADER
from moldau.image.configs import CLUSTER, ResourceType, broker_number
from moldau.model import Code
from moldau.model.config_key import ConfigError, ConfigKey, Kind, shown
from moldau.model.dynamic_config import DYNAMIC_KEYS, refused_names
from moldau.model.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS
from moldau.model.topic_config import TOPIC_KEYS, check_offered
from moldau.wire.records.metadata import ClientQuotaRecord, ConfigRecord
from moldau.wire.schema import Message

_MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def incremental_alter_configs(context: DecisionContext, request: IncrementalAlterConfigs) -> Work:
    """Set, delete, append to or subtract from single keys."""
    return _alter(context, request.resources, request.validate_only, whole=False)


def alter_configs(context: DecisionContext, request: AlterConfigs) -> Work:
    """Replace all settings of each resource."""
    return _alter(context, request.resources, request.validate_only, whole=True)


def _alter(context: DecisionContext, resources: Sequence[ConfigChange], validate_only: bool, *, whole: bool) -> Work:
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)

    def alter(context: DecisionContext, resource: ConfigChange) -> tuple[list[Message], tuple[int, str, Problem]]:
        key = (resource.resource_type, resource.resource_name)
        if named[key] > 1:
            return [], (*key, Problem(Code.INVALID_REQUEST, "Each resource must appear at most once."))
        outcome = _changes(context, resource, whole)
        if isinstance(outcome, Problem):
            return [], (*key, outcome)
        return [] if validate_only else outcome, (*key, FINE)

    records, results = yield from batched(context, resources, alter, _with_consequences)
    return Decision(records, ConfigsAltered(resources=tuple(results)))


def _with_consequences(context: DecisionContext, records: Sequence[Message]) -> list[Message]:
    return [*records, *_consequences(context, records)]


def _changes(context: DecisionContext, resource: ConfigChange, whole: bool) -> list[Message] | Problem:
    """Records of one resource, or what is wrong with it."""
    keys = _keys_of(context, resource)
    if isinstance(keys, Problem):
        return keys
    now = context.image.config(resource.resource_type, resource.resource_name)
    wanted: dict[str, str | None] = dict.fromkeys(now) if whole else {}
    count = Counter(name for name, _, _ in resource.changes)
    bad_value = Code.INVALID_CONFIG
    if resource.resource_type == ResourceType.BROKER:
        bad_value = Code.INVALID_REQUEST  # as Kafka answers (KAFKA-13609)
        made = (name for name, operation, _ in resource.changes if operation != Operation.DELETE or name not in now)
        why = refused_names(made, of_cluster=resource.resource_name == CLUSTER)
        if why is not None:
            return Problem(Code.INVALID_REQUEST, why)
    for name, operation, value in resource.changes:
        if count[name] > 1:
            return Problem(Code.INVALID_REQUEST, f"The key {shown(name)} is named more than once.")
        outcome = _new_value(keys.get(name), (name, operation, value), now.get(name), bad_value)
        if isinstance(outcome, Problem):
            of_metrics = resource.resource_type == ResourceType.CLIENT_METRICS  # KIP-714 knows one code for all of it
            return Problem(Code.INVALID_REQUEST, outcome.message) if of_metrics else outcome
        wanted[name] = outcome.get(name)
    after = {name: text for name, text in {**now, **wanted}.items() if text is not None}
    wrong = wrong_together(context, resource.resource_type, after) if any(wanted.values()) else None
    wrong = wrong or settings_too_large(context.settings, after)
    if wrong is not None:
        return wrong
    if context.elr and resource.resource_name == CLUSTER and wanted.get(_MIN_ISR, "") is None:
        why = f"{_MIN_ISR} must stay set for the whole cluster while eligible leader replicas are kept."
        return Problem(Code.INVALID_CONFIG, why)
    return [
        ConfigRecord(resource_type=resource.resource_type, resource_name=resource.resource_name, name=name, value=value)
        for name, value in sorted(wanted.items())
        # An unchanged broker setting is written again: it makes brokers reload key and trust stores (KAFKA-14136).
        if value != now.get(name) or (resource.resource_type == ResourceType.BROKER and value is not None)
    ]


def _keys_of(context: DecisionContext, resource: ConfigChange) -> Mapping[str, ConfigKey] | Problem:
    """The keys that a resource may have, or why it cannot be changed at all."""
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            if not name:
                return Problem(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
            if name not in context.image.names:
                return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
            return TOPIC_KEYS
        case ResourceType.BROKER:
            if name == CLUSTER:
                return DYNAMIC_KEYS
            id = broker_number(name)
            if id is None:
                return Problem(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {shown(name)}")
            if id not in context.image.brokers and id not in context.image.controllers:
                return Problem(Code.BROKER_ID_NOT_REGISTERED, f"No broker or controller with id {name} is registered.")
            # With an ELR all must agree on min.insync.replicas, so that one broker cannot have its own (KIP-966).
            return {key: known for key, known in DYNAMIC_KEYS.items() if not (context.elr and key == _MIN_ISR)}
        case ResourceType.GROUP:
            return GROUP_KEYS if name else Problem(Code.INVALID_REQUEST, "Default group resources are not allowed.")
        case ResourceType.CLIENT_METRICS:
            return CLIENT_METRICS_KEYS if name else Problem(Code.INVALID_REQUEST, "Subscription name can't be empty")
        case _:
            kind = resource.resource_type
            return Problem(Code.INVALID_REQUEST, f"Settings of resource type {kind} cannot be changed here.")


def _new_value(
    key: ConfigKey | None, change: tuple[str, int, str | None], now: str | None, bad_value: Code
) -> dict[str, str] | Problem:
    """The text that a key will have ({} when it goes), or what is wrong."""
    name, operation, value = change
    if key is None:
        if operation == Operation.DELETE and now is not None:
            return {}  # of an older or newer version, and not wanted any more
        if name == _MIN_ISR:
            return Problem(Code.INVALID_CONFIG, f"{name} is the cluster's or a topic's while an ELR is kept (KIP-966).")
        return Problem(Code.INVALID_CONFIG, f"Unknown config name: {shown(name)}")
    if operation == Operation.DELETE:
        return {}
    if value is None:
        return Problem(Code.INVALID_REQUEST, f"Null value not supported for: {shown(name)}")
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        if key.kind is not Kind.LIST:
            word = Operation(operation).name
            return Problem(Code.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST.")
        members = [m for m in (key.text(key.default) or "" if now is None else now).split(",") if m]
        if operation == Operation.APPEND:
            members += [m for m in value.split(",") if m and m not in members]
        else:
            members = [m for m in members if m not in value.split(",")]
        value = ",".join(members)
    elif operation != Operation.SET:
        return Problem(Code.INVALID_REQUEST, f"Unknown operation {operation} for key {name}.")
    try:
        key.parse(value)
        check_offered(name, value)
    except ConfigError as error:
        return Problem(bad_value, str(error))
    return {name: value}


def adopt_configs(context: DecisionContext, request: AdoptConfigs) -> Decision:
    """Take settings over that stand already, as they are, with what they mean for partitions at once."""
    there = context.image.names
    records = [
        record
        for record in request.records
        if isinstance(record, ClientQuotaRecord)
        or record.resource_type != ResourceType.TOPIC
        or record.resource_name in there
    ]
    return Decision([*records, *_consequences(context, records)], Done())


def checked_new_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str] | Problem:
    """Settings of a topic that is being created: known keys, good values."""
    good: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            return Problem(Code.INVALID_CONFIG, f"Null value not supported for topic configs: {shown(name)}")
        key = TOPIC_KEYS.get(name)
        if key is None:
            return Problem(Code.INVALID_CONFIG, f"Unknown topic config name: {shown(name)}")
        try:
            key.parse(value)
            check_offered(name, value)
        except ConfigError as error:
            return Problem(Code.INVALID_CONFIG, str(error))
        good[name] = value
    return good


def _consequences(context: DecisionContext, records: Sequence[Message]) -> list[Message]:
    """What changed settings mean for partitions at once."""
    names = {record.name for record in records if isinstance(record, ConfigRecord)}
    if not names & {_MIN_ISR, _UNCLEAN}:
        return []
    after = context.image.with_settings(record for record in records if isinstance(record, ConfigRecord))
    then = DecisionContext(after, context.soft_state, context.facts)
    changes: list[Message] = []
    if _MIN_ISR in names and context.elr:
        changes += failures.restate(then, (key for key in after.index.eligible if after.at(key).leader != NO_LEADER))
    if _UNCLEAN in names:
        changes += failures.elect_leaderless(then, after.index.led.get(NO_LEADER, ()))
    return changes
