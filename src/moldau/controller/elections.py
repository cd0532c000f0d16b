"""Elections on request and in the background: preferred, unclean, and the periodic rebalance of leaders (PE-1, C11).

Who qualifies is decided in ``selectors.py``; what an election changes, in ``change.py``.
"""

from __future__ import annotations

from typing import Any

from moldau.controller import failures
from moldau.controller.asks import ElectionType, ElectLeaders, ElectUncleanLeaders, RebalanceLeaders
from moldau.controller.change import How, Standing, Wish, change
from moldau.controller.facts import FINE, Decision, Problem, View
from moldau.controller.replies import LeadersElected, Moved, Refused
from moldau.image.partition import NO_LEADER, Key, Partition
from moldau.terms import Code
from moldau.terms.value import replace

_PREFERRED = Wish(how=How.PREFERRED)
_UNCLEAN = Wish(how=How.UNCLEAN)


def elect_leaders(view: View, ask: ElectLeaders) -> Decision:
    """Elect where asked; asked for all, say nothing of partitions that need no election."""
    if ask.election_type not in tuple(ElectionType):
        return Decision([], Refused(Code.INVALID_REQUEST, f"Unknown election type {ask.election_type}"))
    records: list[Any] = []
    results: list[tuple[str, int, Problem]] = []
    standing = Standing(view)
    needed_only = ask.needed_only or ask.partitions is None
    named = _needy(view, ask) if ask.partitions is None else ask.partitions
    if not ask.at:
        named = tuple(dict.fromkeys(named))
    end = ask.at + view.settings.partitions_at_once
    for topic, number in named[ask.at : end]:
        problem = _elect(standing, topic, number, ask.election_type, records)
        if not needed_only or problem.code is not Code.ELECTION_NOT_NEEDED:
            results.append((topic, number, problem))
    told: tuple[Any, ...] = (*ask.told, *results)
    if end < len(named):
        return Decision(records, None, then=replace(ask, partitions=named, needed_only=needed_only, at=end, told=told))
    return Decision(records, LeadersElected(partitions=told))


def _needy(view: View, ask: ElectLeaders) -> tuple[tuple[str, int], ...]:
    index, topics = view.image.index, view.image.topics
    keys = index.astray if ask.election_type == ElectionType.PREFERRED else index.led.get(NO_LEADER, {})
    return tuple((topics[key[0]].name, key[1]) for key in keys)


def _elect(standing: Standing, topic: str, number: int, election_type: int, records: list[Any]) -> Problem:
    found = standing.view.image.topic(topic)
    partition = None if found is None else found.partitions.get(number)
    if partition is None:
        return Problem(Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{number}")
    if election_type == ElectionType.PREFERRED:
        needed, wish, failure = (
            partition.leader != partition.replicas[0], _PREFERRED, Code.PREFERRED_LEADER_NOT_AVAILABLE,
        )  # fmt: skip
    else:
        needed, wish, failure = partition.leader == NO_LEADER, _UNCLEAN, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not needed:
        return Problem(Code.ELECTION_NOT_NEEDED, "The partition has the leader asked for.")
    record = change(partition, topic, wish, standing)
    if record is None or record.leader < 0 or (wish is _PREFERRED and record.leader != partition.replicas[0]):
        return Problem(failure, "The replica asked for is not live and in sync.")
    records.append(record)
    return FINE


def rebalance_leaders(view: View, ask: RebalanceLeaders) -> Decision:
    """For brokers that lead too few of the partitions that they should: give them back, at most so many in a pass."""
    if not view.settings.rebalance_enable:
        return Decision([], Moved(count=0))
    picked, more = (ask.left, ask.more) if ask.left else _astray(view)
    most = view.settings.partitions_at_once
    standing = Standing(view)
    records: list[Any] = []
    for key in picked[:most]:
        partition = view.image.partition(*key)
        if partition is not None and _can_lead(standing, partition):
            record = change(partition, view.image.topics[key[0]].name, _PREFERRED, standing)
            if record is not None:
                records.append(record)
    count = ask.count + len(records)
    if len(picked) > most:
        return Decision(records, None, then=RebalanceLeaders(left=picked[most:], count=count, more=more))
    return Decision(records, Moved(count=count, more=more))


def _astray(view: View) -> tuple[tuple[Key, ...], bool]:
    """What one pass gives back, of all brokers that lead too little; and whether it is not everything."""
    astray: dict[int, list[Key]] = {}
    for key in view.image.index.astray:
        astray.setdefault(view.image.at(key).replicas[0], []).append(key)
    standing, most = Standing(view), view.settings.max_elections
    picked: list[Key] = []
    for broker_id in sorted(astray):
        if imbalanced(view, broker_id, len(astray[broker_id])):
            picked += [key for key in astray[broker_id] if _can_lead(standing, view.image.at(key))]
    return tuple(picked[:most]), len(picked) > most


def imbalanced(view: View, broker_id: int, astray: int) -> bool:
    """Whether a broker's imbalance, the share of its preferred partitions led elsewhere, is above the limit (PE-1)."""
    return astray * 100 > view.settings.imbalance_percentage * view.image.index.preferred[broker_id]


def _can_lead(standing: Standing, partition: Partition) -> bool:
    first = partition.replicas[0]
    return first in partition.isr and standing.live(partition)(first)


def elect_unclean_leaders(view: View, ask: ElectUncleanLeaders) -> Decision:
    """Give leaderless partitions whose topics allow an unclean election a leader. Each is looked at once: those that
    nobody can lead keep none of the others from it."""
    topics = view.image.topics
    keys = ask.left or tuple(
        key for key in view.image.index.led.get(NO_LEADER, ()) if view.unclean(topics[key[0]].name)
    )
    most = view.settings.partitions_at_once
    records = failures.elect_leaderless(view, (key for key in keys[:most] if view.image.partition(*key) is not None))
    count = ask.count + len(records)
    if len(keys) > most:
        return Decision(records, None, then=ElectUncleanLeaders(left=keys[most:], count=count))
    return Decision(records, Moved(count=count))
