"""What a move that is under way waits for: which broker holds it up, and why.

A controller ends a move when every replica that is to stay is in the ISR, those that were there before as well as those
that come (KAFKA-15665; Kafka's ZooKeeper controller has always done so). So a dead broker that only keeps its replica
holds a move up, too; Kafka's KRaft controllers of before that, and since KAFKA-19975, may end the move once those that
come are in the ISR. Used by ``status_command.py``, ``carrying.py`` and ``execute --wait``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypedDict

from moldau.admin.asking import Talk, note, silent_brokers
from moldau.admin.each_broker import told_directories
from moldau.admin.rate import bytes_text
from moldau.admin.reassignment.waves import ObservedPartition
from moldau.client import admin
from moldau.client.admin import Reassignment
from moldau.client.client import Refused
from moldau.client.lines import UnsupportedApi
from moldau.model import TopicPartition
from moldau.model.counted import counted

DOWN, OFFLINE, UNLED, BEHIND = "down", "directory offline", "no leader", "catching up"
QUORUM_S = 2.0
"""How long the quorum is asked since when a broker is silent, of which most can be said without that."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 600.0
"""How long nothing has changed before it is said who is being waited for; after each time twice as long."""
MOST_TOLD = 20
NO_LEADER = -1

ASKED_AGAIN_S = 60.0
"""How long nobody is asked again since when a broker is down of which nobody knew."""


class Sizes(NamedTuple):
    """Bytes of replicas, as their brokers tell."""

    of: Mapping[tuple[TopicPartition, int], int] = {}
    told: Collection[int] = ()
    """The brokers that answered: of replicas of the others nothing is known."""
    free: Mapping[tuple[TopicPartition, int], int] = {}
    """What is free in the log directory of a replica."""
    most_free: Mapping[int, int] = {}
    """What is free in the emptiest log directory of a broker."""

    def behind(self, p: TopicPartition, leader: int, broker: int) -> int | None:
        """How much less a broker has of a partition than its leader; None where either has not answered. A broker that
        answered and does not name the replica has nothing of it yet."""
        whole, copied = self.of.get((p, leader)), self.copied(p, broker)
        return None if whole is None or copied is None else max(0, whole - copied)

    def copied(self, p: TopicPartition, broker: int) -> int | None:
        """What a broker has of a partition; None where it has not answered."""
        return self.of.get((p, broker), 0) if broker in self.told else None

    def lacks(self, p: TopicPartition, broker: int, behind: int | None) -> int | None:
        """What is free for the rest of a replica, where that is too little."""
        free = self.free.get((p, broker), self.most_free.get(broker))
        return free if behind is not None and free is not None and free < behind else None


class WaitFacts(NamedTuple):
    """What waits are told from."""

    alive: Collection[int]
    sizes: Sizes = Sizes()
    since: Mapping[int, float] = {}
    """Since when brokers are down, of those of which it is known."""


class Wait(TypedDict):
    """A broker that holds a move up."""

    broker: int
    state: str
    since: str | None
    """Since when it is down, where anybody knows."""
    bytes_behind: int | None
    bytes_free: int | None
    """What is free in its log directory, where that is less than it lacks."""


def waits_of(p: TopicPartition, now: ObservedPartition, one: Reassignment, known: WaitFacts) -> list[Wait]:
    """Whom the move of a partition waits for, the dead ones first."""
    lacking = [r for r in one.replicas if r not in one.removing and r not in now.isr]
    if now.leader == NO_LEADER:  # those of the ISR alone may lead
        lacking += [r for r in now.isr if r not in known.alive]
    waits = [_wait(p, now, broker, known) for broker in lacking]
    return sorted(waits, key=lambda wait: (wait["state"] not in (DOWN, OFFLINE), wait["broker"]))


