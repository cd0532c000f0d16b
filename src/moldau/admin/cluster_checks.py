"""What can be wrong with a running cluster, seen from where this runs: partitions, brokers, controllers, disks, clocks.

Standard requests only; what a cluster cannot say is not checked. Read next: doctor.py, file_checks.py.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING

from moldau.admin.asking import CONTROLLER_S, silent_brokers
from moldau.admin.each_broker import told_directories
from moldau.admin.findings import ERROR, NOTE, WARNING, Finding, some
from moldau.admin.partition_states import FILTERS, PartitionHealth
from moldau.admin.probe import why_not_kafka
from moldau.admin.topic import look_at, moves_under_way
from moldau.client import admin
from moldau.client.addresses import addresses
from moldau.client.admin import ConfigSource, Resource, ResourceType
from moldau.client.client import Refused
from moldau.client.features import describe_features
from moldau.client.lines import UnsupportedApi
from moldau.model import Code, TopicPartition
from moldau.model.counted import counted
from moldau.model.protocol import Protocol
from moldau.zookeeper import paths

if TYPE_CHECKING:
    from moldau.admin.asking import Talk
    from moldau.admin.each_broker import Told

    class Check(Protocol):
        """Looks at one subject of a cluster."""

        __name__: str

        def __call__(self, talk: Talk) -> Iterator[Finding]: ...


PROBE_S = 2.0
SKEW_MS = 5_000
"""A clock that is this far from ours is wrong; an answer takes less."""
BEHIND_MS = 10_000
IMBALANCE_PERCENT = 10
FULL, NEARLY_FULL = 0.03, 0.10
"""Shares of a disk that are left."""
THROTTLES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def cluster_checks(talk: Talk) -> list[Finding]:
    """All that is wrong with the cluster."""
    topics = talk.cluster.topics()
    moves, why = moves_under_way(talk)
    has_controller = moves is not None
    parts = look_at(talk, topics, moves or {})
    found = [*_addresses(talk), *_partitions(talk, parts), *_placement(parts), *_leaders(parts)]
    checks: list[Check] = [_quorum, _features, _throttles]
    if not has_controller:
        found.append(_no_controller(why))
        checks = [_features]
    for check in checks:
        found += _asked(check.__name__.strip("_"), partial(check, talk))
    told: Told = {}
    found += _asked("disks", partial(_disks, talk, parts, told))
    return found + (_asked("znodes", partial(_znodes, talk, told)) if has_controller else [])


def _no_controller(why: str) -> Finding:
    """``why``: what brokers say of it."""
    so = "no leader is elected, no topic is made or changed"
    what = f"{so}: {why}" if why else f"none answers within {CONTROLLER_S:.0f} s: {so}"
    if paths.CONTROLLER in why:
        return Finding(ERROR, "controller", what, "brokers elect a controller as soon as that znode is gone")
    mend = (
        "start controllers until more than half of the voters run (`moldau quorum status`); with ZooKeeper, see"
        " whether more than half of its servers run and take the brokers' connections, and look at the end of the"
        " brokers' server.log, /controller and /controller_epoch"
    )
    return Finding(ERROR, "controller", what, mend)


def _asked(what: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a check finds; a note when the cluster does not let us look."""
    try:
        return list(check())
    except UnsupportedApi:
        return []
    except (Refused, OSError) as error:
        return [
            Finding(
                WARNING, what, f"could not be looked at: {error}", "look again; `moldau broker list` shows who serves"
            )
        ]


# ---- this client's view


def _addresses(talk: Talk) -> Iterator[Finding]:
    """Who cannot be reached from here."""
    silent = silent_brokers(talk)
    asked = addresses(talk.bootstrap)
    for host, port in asked:
        if (why := _unreachable(host, port)) is not None:
            mend = "start it, or take it out of --bootstrap-server"
            yield Finding(WARNING, f"{host}:{port}", f"of the servers to ask, it does not answer: {why}", mend)
    from_afar = not all(map(_is_loopback, (host for host, _ in asked)))
    for id, one in sorted(talk.cluster.brokers().items()):
        about, place = f"broker {id}", f"{one.host}:{one.port}"
        if from_afar and _is_loopback(one.host):
            what = f"tells clients to come to {place}, which is their own machine"
            yield Finding(
                ERROR, about, what, f"set advertised.listeners in broker {id}'s server.properties, start it again"
            )
        elif id in silent:
            what = f"tells clients to come to {place}, and cannot be reached there from here: {silent[id]}"
            mend = "a firewall, a name or advertised.listeners in its server.properties is wrong, or it has just died"
            yield Finding(ERROR, about, what, mend)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reachable(talk: Talk) -> list[int]:
    """Brokers that answer now: one that has just died stays in the metadata for a moment, and would be waited for."""
    silent = silent_brokers(talk)
    return sorted(talk.cluster.brokers().keys() - silent.keys())


