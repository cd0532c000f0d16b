"""The throttles of moves (KIP-73): set where nobody has set any, recorded, and taken away as recorded.

A topic lists its throttled replicas as ``partition:broker``; a broker has a rate. Entries and rates that were there
before are somebody else's and stay as they are. What is about to be set is recorded first, so that whoever goes on
after a kill knows what to take away. A recorded rate that somebody has changed meanwhile is theirs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moldau.admin.asking import Talk, note, silent_brokers
from moldau.admin.waiting import Looks
from moldau.client import admin
from moldau.client.admin import AlterOp, Resource, ResourceType
from moldau.client.client import Refused, Unreachable
from moldau.model import Code, TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
OWN = (1, 2)
"""The sources of a value that was set on the topic, or on the broker, itself."""
DYNAMIC = (*OWN, 3)
"""The sources of a value that was set on the topic or the broker itself, or as a default for all brokers."""
EVERYTHING = "*"
Assignment = Mapping[TopicPartition, Sequence[int]]
Changes = dict[Resource, list[tuple[str, AlterOp, str | None]]]
Listed = dict[str, dict[str, list[str]]]
"""Entries by topic and key."""
Ours = dict[str, dict[str, list[str]]]
"""The rates that we have set or were about to, by broker and key."""
LOOK_S = 1.0
"""A broker that is asked for a topic's lists may hear of the last change a moment after it was made."""


@dataclass
class ThrottlesSet:
    """What was set: the rates of each broker and key, oldest first, and these entries by topic and key.

    A rate stays recorded when another follows it: who is killed between recording and setting leaves the first one.
    """

    rates: Ours = field(default_factory=dict)
    entries: Listed = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """For ``json.dumps``."""
        return asdict(self)

    @staticmethod
    def from_json(data: object) -> ThrottlesSet:
        """What ``as_json`` gave; ValueError when it is something else."""
        try:
            assert isinstance(data, dict)
            rates = {str(broker): _texts(keys) for broker, keys in data["rates"].items()}
            entries = {str(topic): _texts(keys) for topic, keys in data["entries"].items()}
        except (AssertionError, KeyError, AttributeError, TypeError) as error:
            raise ValueError("throttles are not told as they should be") from error
        return ThrottlesSet(rates, entries)

    def __bool__(self) -> bool:
        return bool(self.rates or self.entries)


def throttle(
    talk: Talk,
    plan: Assignment,
    now: Assignment,
    *,
    rate: int,
    recorded: ThrottlesSet,
    save: Callable[[ThrottlesSet], None],
) -> list[int]:
    """Hold leaders back in what they send of moving partitions, and newcomers in what they fetch.

    Args:
        plan, now: where replicas are to be, and where they are, those not counted that are being added.
        recorded: what was set before for the same plan; it stays ours, and gets this rate.
        save: called with what is going to be set, before it is.

    Returns:
        The brokers of the moves that are not alive: they keep the rate that they have, or none.

    Raises:
        Unreachable: a broker that counts as alive does not answer; nothing was set. It would be held back by nothing.
        Refused: a change of a setting was; those before it stand.
    """
    wanted, brokers = _wanted(plan, now)
    for silent, why in silent_brokers(talk, {int(broker) for broker in brokers}).items():
        raise Unreachable(f"broker {silent} does not answer, and no throttle can be set there: {why}")
    rates = _rates(talk, brokers)
    made = merged(wanted, _listed(talk, wanted), rates, rate=rate, recorded=recorded)
    for id in sorted(rates.keys() - made.rates.keys(), key=int):
        told = ", ".join(dict.fromkeys(rates[id].values()))
        note(f"broker {id} has a rate of somebody else's, which stays: {told}" if told else f"broker {id} has no rate")
    save(made)
    changes: Changes = {
        Resource(ResourceType.BROKER, id): [(key, AlterOp.SET, values[-1]) for key, values in keys.items()]
        for id, keys in made.rates.items()
        if id in rates
    }
    for topic in wanted:
        ours = [(key, AlterOp.APPEND, ",".join(one)) for key, one in made.entries.get(topic, {}).items() if one]
        if ours:
            changes[Resource(ResourceType.TOPIC, topic)] = [*ours]
    _change(talk, changes)
    return sorted(int(id) for id in brokers - rates.keys())


def merged(
    wanted: Listed, listed: Listed, rates: Mapping[str, Mapping[str, str]], *, rate: int, recorded: ThrottlesSet
) -> ThrottlesSet:
    """What is ours to set: entries that are not listed, rates that are not set; and what was ours before.

    ``rates`` has a key for each broker that can be asked; a broker that cannot gets none.
    """
    made = ThrottlesSet(
        {broker: {key: list(values) for key, values in keys.items()} for broker, keys in recorded.rates.items()},
        {topic: {key: list(one) for key, one in keys.items()} for topic, keys in recorded.entries.items()},
    )
    for broker, found in rates.items():
        before = recorded.rates.get(broker, {})
        ours = {
            key: [*(one for one in before.get(key, ()) if one != str(rate)), str(rate)]
            for key in RATES
            if key not in found or found[key] in before.get(key, ())
        }
        made.rates.pop(broker, None)
        if ours:
            made.rates[broker] = ours
    for topic, keys in wanted.items():
        for key, entries in keys.items():
            there = listed.get(topic, {}).get(key, [])
            own = made.entries.setdefault(topic, {}).setdefault(key, [])
            if EVERYTHING not in there:
                own += [one for one in entries if one not in there and one not in own]
    return made


