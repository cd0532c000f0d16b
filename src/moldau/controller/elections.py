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

_PREFERRED = Wish(how=How.PREFERRED)
_UNCLEAN = Wish(how=How.UNCLEAN)


def elect_leaders(view: View, ask: ElectLeaders) -> Decision:
    """Elect where asked; asked for all, say nothing of partitions that need no election."""
    if ask.election_type not in tuple(ElectionType):
        return Decision([], Refused(Code.INVALID_REQUEST, f"Unknown election type {ask.election_type}"))
    records: list[Any] = []
    results: list[tuple[str, int, Problem]] = []
    standing = Standing(view)
    if ask.partitions is None:
        keys = view.image.index.astray if ask.election_type == 0 else view.image.index.led.get(NO_LEADER, {})
        named = sorted((view.image.topics[key[0]].name, key[1]) for key in keys)
    else:
        named = list(dict.fromkeys(ask.partitions))
    for topic, number in named:
        problem = _elect(standing, topic, number, ask.election_type, records)
        if ask.partitions is not None or problem.code is not Code.ELECTION_NOT_NEEDED:
            results.append((topic, number, problem))
    return Decision(records, LeadersElected(partitions=tuple(results)))


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
    astray: dict[int, list[Key]] = {}
    for key in view.image.index.astray:
        astray.setdefault(view.image.at(key).replicas[0], []).append(key)
    records: list[Any] = []
    standing = Standing(view)
    for broker_id in sorted(astray):
        if not imbalanced(view, broker_id, len(astray[broker_id])):
            continue
        for key in sorted(astray[broker_id]):
            if len(records) >= view.settings.max_elections:
                return Decision(records, Moved(count=len(records), more=True))
            partition = view.image.at(key)
            if not _can_lead(standing, partition):
                continue
            record = change(partition, view.image.topics[key[0]].name, _PREFERRED, standing)
            if record is not None:
                records.append(record)
    return Decision(records, Moved(count=len(records)))


def imbalanced(view: View, broker_id: int, astray: int) -> bool:
    """Whether a broker's imbalance, the share of its preferred partitions led elsewhere, is above the limit (PE-1)."""
    return astray * 100 > view.settings.imbalance_percentage * view.image.index.preferred[broker_id]


def _can_lead(standing: Standing, partition: Partition) -> bool:
    first = partition.replicas[0]
    return first in partition.isr and standing.live(partition)(first)


def elect_unclean_leaders(view: View, ask: ElectUncleanLeaders) -> Decision:
    """Give leaderless partitions whose topics allow an unclean election a leader, at most so many in a pass."""
    keys = sorted(
        key for key in view.image.index.led.get(NO_LEADER, ()) if view.unclean(view.image.topics[key[0]].name)
    )
    records = failures.elect_leaderless(view, keys[: view.settings.max_elections])
    return Decision(records, Moved(count=len(records), more=len(keys) > view.settings.max_elections))