def _unreachable(host: str, port: int) -> str | None:
    try:
        return why_not_kafka(host, port, PROBE_S)
    except (OSError, ValueError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


# ---- partitions and brokers


def _partitions(talk: Talk, parts: Sequence[PartitionHealth]) -> Iterator[Finding]:
    alive = talk.cluster.client.view.brokers
    held = Counter(id for one in parts for id in one.replicas)
    for id in sorted(set(held) - set(alive)):
        what = f"holds {counted(held[id], 'replica')} and does not serve"
        mend = (
            f"start it (`moldau broker start {id}` where `moldau up` made it), or `moldau reassign plan --drain {id}`"
        )
        yield Finding(ERROR, f"broker {id}", what, mend)
    offline = [one for one in parts if FILTERS["offline"](one)]
    wanting = [one for one in parts if FILTERS["under_replicated"](one) and not FILTERS["offline"](one)]
    short = [one for one in wanting if FILTERS["under_min_isr"](one)]
    behind = [one for one in wanting if not FILTERS["under_min_isr"](one)]
    if offline:
        missing = sorted({id for one in offline for id in one.isr or one.replicas})
        mend = (
            f"start one of the brokers that were in sync: {some(missing)}; if they are lost for good, with what they "
        )
        mend += f"alone had: `moldau leader elect --type unclean --topic {offline[0].topic}`"
        what = f"{counted(len(offline), 'partition has', 'partitions have')} no leader: nobody can read or write"
        yield Finding(ERROR, _names(offline), what, mend)
    if short:
        what = counted(len(short), "partition has", "partitions have")
        what += " fewer replicas in sync than min.insync.replicas: acks=all is refused"
        lost = sorted({id for one in short for id in one.replicas if id not in one.isr})
        mend = f"bring {_brokers(lost)} back; `moldau topic describe --under-min-isr` shows all"
        yield Finding(ERROR, _names(short), what, mend)
    if behind:
        what = f"{counted(len(behind), 'partition has', 'partitions have')} replicas that are not in sync"
        down = sorted({id for one in behind for id in one.replicas if id not in one.isr and id not in alive})
        mend = "wait while brokers catch up" if not down else f"start {_brokers(down)}"
        mend += "; `moldau topic describe --under-replicated --watch` shows whether they do"
        yield Finding(WARNING, _names(behind), what, mend)
    moving = [one for one in parts if FILTERS["moving"](one)]
    if moving:
        what = f"{counted(len(moving), 'partition is', 'partitions are')} moving"
        yield Finding(NOTE, _names(moving), what, "`moldau reassign list` shows all moves")


def _brokers(ids: Collection[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {some(ids)}"


def _names(parts: Sequence[PartitionHealth]) -> str:
    return some([f"{one.topic}-{one.partition}" for one in parts])


def _placement(parts: Sequence[PartitionHealth]) -> Iterator[Finding]:
    """Topics that are made so that they cannot stay available."""
    # More than there are counts as all of them, as in Apache Kafka.
    tight = sorted({one.topic for one in parts if one.min_isr >= one.factor > 1})
    if tight:
        what = "min.insync.replicas is no less than there are replicas: while any broker is down acks=all is refused"
        less = next(one.factor for one in parts if one.topic == tight[0]) - 1
        mend = f"`moldau config alter --topic {tight[0]} --set min.insync.replicas={less}`, or more replicas"
        yield Finding(WARNING, some(tight), what, mend)
    single = sorted({one.topic for one in parts if one.factor == 1})
    if single and len({id for one in parts for id in one.replicas}) > 1:
        what = f"{counted(len(single), 'topic has', 'topics have')} one replica: away while its broker is"
        yield Finding(NOTE, some(single), what, f"`moldau reassign plan --set-rf 3 --topic {single[0]}`")


def _leaders(parts: Sequence[PartitionHealth]) -> Iterator[Finding]:
    preferred = Counter(one.replicas[0] for one in parts if one.replicas)
    astray = Counter(one.replicas[0] for one in parts if one.replicas and one.leader not in (one.replicas[0], -1))
    for id, count in sorted(astray.items()):
        percent = 100 * count / preferred[id]
        if percent > IMBALANCE_PERCENT:
            of = counted(preferred[id], "partition")
            what = f"others lead {count} of the {of} that it should lead ({percent:.0f} %)"
            yield Finding(WARNING, f"broker {id}", what, "`moldau leader elect --all`, once it is in sync")


# ---- controllers, features, disks


def _quorum(talk: Talk) -> Iterator[Finding]:
    try:
        outcome, part = talk.ask(admin.describe_quorum)
    except UnsupportedApi:
        yield Finding(
            NOTE,
            "ZooKeeper",
            "the cluster keeps its metadata there; Kafka 4 does not",
            "docs/migration.md: `moldau migrate`",
        )
        return
    if part is None or outcome.code is not Code.NONE or part.leader_id < 0:
        what = f"no controller leads the metadata log ({outcome.code.name}): no leader is elected, no topic is made"
        yield Finding(
            ERROR,
            "controller",
            what,
            "start controllers until more than half of the voters run; where they do, their logs say whom they do not"
            " reach, and whether they lost metadata; `moldau quorum status`",
        )
        return
    voters = part.current_voters
    if len(voters) % 2 == 0:
        what = f"{len(voters)} controllers vote: one more or less survives as many failures or more"
        yield Finding(NOTE, "controllers", what, "`moldau quorum add-controller` or `remove-controller`")
    leader = next((one for one in voters if one.replica_id == part.leader_id), None)
    stamp = leader.last_caught_up_timestamp if leader is not None else -1
    if stamp <= 0:
        return
    ahead_ms = stamp - int(time.time() * 1000)
    if abs(ahead_ms) > SKEW_MS:
        way = "ahead of" if ahead_ms > 0 else "behind"
        what = f"its clock is {abs(ahead_ms) / 1000:.0f} s {way} the one here: retention and --from by time go wrong"
        yield Finding(
            WARNING, f"controller {part.leader_id}", what, "set the clocks by NTP: `timedatectl`, `chronyc tracking`"
        )
    for one in voters:
        late_ms = stamp - one.last_caught_up_timestamp
        if one.replica_id != part.leader_id and (one.last_caught_up_timestamp < 0 or late_ms > BEHIND_MS):
            since = f"for {late_ms / 1000:.0f} s" if one.last_caught_up_timestamp >= 0 else "at all"
            why = f"it is down, or cannot reach controller {part.leader_id}"
            what = f"has not kept up with the metadata log {since}: {why}"
            start = f"`moldau broker start {one.replica_id}` where `moldau up` made it"
            mend = f"start it ({start}); `moldau quorum status` shows its lag"
            yield Finding(ERROR, f"controller {one.replica_id}", what, mend)


def _features(talk: Talk) -> Iterator[Finding]:
    told = [talk.ask(describe_features, id) for id in _reachable(talk)]
    newest = max(told, key=lambda one: one.epoch, default=None)
    for name, level in sorted(newest.in_force.items()) if newest is not None else ():
        highest = min(one.supported.get(name, (0, level))[1] for one in told)
        if name == "metadata.version" and level < highest:
            what = f"is at level {level}, and every broker that answers supports up to {highest}"
            mend = f"once no older release will be needed: `moldau feature upgrade {name} --dry-run`"
            yield Finding(NOTE, name, what, mend)


def _disks(talk: Talk, parts: Sequence[PartitionHealth], told: Told) -> Iterator[Finding]:
    """``told`` takes what brokers tell of their directories."""
    told |= told_directories(talk, talk.cluster.brokers())
    yield from _without_log(told, parts)
    for id, directories in told.items():
        for one in directories:
            about = f"broker {id} {one.log_dir}"
            if one.error_code != Code.NONE:
                what = f"the log directory is offline: {Code(one.error_code).name}"
                yield Finding(
                    ERROR,
                    about,
                    what,
                    f"see the end of broker {id}'s server.log; mend the disk, start the broker again",
                )
            elif one.total_bytes > 0 and one.usable_bytes < NEARLY_FULL * one.total_bytes:
                share = one.usable_bytes / one.total_bytes
                what = f"{100 * share:.0f} % of the disk is left"
                mend = f"`moldau broker describe {id}`; `moldau config alter --topic NAME --set retention.ms=..`"
                yield Finding(ERROR if share < FULL else WARNING, about, what, mend)


def _without_log(told: Told, parts: Sequence[PartitionHealth]) -> Iterator[Finding]:
    """Brokers that serve, whose directories are all well, and that have no log of a partition which they should hold:
    they gave it up when it could not be read or written."""
    for id, directories in sorted(told.items()):
        if any(one.error_code != Code.NONE for one in directories):
            continue
        there = {
            (one.name, each.partition_index) for dir in directories for one in dir.topics for each in one.partitions
        }
        missing = [
            one for one in parts
            if id in one.replicas and (id not in one.isr or one.leader < 0) and (one.topic, one.partition) not in there
        ]  # fmt: skip
        if missing:
            what = f"has no log in use of {counted(len(missing), 'partition')} that it should hold: {_names(missing)}"
            mend = f"the end of broker {id}'s server.log says why each was given up; mend that, start the broker again"
            yield Finding(ERROR, f"broker {id}", what, mend)


def _znodes(talk: Talk, told: Told) -> Iterator[Finding]:
    """Partitions whose znodes the controller could not read: other brokers go on telling of them, and serve them."""
    controller = talk.cluster.client.view.controller_id
    try:
        talk.ask(admin.describe_quorum)
        return
    except UnsupportedApi:  # the controller is a broker then
        if controller is None:
            return
    # Asked after the logs, which are made after the controller has decided, and gone before it forgets their topic.
    known = talk.ask(admin.partitions_told, controller)
    if suspects := {id for id, some in told.items() if _held({id: some}) - known}:  # a topic may have gone meanwhile
        yield from _undecided(controller, told_directories(talk, suspects), known)


def _held(told: Told) -> set[TopicPartition]:
    """The partitions of which brokers have logs."""
    return {
        TopicPartition(one.name, each.partition_index)
        for directories in told.values() for dir in directories for one in dir.topics for each in one.partitions
    }  # fmt: skip


def _undecided(controller: int, told: Told, known: Set[TopicPartition]) -> Iterator[Finding]:
    """Partitions of which brokers have logs, and the controller does not know."""
    if missing := sorted(_held(told) - known):
        what = f"brokers have logs of {counted(len(missing), 'partition')} that the controller does not know:"
        what += f" nobody decides who leads {'it' if len(missing) == 1 else 'them'}"
        mend = f"the end of broker {controller}'s server.log says why (`left out: znode ..`); write it as it was"
        yield Finding(ERROR, some([f"{one.topic}-{one.partition}" for one in missing]), what, mend)


def _throttles(talk: Talk) -> Iterator[Finding]:
    """Throttles that a move left behind."""
    if talk.ask(admin.reassignments)[1]:
        return
    places = [Resource(ResourceType.BROKER, str(id)) for id in _reachable(talk)]
    of_all: set[str] = set()
    for place, (_, entries) in talk.ask(admin.describe_configs, places, keys=THROTTLES, synonyms=False).items():
        for key, entry in sorted(entries.items()):
            if key not in THROTTLES or entry.source not in (ConfigSource.BROKER, ConfigSource.ALL_BROKERS):
                continue
            about, where = f"broker {place.name}", f"--broker {place.name}"
            if entry.source == ConfigSource.ALL_BROKERS:
                if key in of_all:
                    continue
                of_all.add(key)
                about, where = "all brokers", "--all-brokers"
            what = f"{key} is {entry.value}, and nothing moves: replicas catch up no faster"
            yield Finding(WARNING, about, what, f"`moldau config alter {where} --unset {key} --yes`")