def unthrottle(talk: Talk, recorded: ThrottlesSet, plan: Path) -> ThrottlesSet:
    """Take away what was recorded for a plan; what could not be, as its broker is not alive or does not answer: of that
    it is said by which command it is taken away later."""
    if not recorded:
        return recorded
    changes = without(_listed_as(talk, recorded.entries), recorded.entries)
    rates = _rates(talk, set(recorded.rates))
    for broker, found in rates.items():
        # One that shows no rate may not have heard of it yet; that nothing is there to be taken away does no harm.
        gone = [key for key, values in recorded.rates[broker].items() if key not in found or found[key] in values]
        if gone:
            changes[Resource(ResourceType.BROKER, broker)] = [(key, AlterOp.DELETE, None) for key in gone]
    if changes:
        _change(talk, changes)
        note("throttles are taken away.")
    left = ThrottlesSet({broker: keys for broker, keys in recorded.rates.items() if broker not in rates})
    if left.rates:
        later = f"`moldau reassign verify --plan {shlex.quote(str(plan))}` takes it away"
        which = brokers_named(map(int, left.rates))
        note(f"{which} cannot be asked: the throttle set there stays; when it answers, {later}")
    return left


def without(listed: Listed, ours: Listed) -> Changes:
    """What takes our entries out of the lists, and leaves all others."""
    changes: Changes = {}
    for topic, keys in listed.items():
        for key, entries in keys.items():
            gone = [one for one in entries if one in ours.get(topic, {}).get(key, ())]
            if gone:
                left = len(entries) > len(gone)
                change = (key, AlterOp.SUBTRACT, ",".join(gone)) if left else (key, AlterOp.DELETE, None)
                changes.setdefault(Resource(ResourceType.TOPIC, topic), []).append(change)
    return changes


def throttled(talk: Talk, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions that a topic's lists name, whoever put them there."""
    wanted = sorted(partitions)
    there = talk.cluster.topics()
    listed = _listed(talk, sorted({p.topic for p in wanted if p.topic in there}))
    named = {
        (topic, entry.partition(":")[0]) for topic, keys in listed.items() for one in keys.values() for entry in one
    }
    return [p for p in wanted if (p.topic, str(p.partition)) in named]


def throttled_brokers(talk: Talk) -> list[int]:
    """The brokers that have a rate, whoever set it, of those that live and answer."""
    found = _rates(talk, map(str, talk.cluster.brokers()))
    return sorted(int(broker) for broker, rates in found.items() if rates)


def brokers_named(ids: Iterable[int]) -> str:
    """``broker 3``, ``brokers 3, 4``."""
    found = sorted(ids)
    return f"broker{'s' * (len(found) > 1)} {', '.join(map(str, found))}"


def _wanted(plan: Assignment, now: Assignment) -> tuple[Listed, set[str]]:
    """The entries for these moves, and the brokers that take part in them."""
    entries: Listed = {}
    brokers: set[str] = set()
    for partition, wanted in sorted(plan.items()):
        new = [r for r in wanted if r not in now[partition]]
        if new:
            keys = entries.setdefault(partition.topic, {key: [] for key in REPLICAS})
            keys[REPLICAS[0]] += [f"{partition.partition}:{r}" for r in now[partition]]
            keys[REPLICAS[1]] += [f"{partition.partition}:{r}" for r in new]
            brokers.update(map(str, (*now[partition], *wanted)))
    return entries, brokers


def _rates(talk: Talk, brokers: Iterable[str]) -> dict[str, dict[str, str]]:
    """The rates that are set on these brokers, of those that live and answer: the others cannot be asked."""
    ids = {int(id) for id in brokers} & talk.cluster.brokers().keys()
    there = ids - silent_brokers(talk, ids).keys()
    resources = [Resource(ResourceType.BROKER, str(id)) for id in sorted(there)]
    described = talk.ask(admin.describe_configs, resources, keys=RATES) if resources else {}
    return {
        resource.name: {key: entries[key].value or "" for key in RATES
                        if key in entries and entries[key].source in DYNAMIC}
        for resource, (outcome, entries) in described.items()
        if outcome.ok
    }  # fmt: skip


def _listed(talk: Talk, topics: Iterable[str]) -> Listed:
    """The throttled replicas that topics list, by topic and key."""
    resources = [Resource(ResourceType.TOPIC, name) for name in topics]
    described = talk.ask(admin.describe_configs, resources, keys=REPLICAS) if resources else {}
    found: Listed = {}
    for resource, (_, entries) in described.items():
        texts = {key: entries[key].value if key in entries and entries[key].source in OWN else "" for key in REPLICAS}
        found[resource.name] = {key: [one for one in (text or "").split(",") if one] for key, text in texts.items()}
    return found


def _listed_as(talk: Talk, recorded: Listed) -> Listed:
    """What topics list, looked at a few times until all that was recorded is there: it may never have been set."""
    for _ in Looks(LOOK_S):
        listed = _listed(talk, [topic for topic in recorded if topic in talk.cluster.topics()])
        if all(
            set(recorded[topic].get(key, ())) <= {*found}
            for topic, keys in listed.items()
            for key, found in keys.items()
        ):
            break
    return listed


def _texts(keys: Mapping[object, object]) -> dict[str, list[str]]:
    """Lists of texts by key; AssertionError or AttributeError when they are something else."""
    found: dict[str, list[str]] = {}
    for key, values in keys.items():
        assert isinstance(values, list | str)
        found[str(key)] = [values] if isinstance(values, str) else [str(one) for one in values]
    return found


def _change(talk: Talk, changes: Changes) -> None:
    """Refused when one of them was: some codes pass, as while no controller is active, and who carries a plan out asks
    again then."""
    for resource, outcome in (talk.ask(admin.alter_configs, changes) if changes else {}).items():
        if outcome.code is not Code.NONE:
            why = f" ({outcome.message})" if outcome.message else ""
            raise Refused(outcome.code, f"{resource.type.name.lower()} {resource.name}{why}", outcome.message)