def _wait(p: TopicPartition, now: ObservedPartition, broker: int, known: WaitFacts) -> Wait:
    if broker not in known.alive:
        return {
            "broker": broker,
            "state": DOWN,
            "since": _time(known.since.get(broker)),
            "bytes_behind": None,
            "bytes_free": None,
        }
    if broker in now.offline:
        return {"broker": broker, "state": OFFLINE, "since": None, "bytes_behind": None, "bytes_free": None}
    if now.leader == NO_LEADER:
        return {"broker": broker, "state": UNLED, "since": None, "bytes_behind": None, "bytes_free": None}
    behind = known.sizes.behind(p, now.leader, broker)
    free = known.sizes.lacks(p, broker, behind)
    return {"broker": broker, "state": BEHIND, "since": None, "bytes_behind": behind, "bytes_free": free}


class Answering:
    """Which brokers answer of those whose replicas are offline, each asked once while the same replicas are."""

    def __init__(self) -> None:
        self._answered: dict[int, set[TopicPartition]] = {}

    def still_alive(
        self, talk: Talk, waits: Mapping[TopicPartition, Iterable[Wait]], alive: Collection[int]
    ) -> set[int]:
        """The brokers that live, without those whose replica is offline and that do not answer: a broker that has just
        died may be among those that a cluster tells of for a moment, and has lost no log directory. One that did not
        answer is asked again, as it may have been stopped for a moment only."""
        offline: dict[int, set[TopicPartition]] = {}
        for p, some in waits.items():
            for wait in some:
                if wait["state"] == OFFLINE:
                    offline.setdefault(wait["broker"], set()).add(p)
        suspects = {broker for broker, replicas in offline.items() if self._answered.get(broker) != replicas}
        silent = silent_brokers(talk, suspects).keys() if suspects else set()
        self._answered = {broker: replicas for broker, replicas in offline.items() if broker not in silent}
        return set(alive) - silent


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def text_of(waits: Iterable[Wait]) -> str:
    """The same in words."""
    return "; ".join(map(_words, waits))


def _words(wait: Wait) -> str:
    broker, behind = f"broker {wait['broker']}", wait["bytes_behind"]
    if wait["state"] == DOWN:
        return f"{broker} is down" + (f" since {wait['since']}" if wait["since"] else "")
    if wait["state"] == OFFLINE:
        return f"{broker} has lost the log directory of its replica"
    if wait["state"] == UNLED:
        return f"{broker} has nobody to copy from: the partition has no leader"
    room = "" if wait["bytes_free"] is None else f", and only {bytes_text(wait['bytes_free'])} free for that"
    return f"{broker} is catching up" + ("" if behind is None else f", {bytes_text(behind)} behind{room}")


def dead_of(waits: Mapping[TopicPartition, Collection[Wait]]) -> list[int]:
    """The brokers that are down and hold any of these moves up."""
    return sorted({wait["broker"] for some in waits.values() for wait in some if wait["state"] == DOWN})


def not_alive(brokers: Collection[int]) -> str:
    """``broker 3 is not alive``, ``brokers 3, 4 are not alive``."""
    one, verb = ("broker", "is") if len(brokers) == 1 else ("brokers", "are")
    return f"{one} {', '.join(map(str, brokers))} {verb} not alive"


def sizes_of(talk: Talk, brokers: Collection[int]) -> Sizes:
    """Bytes of the replicas of these brokers, of those that answer."""
    told = {id: directories for id, directories in told_directories(talk, brokers).items() if directories}
    sizes = {
        (TopicPartition(topic.name, part.partition_index), broker): part.partition_size
        for broker, directories in told.items()
        for directory in directories
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }
    free = {
        (TopicPartition(topic.name, part.partition_index), broker): directory.usable_bytes
        for broker, directories in told.items()
        for directory in directories
        if directory.usable_bytes >= 0  # else its broker does not tell (KIP-827)
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }
    well = {broker: [one.usable_bytes for one in some if not one.error_code] for broker, some in told.items()}
    most = {broker: max(free) for broker, free in well.items() if free and min(free) >= 0}
    return Sizes(sizes, told.keys(), free, most)


