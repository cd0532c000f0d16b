"""What of an Apache Kafka cluster would not work on brokers of Moldau, as the cluster itself tells it over the wire.

What a check cannot ask, it says so. Message formats are in the files: `moldau doctor server.properties` names older
ones, and so does a node as it starts. Read next: adopt.py, file_checks.py (a node's server.properties),
docs/interchange.md.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.admin.adopt_mode import folders, migrating_brokers, mode, session_times
from moldau.admin.asking import silent_brokers
from moldau.admin.each_broker import told_directories
from moldau.admin.findings import ERROR, NOTE, WARNING, Finding, some
from moldau.broker.config.node_config import NodeConfig
from moldau.client import admin, groups
from moldau.client.admin import ConfigEntry, ConfigSource, Resource, ResourceType
from moldau.client.client import Client, ForNode, Refused
from moldau.client.features import describe_features
from moldau.client.lines import UnsupportedApi
from moldau.controller.features import SUPPORTED
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigError
from moldau.model.counted import counted
from moldau.model.topic_config import TOPIC_KEYS
from moldau.model.unserved_config import check_served, unknown, without_effect
from moldau.wire.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from moldau.wire.messages.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from moldau.admin.asking import Talk

STATE = "__transaction_state"
TRIED = 10_000
"""Partitions of a broker up to which it was measured; more are no error."""
_GIVEN = (ConfigSource.BROKER, ConfigSource.ALL_BROKERS, ConfigSource.FILE)
_OF_THIS_NODE = frozenset({
    "listeners", "advertised.listeners", "node.id", "broker.id", "process.roles", "controller.quorum.voters",
    "log.dirs", "log.dir", "metadata.log.dir", "controller.listener.names", "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name", "listener.security.protocol.map", "broker.rack", "zookeeper.connect",
})  # fmt: skip
_ANY = 1
"""What a filter of ACLs has for any resource type, kind of pattern, operation and permission."""


def adopt_checks(talk: Talk, files: Sequence[str] = ()) -> list[Finding]:
    """All that stands in the way, and what is worth knowing. ``files``: of nodes that are to be replaced."""
    silent = silent_brokers(talk)
    mend = "start it, or wake it, and check again"
    lacking = "its settings, its groups and transactions, and its directories were not looked at"
    found = [
        Finding(WARNING, f"broker {id}", f"does not answer ({why}): {lacking}", mend) for id, why in silent.items()
    ]
    for check in (_features, mode, _brokers, _topics, _acls, _groups, _transactions, _sizes):
        found += _asked(check, talk, silent.keys())
    return [*found, *folders(talk, files)]


def _asked(
    check: Callable[[Talk, Collection[int]], Iterator[Finding]], talk: Talk, silent: Collection[int]
) -> list[Finding]:
    about = check.__name__.strip("_")
    try:
        return list(check(talk, silent))
    except UnsupportedApi as error:
        return [
            Finding(NOTE, about, f"could not be looked at: {error}", "nothing, where the cluster has no such thing")
        ]
    except (Refused, OSError) as error:
        return [Finding(WARNING, about, f"could not be looked at: {error}", "mend that, and check again")]


# ---- levels

INSTEAD = {
    "group.version": "consumers say group.protocol=classic",
    "streams.version": "applications of Kafka Streams say group.protocol=classic",
    "share.version": "nothing takes the place of a share group: keep __consumer_offsets on Kafka's brokers for them",
}
"""Feature of a newer kind of group -> what its members do on brokers that serve classic groups only."""


def _features(talk: Talk, _: Collection[int]) -> Iterator[Finding]:
    known = {one.name: one for one in SUPPORTED}
    for name, level in sorted(talk.ask(describe_features).in_force.items()):
        ours = known.get(name)
        if name == "kraft.version" or level == 0:
            continue
        if ours is None:
            mend = f"`kafka-features.sh downgrade --feature {name}=0`, where nothing needs it"
            yield Finding(ERROR, name, f"level {level} is in force, and Moldau does not know that feature", mend)
        elif level > ours.high:
            mend = f"`kafka-features.sh downgrade --feature {name}={ours.high}`, where no newer metadata was written"
            yield Finding(ERROR, name, f"level {level} is in force, Moldau knows levels up to {ours.high}", mend)
        elif level < ours.low:
            mend = f"run Apache Kafka 4 on all nodes, and raise {name} to {ours.low} or more"
            yield Finding(ERROR, name, f"level {level} is in force, Moldau knows levels from {ours.low} on", mend)
        elif name in INSTEAD:
            what = f"level {level} is in force; Moldau keeps it, and its brokers serve classic groups only"
            yield Finding(NOTE, name, what, f"{INSTEAD[name]}; groups that there are now are named below")


# ---- settings


def _brokers(talk: Talk, silent: Collection[int]) -> Iterator[Finding]:
    with contextlib.suppress(UnsupportedApi):  # older than 2.8
        for one in talk.ask(admin.describe_cluster, fenced=True).brokers:
            if one.is_fenced:
                what = "is registered and does not serve: its settings were not looked at"
                yield Finding(WARNING, f"broker {one.broker_id}", what, "start it, and check again")
    places = [Resource(ResourceType.BROKER, str(id)) for id in sorted(talk.cluster.brokers()) if id not in silent]
    wrong: dict[tuple[str, str, str], list[str]] = {}
    told: dict[str, Mapping[str, ConfigEntry]] = {}
    for place, (outcome, entries) in talk.ask(admin.describe_configs, places, synonyms=False).items():
        if not outcome.ok:
            yield Finding(
                WARNING,
                f"broker {place.name}",
                f"does not tell its settings: {outcome.code.name}",
                "ask as one who may",
            )
            continue
        told[place.name] = entries
        for found in _settings(entries):
            wrong.setdefault(found, []).append(place.name)
    yield from migrating_brokers(told)
    yield from session_times(told)
    for (severity, what, mend), brokers in sorted(wrong.items()):
        yield Finding(severity, f"brokers {some(brokers)}", what, mend)


def _settings(entries: Mapping[str, ConfigEntry]) -> Iterator[tuple[str, str, str]]:
    """(severity, what, mend) of what a broker was given."""
    given = {key: entry.value for key, entry in entries.items() if entry.source in _GIVEN and entry.value is not None}
    sound: dict[str, str] = {}
    for key, value in sorted(given.items()):
        try:
            check_served({key: value})
            known = BROKER_KEYS.get(key)
            if known is not None:
                known.parse(value)
        except ConfigError as error:
            yield ERROR, str(error), "Moldau's nodes do not start with it; docs/configuration.md"
            continue
        sound[key] = value
    protocols = sorted(set(_protocols(sound)) - {"PLAINTEXT"})
    if protocols:
        what = f"listeners speak {some(protocols)}; Moldau's speak PLAINTEXT only"
        yield ERROR, what, "a PLAINTEXT listener on a network of your own, or a proxy that ends TLS"
    else:
        try:
            NodeConfig({key: value for key, value in sound.items() if key in _OF_THIS_NODE})
        except ConfigError as error:
            yield WARNING, str(error), "`moldau doctor server.properties` on the node tells the same from its file"
    strange = unknown(sound)
    if strange:
        yield NOTE, f"settings that Moldau does not know: {some(strange)}", "nothing need be done"
    idle = without_effect(sound)
    if idle:
        yield NOTE, f"settings without effect on Moldau: {some(idle)}", "docs/configuration.md says which and why"


def _protocols(given: Mapping[str, str]) -> Iterator[str]:
    """The security protocols of the listeners that a broker was given."""
    named: dict[str, str] = {}
    for one in given.get("listener.security.protocol.map", "").split(","):
        name, _, protocol = one.partition(":")
        named[name.strip()] = protocol.strip()
    for one in given.get("listeners", "").split(","):
        name = one.partition("://")[0].strip()
        if name:
            yield named.get(name, name)


def _topics(talk: Talk, _silent: Collection[int]) -> Iterator[Finding]:
    names = sorted(talk.cluster.topics())
    places = [Resource(ResourceType.TOPIC, name) for name in names]
    wrong: dict[str, list[str]] = {}
    strange: dict[str, list[str]] = {}
    for place, (_outcome, entries) in talk.ask(admin.describe_configs, places, synonyms=False).items():
        for key, entry in entries.items():
            if entry.source is not ConfigSource.TOPIC or entry.value is None:
                continue
            if key == "remote.storage.enable" and entry.value == "true":
                wrong.setdefault(
                    "its old segments are in remote storage, which Moldau's brokers cannot read", []
                ).append(place.name)
            elif key not in TOPIC_KEYS:
                strange.setdefault(key, []).append(place.name)
    for what, topics in sorted(wrong.items()):
        yield Finding(ERROR, f"topics {some(topics)}", what, "remote.storage.enable=false with its data fetched back")
    for key, topics in sorted(strange.items()):
        yield Finding(
            NOTE,
            f"topics {some(topics)}",
            f"{key} is kept, and has no effect on Moldau's brokers",
            "nothing need be done",
        )


# ---- who uses it


async def _describe_acls(client: Client) -> DescribeAclsResponse:
    request = DescribeAclsRequest(
        resource_type_filter=_ANY, resource_name_filter=None, pattern_type_filter=_ANY, principal_filter=None,
        host_filter=None, operation=_ANY, permission_type=_ANY,
    )  # fmt: skip
    response: DescribeAclsResponse = await client.ask(request, codes=lambda _: ())
    return response


def _acls(talk: Talk, _: Collection[int]) -> Iterator[Finding]:
    response = talk.ask(_describe_acls)
    if response.error_code == Code.NONE and response.resources:
        count = sum(len(one.acls) for one in response.resources)
        what = f"{count} ACLs are in force; Moldau's brokers keep them and enforce none"
        yield Finding(ERROR, "ACLs", what, "replace no broker that has to refuse anybody")


def _groups(talk: Talk, silent: Collection[int]) -> Iterator[Finding]:
    kinds: dict[str, list[str]] = {}
    for one in talk.ask(groups.list_groups, but=silent):
        if one.type and one.type.lower() != "classic":
            kinds.setdefault(one.type.lower(), []).append(one.group_id)
    for kind, names in sorted(kinds.items()):
        end, they = ("ends", "it") if len(names) == 1 else ("end", "them")
        what = f"{counted(len(names), 'group')} of type {kind}, which {end} where a broker of Moldau coordinates {they}"
        mend = (
            "give their members group.protocol=classic"
            if kind in ("consumer", "streams")
            else "keep __consumer_offsets on Kafka's brokers"
        )
        yield Finding(WARNING, f"groups {some(names)}", what, mend)


async def _list_transactions(client: Client, silent: Collection[int]) -> tuple[list[str], list[int]]:
    """Transactional ids in use, and brokers that coordinate none: those of Moldau, once some have been replaced."""
    await client.know([])
    found: set[str] = set()
    others: list[int] = []
    for node_id in sorted(client.view.brokers.keys() - set(silent)):
        try:
            response: ListTransactionsResponse = await client.ask(ListTransactionsRequest(), ForNode(node_id))
        except UnsupportedApi:
            others.append(node_id)
            continue
        found.update(one.transactional_id for one in response.transaction_states if one.transaction_state != "Dead")
    return sorted(found), others


def _transactions(talk: Talk, silent: Collection[int]) -> Iterator[Finding]:
    used, others = talk.ask(_list_transactions, silent)
    state = talk.cluster.topics().get(STATE)
    partitions = {} if state is None else state.partitions
    mend = f"`moldau reassign plan --drain {','.join(map(str, others))} --topic {STATE}`, and apply it"
    led = {number: one.leader for number, one in partitions.items() if one.leader in others}
    if led:
        are = counted(len(partitions), "partition is", "partitions are")
        what = (
            f"{len(led)} of {are} led by brokers that coordinate no transactions "
            f"({some(sorted(set(led.values())))}): transactional ids that fall to them are refused"
        )
        yield Finding(ERROR, STATE, what, mend)
    elif any(set(one.replicas) & set(others) for one in partitions.values()):
        what = f"replicas are on brokers that coordinate no transactions ({some(others)}), and may come to lead"
        yield Finding(WARNING, STATE, what, mend)
    if used:
        what = (
            f"{counted(len(used), 'transactional id is', 'transactional ids are')} in use; "
            "a broker of Moldau coordinates none, but leads their partitions"
        )
        mend = f"have all replicas of {STATE} on brokers that stay Kafka's: `moldau reassign plan`"
        yield Finding(WARNING, some(used), what, mend)


def _sizes(talk: Talk, silent: Collection[int]) -> Iterator[Finding]:
    held: Counter[int] = Counter()
    for topic in talk.cluster.topics().values():
        for partition in topic.partitions.values():
            held.update(partition.replicas)
    bytes_of = {
        id: sum(part.partition_size for one in dirs for topic in one.topics for part in topic.partitions)
        for id, dirs in told_directories(talk, talk.cluster.brokers().keys() - set(silent)).items()
    }
    for id, count in sorted(held.items()):
        size = f"{bytes_of[id] / 1e9:,.1f} GB" if id in bytes_of else "its bytes are not known"
        what = f"holds {counted(count, 'replica')}, {size}"
        if count > TRIED:
            yield Finding(
                NOTE, f"broker {id}", f"{what}; Moldau was measured with {TRIED:,} on a broker", "try one first"
            )
        else:
            yield Finding(
                NOTE, f"broker {id}", what, "an unclean start reads what was not flushed; else it opens each folder"
            )
