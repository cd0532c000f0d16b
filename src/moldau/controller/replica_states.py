"""States of replicas as the controller of ZooKeeper mode drives them, and the state-change log's lines of their steps.

Whether a replica is online follows from its broker and its directory: such states are seen in the image, as those of
partitions are. Held is what no image shows: who is new in a move that goes on, and how far the deletion of a topic's
replicas has come. Every step goes by ``REPLICA_MOVES``; another one is refused: the replica stays in its state, and the
log tells (PS-1, RS-1). KRaft's controller has no such states, and writes no such lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from moldau.controller.state_change import Author, StateChange, refusal
from moldau.controller.states import REPLICA_MOVES, ReplicaState
from moldau.image import Broker, Delta, Image, Partition, Topic
from moldau.image.delta import PartitionDelta
from moldau.image.partition import Key
from moldau.model import uuid_text
from moldau.model.named import NamedTuple

_S = ReplicaState
_DELETED = (_S.DELETION_STARTED, _S.DELETION_SUCCESSFUL, _S.NON_EXISTENT)
"""The end of a replica that a move takes away. The move does not wait for its broker's answer, nor does Kafka's."""


class ReplicaStep(NamedTuple):
    """One replica's steps: from ``was`` through all states of ``to``, in order. ``refused``: where it could not go from
    the last of them."""

    topic: str
    key: Key
    broker: int
    was: ReplicaState
    to: tuple[ReplicaState, ...]
    refused: ReplicaState | None = None

    @property
    def now(self) -> ReplicaState:
        """The state that the replica is in after its steps."""
        return self.to[-1] if self.to else self.was


class _Deletion:
    """A topic whose replicas are being deleted: their states, and how many are not deleted yet."""

    __slots__ = ("left", "name", "states")

    def __init__(self, name: str) -> None:
        self.name = name
        self.states: dict[tuple[int, int], ReplicaState] = {}
        self.left = 0


class ReplicaStates:
    """One active controller's."""

    def __init__(self, me: int) -> None:
        """``me`` deletes its own replicas with the decision, and is told of nothing."""
        self._me = me
        self._new: set[tuple[Key, int]] = set()
        self._deleting: dict[bytes, _Deletion] = {}

    def clear(self) -> None:
        """Forget what is held: the next controller begins with what it reads."""
        self._new.clear()
        self._deleting.clear()

    def of(self, image: Image, key: Key, broker_id: int) -> ReplicaState:
        """A replica's state."""
        deletion = self._deleting.get(key[0])
        if deletion is not None and (held := deletion.states.get((key[1], broker_id))) is not None:
            return held
        topic = image.topics.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if partition is None or broker_id not in partition.replicas:
            return _S.NON_EXISTENT
        if (key, broker_id) in self._new:
            return _S.NEW
        return _seen(image.brokers.get(broker_id), partition, broker_id)

    # ---- what changes them

    def start(self, image: Image) -> Iterator[ReplicaStep]:
        """A new controller takes replicas on live brokers for online and all others for ineligible, and says so."""
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                for replica in partition.replicas:
                    now = _seen(image.brokers.get(replica), partition, replica)
                    was = _S.ONLINE if now is _S.ONLINE else _S.DELETION_INELIGIBLE
                    yield _step(topic.name, partition.key, replica, was, now)

    def follow(self, image: Image, delta: Delta, *, also_healthy: bool) -> list[ReplicaStep]:
        """The steps of a committed batch. ``also_healthy``: also those of replicas that go on- or offline with their
        brokers, which nobody needs but the log: a broker may have ten thousand."""
        gone = {id for id, before in delta.brokers.items() if _went(before, image.brokers.get(id))}
        steps = self._fail_deletions(gone)
        changes = list(delta.changes(image))
        named = {change.key for change in changes}
        begun = frozenset(self._deleting)
        for change in changes:
            if change.key[0] not in begun:
                steps += self._change(image, delta, change, gone)
        ended = [topic_id for topic_id in delta.topics if topic_id in self._deleting and topic_id not in image.topics]
        for topic_id in ended:
            steps += self._end(topic_id)
        failed = self._fail_new(image, delta, gone, named)
        steps += failed
        steps += self._completed(ended)
        if also_healthy:
            told = {(step.key, step.broker) for step in failed}
            for id, before in delta.brokers.items():
                steps += self._with_broker(
                    image, id, before, lambda ref: ref[0] in named or ref[0][0] in self._deleting or ref in told
                )
        return steps

    def _fail_deletions(self, gone: set[int]) -> list[ReplicaStep]:
        return [
            self._set(id, number, broker, _S.DELETION_INELIGIBLE)
            for id, deletion in self._deleting.items()
            for (number, broker), state in deletion.states.items()
            if broker in gone and broker != self._me and state is _S.DELETION_STARTED
        ]

    def _fail_new(self, image: Image, delta: Delta, gone: set[int], named: set[Key]) -> list[ReplicaStep]:
        steps = []
        for key, broker_id in [one for one in self._new if one[1] in delta.brokers and one[0] not in named]:
            now = _seen(image.brokers.get(broker_id), image.at(key), broker_id)
            if broker_id in gone or now is not _S.ONLINE:
                self._new.discard((key, broker_id))
                path = (_S.OFFLINE, *_apart(_S.OFFLINE, now))
                steps.append(_step(image.topics[key[0]].name, key, broker_id, _S.NEW, *path))
        return steps

    def _change(self, image: Image, delta: Delta, change: PartitionDelta, gone: set[int]) -> Iterator[ReplicaStep]:
        topic, key, before, after = change
        was_there = () if before is None else before.replicas
        is_there = () if after is None else after.replicas
        for broker_id in dict.fromkeys((*is_there, *was_there)):
            now_broker = image.brokers.get(broker_id)
            was = _S.NON_EXISTENT
            if before is not None and broker_id in was_there:
                was_broker = delta.brokers.get(broker_id, now_broker)
                was = _S.NEW if (key, broker_id) in self._new else _seen(was_broker, before, broker_id)
            if after is None:
                yield self._delete(topic, key, broker_id, was, now_broker)
            elif broker_id not in is_there:
                self._new.discard((key, broker_id))
                yield _step(topic, key, broker_id, was, *_apart(was, _S.OFFLINE), *_DELETED)
            else:
                now = _seen(now_broker, after, broker_id)
                yield from self._stays(topic, after, broker_id, was, now, went=broker_id in gone)

    def _stays(
        self, topic: str, partition: Partition, broker_id: int, was: ReplicaState, now: ReplicaState, *, went: bool
    ) -> Iterator[ReplicaStep]:
        """A replica that its partition has after a change, and maybe did not have before."""
        ref = partition.key, broker_id
        path: list[ReplicaState] = []
        if was is _S.NON_EXISTENT:
            path = [was := _S.NEW]
            is_added = broker_id in partition.adding and now is _S.ONLINE
            self._new |= {ref} if is_added else set()
        elif ref in self._new and (went or now is not _S.ONLINE or broker_id not in partition.adding):
            self._new.discard(ref)
        if ref not in self._new:
            path += _apart(was, _S.OFFLINE) if went and not path else []
            path += _apart(path[-1] if path else was, now)
        if path:
            first = _S.NON_EXISTENT if path[0] is _S.NEW else was
            yield _step(topic, partition.key, broker_id, first, *path)

    def _with_broker(
        self, image: Image, id: int, before: Broker | None, is_told: Callable[[tuple[Key, int]], bool]
    ) -> Iterator[ReplicaStep]:
        """What becomes of a broker's replicas as it goes, comes, or wants to stop; but those that are told of."""
        after = image.brokers.get(id)
        for partition in image.partitions_on_broker(id):
            if is_told((partition.key, id)) or (partition.key, id) in self._new:
                continue
            was, now = _seen(before, partition, id), _seen(after, partition, id)
            path = _apart(was, _S.OFFLINE) if _went(before, after) else []
            path += _apart(path[-1] if path else was, now)
            if path:
                yield _step(image.topics[partition.topic_id].name, partition.key, id, was, *path)

    # ---- the deletion of topics

    @property
    def deleting(self) -> Collection[bytes]:
        """Ids of topics whose replicas are being deleted; their partitions are no longer anybody's."""
        return self._deleting.keys()

    def delete(self, image: Image, topic: Topic) -> list[ReplicaStep]:
        """Begin to delete a topic's replicas: those that are online; the others are ineligible until their brokers
        register (``again``). The topic itself goes when none is left (``are_deleted``), and this node's own with it.
        ``topic`` may have partitions that the image lacks, as their states could not be read."""
        deletion = self._deleting[topic.id] = _Deletion(topic.name)
        steps = []
        for partition in topic.partitions.values():
            for replica in partition.replicas:
                was = _seen(image.brokers.get(replica), partition, replica)
                self._new.discard((partition.key, replica))
                is_told = was is _S.ONLINE or replica == self._me
                path = [*_apart(was, _S.OFFLINE), _S.DELETION_STARTED if is_told else _S.DELETION_INELIGIBLE]
                step = _step(topic.name, partition.key, replica, was, *path)
                deletion.left += replica != self._me
                deletion.states[partition.id, replica] = step.now
                steps.append(step)
        return steps

    def are_deleted(self, topic_id: bytes) -> bool:
        """Whether all brokers but this one have deleted their replicas of a topic."""
        deletion = self._deleting.get(topic_id)
        return deletion is not None and not deletion.left

    def on_broker(self, broker_id: int, state: ReplicaState) -> list[Key]:
        """A broker's replicas of topics that are being deleted, as far as they are in a state."""
        return [
            (id, number)
            for id, deletion in self._deleting.items()
            for (number, broker), held in deletion.states.items()
            if broker == broker_id and held is state
        ]

    def named(self, name: str) -> bytes | None:
        """The id of a topic of that name whose replicas are being deleted."""
        return next((id for id, deletion in self._deleting.items() if deletion.name == name), None)

    def _end(self, topic_id: bytes) -> list[ReplicaStep]:
        """The topic is gone, and with it this node's replicas of its partitions."""
        return [
            self._set(topic_id, number, broker, _S.DELETION_SUCCESSFUL)
            for (number, broker), state in self._deleting[topic_id].states.items()
            if broker == self._me and state is _S.DELETION_STARTED
        ]

    def _delete(self, topic: str, key: Key, broker_id: int, was: ReplicaState, broker: Broker | None) -> ReplicaStep:
        """A replica of a topic that was deleted in one decision, as a controller that tells migrating brokers does."""
        self._new.discard((key, broker_id))
        deletion = self._deleting.setdefault(key[0], _Deletion(topic))
        path = [*_apart(was, _S.OFFLINE), _S.DELETION_STARTED]
        if broker_id == self._me:
            path.append(_S.DELETION_SUCCESSFUL)
        else:
            deletion.left += 1
            if broker is None or broker.fenced:
                path.append(_S.DELETION_INELIGIBLE)
        step = _step(topic, key, broker_id, was, *path)
        deletion.states[key[1], broker_id] = step.now
        return step

    def answered(self, image: Image, broker_id: int, key: Key, *, deleted: bool) -> list[ReplicaStep]:
        """A broker has answered that it deleted a replica of a topic that goes, or that it could not; nothing of
        others."""
        if self._held(key, broker_id) is not _S.DELETION_STARTED or broker_id == self._me:
            return []
        to = _S.DELETION_SUCCESSFUL if deleted else _S.DELETION_INELIGIBLE
        steps = [self._set(key[0], key[1], broker_id, to)]
        self._deleting[key[0]].left -= deleted
        return steps if key[0] in image.topics else steps + self._completed((key[0],))

    def again(self, broker_id: int, key: Key) -> list[ReplicaStep]:
        """A broker is told once more to delete a replica."""
        if self._held(key, broker_id) is not _S.DELETION_INELIGIBLE:
            return []
        return [self._set(key[0], key[1], broker_id, _S.OFFLINE, _S.DELETION_STARTED)]

    def forget(self, broker_id: int, key: Key) -> list[ReplicaStep]:
        """A replica of a topic that is gone keeps its files: nobody is told to delete them any more."""
        held = self._held(key, broker_id)
        if held is None:
            return []
        deletion = self._deleting[key[0]]
        del deletion.states[key[1], broker_id]
        deletion.left -= held is not _S.DELETION_SUCCESSFUL
        return self._completed((key[0],))

    def _completed(self, topic_ids: Iterable[bytes]) -> list[ReplicaStep]:
        """The last step of all replicas of topics that are gone, where none is left to be deleted."""
        steps = []
        for id in topic_ids:
            deletion = self._deleting.get(id)
            if deletion is not None and not deletion.left:
                steps += [self._set(id, number, broker, _S.NON_EXISTENT) for number, broker in deletion.states]
                del self._deleting[id]
        return steps

    def _held(self, key: Key, broker_id: int) -> ReplicaState | None:
        deletion = self._deleting.get(key[0])
        return None if deletion is None else deletion.states.get((key[1], broker_id))

    def _set(self, id: bytes, number: int, broker: int, *to: ReplicaState) -> ReplicaStep:
        deletion = self._deleting[id]
        step = _step(deletion.name, (id, number), broker, deletion.states[number, broker], *to)
        deletion.states[number, broker] = step.now
        return step