class Downs:
    """Since when brokers are down: as the quorum knows it, or as this process has seen it."""

    def __init__(self) -> None:
        self._alive: set[int] = set()
        self._since: dict[int, float] = {}
        self._asked_s: dict[int, float] = {}

    def poll(self, talk: Talk, dead: Collection[int], alive: Collection[int]) -> Mapping[int, float]:
        """Since when each of the dead is down, of those of which it is known."""
        self._since = {id: since for id, since in self._since.items() if id not in alive}
        now_s = time.monotonic()
        self._asked_s = {
            id: at_s for id, at_s in self._asked_s.items() if id not in alive and now_s - at_s < ASKED_AGAIN_S
        }
        unknown = set(dead) - self._since.keys() - self._asked_s.keys()
        if unknown:
            told = _last_heard_of(talk)
            seen = dict.fromkeys(unknown & self._alive, time.time())
            self._since |= seen | {id: since for id, since in told.items() if id in unknown}
            self._asked_s |= dict.fromkeys(unknown, now_s)
        self._alive = set(alive)
        return self._since


def _last_heard_of(talk: Talk) -> dict[int, float]:
    """When the quorum's leader heard of each node the last time; nothing where there is no quorum, or no leader."""
    with talk.apart(int(1000 * QUORUM_S)) as brief:
        try:  # within the conversation, which ends the command with a word when it ends by an error
            _, part = brief.ask(admin.describe_quorum)
        except (OSError, Refused, UnsupportedApi):
            return {}
    if part is None:
        return {}
    known = [*part.current_voters, *part.observers]
    return {one.replica_id: one.last_fetch_timestamp / 1000 for one in known if one.last_fetch_timestamp > 0}


class WaitReporter:
    """Tells who waits for moves whom they wait for: of dead brokers at once, of slow ones when nothing changes."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._downs, self._answering = Downs(), Answering()
        self._dead: dict[TopicPartition, str] = {}
        self._before: object = None
        self._changed_s, self._pause_s = time.monotonic(), FIRST_PAUSE_S

    def tell(
        self,
        shown: Mapping[TopicPartition, ObservedPartition],
        moving: Mapping[TopicPartition, Reassignment],
        alive: Collection[int],
    ) -> list[int]:
        """Note what is new; the dead brokers that moves wait for."""
        waits = {p: waits_of(p, shown[p], one, WaitFacts(alive)) for p, one in moving.items() if p in shown}
        alive = self._answering.still_alive(self._talk, waits, alive)
        waits = {p: waits_of(p, shown[p], moving[p], WaitFacts(alive)) for p in waits}
        since = self._downs.poll(self._talk, dead_of(waits), alive)
        waits = {p: waits_of(p, shown[p], moving[p], WaitFacts(alive, since=since)) for p in waits}
        dead = {
            p: text_of(stuck)
            for p, some in sorted(waits.items())
            if (stuck := [wait for wait in some if wait["state"] in (DOWN, OFFLINE)])
        }
        _note({p: text for p, text in dead.items() if self._dead.get(p) != text})
        self._dead = dead
        state = sorted((p, [(wait["broker"], wait["state"]) for wait in some]) for p, some in waits.items())
        now_s = time.monotonic()
        if state != self._before:
            self._before, self._changed_s, self._pause_s = state, now_s, FIRST_PAUSE_S
        elif state and now_s - self._changed_s >= self._pause_s:
            self._changed_s, self._pause_s = now_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
            asked = {wait["broker"] for some in waits.values() for wait in some} | {shown[p].leader for p in waits}
            sizes = self._sizes_of(asked & set(alive))
            _note({p: text_of(waits_of(p, shown[p], moving[p], WaitFacts(alive, sizes, since))) for p in sorted(waits)})
        return dead_of(waits)

    def _sizes_of(self, brokers: Collection[int]) -> Sizes:
        try:
            return sizes_of(self._talk, brokers)
        except (OSError, Refused, UnsupportedApi):  # whom moves wait for is told all the same
            return Sizes()


def _note(texts: Mapping[TopicPartition, str]) -> None:
    told = [(p, text) for p, text in texts.items() if text]
    for p, text in told[:MOST_TOLD]:
        note(f"{p} waits: {text}")
    if len(told) > MOST_TOLD:
        note(f"and {counted(len(told) - MOST_TOLD, 'more partition')}; `moldau reassign status` shows all")
