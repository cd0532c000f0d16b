"""What this broker's logs have against a controller's word: a topic id that is another topic's, an older leader epoch.

A topic id belongs to one name, and no log should have records of a later leader epoch than ZooKeeper knows. Where one
has, the data of ZooKeeper are somebody's copy: of one topic's znode under another name, or of all znodes from before
those elections. A leader of an old epoch would forget where the later ones began, and followers would find no place
to follow from. So this broker neither leads nor follows until a controller of ours has raised the epoch above those
of the logs; other controllers raise nothing, and their word is taken. An epoch that is ahead by more than
``AHEAD_MAX`` is damage of the log, and no reason to wait; a controller believes its own logs up to ``RAISED_MAX``.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping

from moldau.broker.zookeeper.batch import UNKNOWN
from moldau.broker.zookeeper.outcomes import RoleOutcome
from moldau.broker.zookeeper.translation import roles_in
from moldau.image.partition import NO_LEADER, Key
from moldau.model import Code, TopicPartition
from moldau.model.named import NamedTuple
from moldau.storage.log import Log
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.records.metadata import PartitionRecord
from moldau.wire.schema import Message
from moldau.zookeeper.payload import EPOCH_MAX

log = logging.getLogger(__name__)

AHEAD_MAX = 1 << 12
"""By so many leader epochs the logs may be ahead of an older copy: each costs a write and a round of requests."""
RAISED_MAX = 1 << 20
"""By so many they may be where a controller raises all epochs at once: it may have done so before, after other copies.
"""

Logs = Mapping[TopicPartition, Log]


def latest_epoch(logs: Logs, name: str, topic_id: bytes, number: int) -> int:
    """The newest leader epoch in a partition's log, -1 where there is no log of this very topic."""
    found = logs.get(TopicPartition(name, number))
    return -1 if found is None or found.topic_id != topic_id else found.epochs.latest


def without_copies(
    request: LeaderAndIsrRequest, logs: Logs, named: set[tuple[str, str]]
) -> tuple[LeaderAndIsrRequest, list[RoleOutcome]]:
    """The request without topics whose ids are those of other topics' logs, and the outcomes of these: served, the
    other's log would be cut to what a replica under the wrong name has. ``named``: the pairs that the log told of."""
    new = {
        bytes(topic.topic_id)
        for topic in request.topic_states
        if not any(
            (one := logs.get(TopicPartition(topic.topic_name, state.partition_index))) is not None
            and one.topic_id == topic.topic_id
            for state in topic.partition_states
        )
    }
    if not new:
        return request, []
    owners = {one.topic_id: partition.topic for partition, one in logs.items() if one.topic_id in new}
    copies = {
        topic.topic_name: owner
        for topic in request.topic_states
        if (owner := owners.get(bytes(topic.topic_id), topic.topic_name)) != topic.topic_name
    }
    if not copies:
        return request, []
    for name, owner in copies.items():
        if (name, owner) not in named:
            named.add((name, owner))
            log.error("topic %s is refused: its id is that of topic %s, whose logs are here", name, owner)
    believed = copy.copy(request)
    believed.topic_states = [topic for topic in request.topic_states if topic.topic_name not in copies]
    refused = [
        RoleOutcome(name, id, state.partition_index, Code.INCONSISTENT_TOPIC_ID)
        for name, id, state in roles_in(request)
        if name in copies
    ]
    return believed, refused


class Outdated(NamedTuple):
    """A role under a leader epoch below that of this broker's log."""

    partition: TopicPartition
    key: Key
    epoch: int
    latest: int

    @property
    def is_believed(self) -> bool:
        """Whether so many elections can have been."""
        return is_ahead(self.latest, self.epoch)


def is_ahead(latest: int, epoch: int, most: int = AHEAD_MAX) -> bool:
    """Whether a log's newest epoch is a later one than ``epoch``, and not one that only damage can have made."""
    return 0 < latest - epoch <= most and latest < EPOCH_MAX


def outdated(request: LeaderAndIsrRequest, logs: Logs, outcomes: Iterable[RoleOutcome]) -> Iterator[Outdated]:
    """All such roles in a request, of those that are taken."""
    taken = {one.key for one in outcomes if one.code is Code.NONE}
    for name, id, state in roles_in(request):
        number = state.partition_index
        latest = latest_epoch(logs, name, id, number)
        if latest > state.leader_epoch and (id, number) in taken:
            yield Outdated(TopicPartition(name, number), (id, number), state.leader_epoch, latest)


def is_raised(request: LeaderAndIsrRequest) -> bool:
    """Whether the controller raises epochs of which a broker answers FENCED_LEADER_EPOCH: ours does, in ZooKeeper mode,
    and says types, which Apache Kafka's do not."""
    return request.type != UNKNOWN and not request.is_k_raft_controller


def name_outdated(found: Iterable[Outdated], named: dict[Key, int], *, raised: bool) -> None:
    """Say what is wrong, and what becomes of it, once for each log: ``named`` has the epochs that were said."""
    for one in found:
        if named.get(one.key) == one.latest:
            continue
        named[one.key] = one.latest
        if not one.is_believed:
            log.error(
                "%s: the log here has leader epoch %d, and %d is the present one: its epochs are damaged, perhaps in"
                " leader-epoch-checkpoint; other replicas may not follow it, nor it them",
                one.partition,
                one.latest,
                one.epoch,
            )
            continue
        log.error(
            "%s: leader epoch %d is older than %d of the log here: the data of ZooKeeper are older than the logs,"
            " perhaps an older copy of them; %s",
            one.partition,
            one.epoch,
            one.latest,
            "the controller is asked for a later epoch"
            if raised
            else "replicas may not follow until elections have brought it above that of the log",
        )


def held_back(found: Iterable[Outdated], records: list[Message], outcomes: Iterable[RoleOutcome]) -> list[RoleOutcome]:
    """Have outdated roles in ``records`` led by nobody; the outcomes, then: FENCED_LEADER_EPOCH of these."""
    keys = {one.key for one in found if one.is_believed}
    for record in records:
        if isinstance(record, PartitionRecord) and (bytes(record.topic_id), record.partition_id) in keys:
            record.leader = NO_LEADER
    return [
        one._replace(code=Code.FENCED_LEADER_EPOCH) if one.code is Code.NONE and one.key in keys else one
        for one in outcomes
    ]