def _seen(broker: Broker | None, partition: Partition, replica: int) -> ReplicaState:
    """A replica's state as the image shows it. A follower of a broker that wants to stop is stopped (CS-1)."""
    stays = broker is not None and not broker.fenced and broker.has_online_dir(partition.directory(replica))
    stops = broker is not None and broker.in_controlled_shutdown and partition.leader != replica
    return _S.ONLINE if stays and not stops else _S.OFFLINE


def _went(before: Broker | None, after: Broker | None) -> bool:
    """Whether a process that lived is no more, also when the next of its id lives already."""
    if before is None or before.fenced:
        return False
    return after is None or after.fenced or after.epoch != before.epoch


def _apart(was: ReplicaState, now: ReplicaState) -> list[ReplicaState]:
    return [now] if now is not was else []


def _step(topic: str, key: Key, broker: int, was: ReplicaState, *to: ReplicaState) -> ReplicaStep:
    """The steps of a replica as far as the table has them; the first other one is refused, with all after it."""
    at = was
    for number, state in enumerate(to):
        if state not in REPLICA_MOVES[at]:
            return ReplicaStep(topic, key, broker, was, to[:number], state)
        at = state
    return ReplicaStep(topic, key, broker, was, to)


def replica_changes(steps: Iterable[ReplicaStep], author: Author) -> Iterator[StateChange]:
    """An event for each step and each refusal, in Kafka's words."""
    for topic, key, broker, was, to, refused in steps:
        at = was
        for state in to:
            text = f"{author} Changed state of replica {broker} for partition {topic}-{key[1]}"
            yield StateChange(
                f"{text} from {at.value} to {state.value}",
                {
                    "event": "replica state", "topic": topic, "topicId": uuid_text(key[0]), "partition": key[1],
                    "replica": broker, "from": at.value, "to": state.value,
                    "controller": author.id, "controllerEpoch": author.epoch,
                },
            )  # fmt: skip
            at = state
        if refused is not None:
            replica = f"replica {broker} for partition {topic}-{key[1]}"
            words = f"initiated state change of {replica} from {at.value} to {refused.value} failed"
            yield refusal(author, words, f"R{replica[1:]}", at, refused)
