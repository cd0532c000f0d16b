"""Feature levels: what this version of Moldau supports, what an empty log begins with, updates; and producer id blocks.

Source: KIP-584, KIP-778 (metadata.version), KIP-966 (ELR), KIP-730 (producer ids). Levels are Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller import failures
from moldau.controller.facts import ELR_FEATURE, FINE, Decision, DecisionContext, Problem, Settings
from moldau.controller.migration import MigrationState
from moldau.controller.replies import FeaturesUpdated, ProducerIdsAllocated, Refused
from moldau.controller.requests import AllocateProducerIds, FeatureUpdate, UpdateFeatures
from moldau.image import FeatureRange, Image
from moldau.image.configs import CLUSTER, ResourceType
from moldau.image.snapshot import METADATA_VERSION
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.wire.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from moldau.wire.schema import Message

METADATA_LEVEL = 25
"""metadata.version 4.0-IV3: what a new cluster begins with, so that Kafka 4.0 can join it."""
OLDEST_LEVEL = 21
"""metadata.version 3.9-IV0: what Kafka 3.9 formats. Its records are those of 23, but for what is of an ELR."""
ELR_LEVEL = 23
"""metadata.version 4.0-IV1: the first whose partitions can hold an ELR (KIP-966)."""
NEWEST_LEVEL = 30
"""metadata.version 4.3-IV0: the newest whose records are all known here."""

NEW_METADATA = frozenset({ELR_LEVEL, 30})
"""Levels of metadata.version that brought metadata which a lower level cannot hold (ELR, KIP-966; cordoned directories,
KIP-1066): once in force there is no way down, or brokers of Apache Kafka end at what they find."""

CARRIED: tuple[FeatureRange, ...] = (
    FeatureRange("group.version", 0, 1),
    FeatureRange("share.version", 0, 1),
    FeatureRange("streams.version", 0, 1),
    FeatureRange("transaction.version", 0, 2),
)
"""Features of a cluster that Apache Kafka made: this version of Moldau lives in it and keeps their levels, but serves
nothing of what they promise. So its controller lowers them where it is asked to, and raises none."""

SUPPORTED: tuple[FeatureRange, ...] = (
    FeatureRange(METADATA_VERSION, OLDEST_LEVEL, NEWEST_LEVEL),
    FeatureRange(ELR_FEATURE, 0, 1),
    *CARRIED,
)
"""The features whose levels are in the metadata, and which of them this version supports."""

REGISTERED: tuple[FeatureRange, ...] = (*SUPPORTED, FeatureRange("kraft.version", 0, 1))
"""What a node of this version says it supports when it registers: also the level of the quorum's own log, or a
controller of Apache Kafka would refuse it where voters are in the log (KIP-853)."""

PRODUCER_ID_BLOCK = 1000
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_LAST_PRODUCER_ID = 2**63 - 1


def bootstrap_records(settings: Settings, features: dict[str, int] | None = None) -> list[Message]:
    """The first records of an empty log: feature levels, and the min.insync.replicas that all must agree on (KIP-966).

    A cluster that comes from ZooKeeper begins without an ELR, which ZooKeeper could not hold on the way back.
    ``features`` overrides levels (``moldau storage format --feature``); level 0 leaves one out.
    """
    levels = {METADATA_VERSION: METADATA_LEVEL, ELR_FEATURE: 0 if settings.migrating else 1, **(features or {})}
    records: list[Message] = [
        FeatureLevelRecord(name=name, feature_level=levels[name])
        for name in sorted(levels, key=lambda name: (name != METADATA_VERSION, name))
        if levels[name]
    ]
    if levels[ELR_FEATURE]:
        records.append(_agreed_min_isr(settings))
    if settings.migrating:
        records.append(ZkMigrationStateRecord(zk_migration_state=MigrationState.PRE_MIGRATION))
    return records


def with_agreed_min_isr(settings: Settings, records: Sequence[Message]) -> list[Message]:
    """First records that somebody else has chosen, with the min.insync.replicas that all must agree on where an ELR is
    kept."""
    elr = any(isinstance(one, FeatureLevelRecord) and one.name == ELR_FEATURE and one.feature_level for one in records)
    agreed = any(isinstance(one, ConfigRecord) and one.name == "min.insync.replicas" for one in records)
    return [*records, *([_agreed_min_isr(settings)] if elr and not agreed else ())]


def _agreed_min_isr(settings: Settings) -> ConfigRecord:
    name = "min.insync.replicas"
    value = settings.static.get(name, BROKER_KEYS[name].text(BROKER_KEYS[name].default))
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=CLUSTER, name=name, value=value)


def update_features(context: DecisionContext, request: UpdateFeatures) -> Decision:
    """Raise or lower levels, all or none: one refused update refuses the request (KIP-584 v2)."""
    results = []
    records: list[Message] = []
    proposed = {**context.image.features, **{update.feature: update.level for update in request.updates}}
    for update in request.updates:
        problem = _refusal(context, update)
        if problem is FINE and update.feature == ELR_FEATURE and update.level:
            problem = _needs_level(proposed.get(METADATA_VERSION, 0))
        results.append((update.feature, problem))
        if problem is FINE:
            records += _update(context, update)
    bad = next(((name, problem) for name, problem in results if problem is not FINE), None)
    if bad is not None:
        name, problem = bad
        none = Problem(problem.code, f"No update was made: {name}: {problem.message}")
        results = [(each, p if p is not FINE else none) for each, p in results]
        return Decision([], FeaturesUpdated(features=tuple(results), code=problem.code, message=problem.message))
    reply = FeaturesUpdated(features=tuple(results))
    if request.validate_only:
        return Decision([], reply)
    return Decision(records + _consequences(context, records), reply)


def _consequences(context: DecisionContext, records: list[Message]) -> list[Message]:
    """What it means for partitions that an ELR is kept from now on, or no longer."""
    after = context.image.with_settings(records)
    then = DecisionContext(after, context.soft_state, context.facts)
    if then.elr == context.elr:
        return []
    keys = {p.key for p in after.leaderless()} if then.elr else after.index.eligible
    return failures.restate(then, keys)


def _update(context: DecisionContext, update: FeatureUpdate) -> list[Message]:
    records: list[Message] = []
    if context.image.features.get(update.feature, 0) == update.level:
        return records
    records.append(FeatureLevelRecord(name=update.feature, feature_level=update.level))
    if update.feature == ELR_FEATURE and update.level:
        if "min.insync.replicas" not in context.image.config(ResourceType.BROKER, CLUSTER):
            records.append(_agreed_min_isr(context.settings))
        for (kind, name), settings in sorted(context.image.configs.items()):
            if kind == ResourceType.BROKER and name != CLUSTER and "min.insync.replicas" in settings:
                gone = ConfigRecord(resource_type=kind, resource_name=name, name="min.insync.replicas", value=None)
                records.append(gone)
    return records


def _refusal(context: DecisionContext, update: FeatureUpdate) -> Problem:
    """FINE, or why a level cannot be set: nobody may be left behind, and going down must be asked for."""
    known = {feature.name: feature for feature in SUPPORTED}
    feature = known.get(update.feature)
    if feature is None:
        return Problem(Code.INVALID_UPDATE_VERSION, f"{update.feature} is not a supported feature.")
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return Problem(Code.INVALID_UPDATE_VERSION, "The controller does not support the given upgrade type.")
    now = context.image.features.get(update.feature, 0)
    if update.level < now and update.upgrade_type == _UPGRADE:
        why = f"Can't downgrade the version of this feature ({now}) without setting the upgrade type to a downgrade."
        return Problem(Code.INVALID_UPDATE_VERSION, why)
    if update.level > now and update.upgrade_type != _UPGRADE:
        return Problem(Code.INVALID_UPDATE_VERSION, "Can't downgrade to a newer version.")
    if feature in CARRIED and update.level > now:
        why = f"{update.feature} promises what Moldau does not serve yet: only a controller of Apache Kafka raises it."
        return Problem(Code.INVALID_UPDATE_VERSION, why)
    if update.feature == METADATA_VERSION and any(update.level < level <= now for level in NEW_METADATA):
        what = f"Unsupported metadata.version downgrade from {now} to {update.level}."
        if update.upgrade_type == _UNSAFE_DOWNGRADE:
            return Problem(Code.INVALID_UPDATE_VERSION, f"{what} Unsafe metadata downgrade is not supported.")
        why = f"{what} Refusing to perform the requested downgrade because it might delete metadata information."
        return Problem(Code.INVALID_UPDATE_VERSION, why)
    if not feature.low <= update.level <= feature.high:
        why = f"The controller supports {feature.low} to {feature.high} of {update.feature}, not {update.level}."
        return Problem(Code.INVALID_UPDATE_VERSION, why)
    if update.feature == ELR_FEATURE and context.image.zk_migration_state == MigrationState.MIGRATION:
        return Problem(Code.INVALID_UPDATE_VERSION, "ZooKeeper holds no ELR, and the migration is not finished yet.")
    if update.feature == ELR_FEATURE and not update.level:
        lost = [p for p in context.image.leaderless() if not p.isr]
        if lost:  # without an ELR nobody would know any more who may lead them
            why = f"{len(lost)} partition(s) have no in-sync replica; bring one back or elect a leader first."
            return Problem(Code.INVALID_UPDATE_VERSION, why)
    for kind, nodes in (("Broker", context.image.brokers), ("Controller", context.image.controllers)):
        for node in nodes.values():
            offered = {f.name: f for f in node.features}
            if offered and not _supports(offered.get(update.feature), update.level):
                why = f"{kind} {node.id} does not support level {update.level} of {update.feature}."
                return Problem(Code.INVALID_UPDATE_VERSION, why)
    return FINE


def _needs_level(level: int) -> Problem:
    """FINE where partitions can hold an ELR at a level of metadata.version."""
    if level >= ELR_LEVEL:
        return FINE
    why = f"{ELR_FEATURE} could not be set to 1 because it depends on {METADATA_VERSION} level {ELR_LEVEL}"
    return Problem(Code.INVALID_UPDATE_VERSION, why)


def _supports(offered: FeatureRange | None, level: int) -> bool:
    return level == 0 if offered is None else offered.low <= level <= offered.high


def allocate_producer_ids(context: DecisionContext, request: AllocateProducerIds) -> Decision:
    """Hand a broker the next thousand producer ids; none is ever handed out twice."""
    if context.stale(request.broker_id, request.broker_epoch):
        return Decision([], Refused(Code.STALE_BROKER_EPOCH, "The broker is not registered under that epoch."))
    start = context.image.next_producer_id
    if start > _LAST_PRODUCER_ID - PRODUCER_ID_BLOCK:
        return Decision([], Refused(Code.UNKNOWN_SERVER_ERROR, "All producer ids have been handed out."))
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + PRODUCER_ID_BLOCK
    )
    return Decision([record], ProducerIdsAllocated(start=start, length=PRODUCER_ID_BLOCK))


def is_empty(image: Image) -> bool:
    """Whether nothing was ever written: the first controller then writes the bootstrap records."""
    return not image.features
