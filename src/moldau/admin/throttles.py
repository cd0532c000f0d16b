"""The throttles of moves (KIP-73): set for the partitions of a plan, and taken away for them and no others.

A topic lists its throttled replicas as ``partition:broker``; entries of other partitions, or ``*``, are somebody else's
and stay. A broker's rate goes with the last entry that named it, and stays while any other topic still names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from moldau.admin.asking import Talk, note
from moldau.admin.main import fail
from moldau.client import admin
from moldau.client.admin import AlterOp, Resource, ResourceType
from moldau.terms import Code, TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
OWN = (1, 2)
"""The sources of a value that was set on the topic, or on the broker, itself."""
EVERYTHING = "*"
Changes = dict[Resource, list[tuple[str, AlterOp, str | None]]]


def throttle(
    talk: Talk, plan: Mapping[TopicPartition, Sequence[int]], current: Mapping[TopicPartition, Sequence[int]], rate: int
) -> None:
    """Hold leaders back in what they send of moving partitions, and newcomers in what they fetch."""
    entries: dict[str, tuple[list[str], list[str]]] = {}
    brokers: set[int] = set()
    for partition, wanted in sorted(plan.items()):
        new = [r for r in wanted if r not in current[partition]]
        if new:
            leaders, followers = entries.setdefault(partition.topic, ([], []))
            leaders += [f"{partition.partition}:{r}" for r in current[partition]]
            followers += [f"{partition.partition}:{r}" for r in new]
            brokers.update(current[partition], wanted)
    changes: Changes = {
        Resource(ResourceType.BROKER, str(id)): [(key, AlterOp.SET, str(rate)) for key in RATES]
        for id in sorted(brokers)
    }
    for topic, before in _listed(talk, entries).items():
        merged = [_merged(before[key], ours) for key, ours in zip(REPLICAS, entries[topic], strict=True)]
        changes[Resource(ResourceType.TOPIC, topic)] = [
            (key, AlterOp.SET, ",".join(texts)) for key, texts in zip(REPLICAS, merged, strict=True)
        ]
    _change(talk, changes)


def unthrottle(talk: Talk, partitions: Iterable[TopicPartition]) -> None:
    """Take the throttles of these partitions away."""
    numbers: dict[str, set[str]] = {}
    for partition in partitions:
        numbers.setdefault(partition.topic, set()).add(str(partition.partition))
    changes, named, in_use = _without(_listed(talk, talk.cluster.topics()), numbers)
    if EVERYTHING not in in_use:
        changes |= _rates(talk, sorted(named - in_use))
    if changes:
        _change(talk, changes)
        note("throttles are taken away.")


def _without(
    listed: Mapping[str, Mapping[str, list[str]]], numbers: Mapping[str, set[str]]
) -> tuple[Changes, set[str], set[str]]:
    """The lists without the entries of these partitions; the brokers that those named, and those still named."""
    changes: Changes = {}
    named: set[str] = set()
    in_use: set[str] = set()
    for topic, lists in listed.items():
        for key, entries in lists.items():
            ours = [entry for entry in entries if entry.partition(":")[0] in numbers.get(topic, ())]
            left = [entry for entry in entries if entry not in ours]
            named.update(entry.partition(":")[2] for entry in ours)
            in_use.update(entry.partition(":")[2] or EVERYTHING for entry in left)
            if ours:
                change = (key, AlterOp.SET, ",".join(left)) if left else (key, AlterOp.DELETE, None)
                changes.setdefault(Resource(ResourceType.TOPIC, topic), []).append(change)
    return changes, named, in_use


def _rates(talk: Talk, brokers: Sequence[str]) -> Changes:
    """What takes the rates away that are set on these brokers; on those that live, the others cannot be asked."""
    alive = talk.cluster.brokers()
    resources = [Resource(ResourceType.BROKER, id) for id in brokers if int(id) in alive]
    described = talk.ask(admin.describe_configs, resources, keys=RATES) if resources else {}
    changes: Changes = {}
    for resource, (outcome, entries) in described.items():
        found = [key for key in RATES if outcome.ok and key in entries and entries[key].source in OWN]
        if found:
            changes[resource] = [(key, AlterOp.DELETE, None) for key in found]
    return changes


def _listed(talk: Talk, topics: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """The throttled replicas that topics list, by topic and key."""
    resources = [Resource(ResourceType.TOPIC, name) for name in topics]
    described = talk.ask(admin.describe_configs, resources, keys=REPLICAS) if resources else {}
    found: dict[str, dict[str, list[str]]] = {}
    for resource, (_, entries) in described.items():
        texts = {key: entries[key].value if key in entries and entries[key].source in OWN else "" for key in REPLICAS}
        found[resource.name] = {key: [one for one in (text or "").split(",") if one] for key, text in texts.items()}
    return found


def _merged(before: Sequence[str], ours: Sequence[str]) -> list[str]:
    """A list with our entries; one of everything is enough as it is."""
    return list(before) if EVERYTHING in before else list(dict.fromkeys([*before, *ours]))


def _change(talk: Talk, changes: Changes) -> None:
    for resource, outcome in (talk.ask(admin.alter_configs, changes) if changes else {}).items():
        if outcome.code is not Code.NONE:
            fail(f"{resource.type.name.lower()} {resource.name}: {outcome.code.name}: {outcome.message}")
