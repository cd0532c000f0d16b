"""What a controller decides reaches every broker whole: batches carried by requests rebuild its image.

Any run of requests, each committed batch sent as requests through the wire's codecs, every request twice: what live
brokers then hold is what the controller decided, whatever they missed while they were away.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.zookeeper import batch, translation
from moldau.controller.requests import AlterPartitionReassignments, BrokerRefused, Move
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.simulator.machines.controller_play import ACTIONS, BROKERS, Play, Step
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest
from moldau.wire.records import metadata as records

SENDER = batch.SendingController(controller_id=99, controller_epoch=3, listener="PLAINTEXT")
VERSIONS: dict[type, int] = {LeaderAndIsrRequest: 7, StopReplicaRequest: 4, UpdateMetadataRequest: 8}


class RecordingListener:
    """A broker that does nothing but listen."""

    def __init__(self, me: int) -> None:
        self.me = me
        self.image = Image()

    def hear(self, message: Any, truth: Image) -> Any:
        kind = type(message)
        request = kind.decode(message.encode(VERSIONS[kind]), VERSIONS[kind])
        codes: Any = None
        if kind is LeaderAndIsrRequest:
            found, codes = translation.leader_and_isr(self.image, self.me, request)
        elif kind is StopReplicaRequest:
            found, codes = translation.stop_replica(self.image, self.me, request)
        else:
            epochs = {id: truth.brokers[id].epoch for id in translation.newly_live(self.image, request)}
            gone = translation.unnamed(self.image, request)
            found = translation.update_metadata(self.image, self.me, request, epochs, gone)
        self.image.apply_all(found)
        return found, codes


class CarryingHarness(ControllerHarness):
    """A harness whose commits are carried to five brokers. ``deaf`` ones miss them, until they are told everything."""

    def __init__(self, brokers: int) -> None:
        self.handler = {id: RecordingListener(id) for id in range(BROKERS)}
        self.told: set[int] = set()
        self.deaf: set[int] = set()
        super().__init__(brokers, elr=False)

    def commit(self, records: Any, request: Any = None) -> Any:
        ready = super().commit(records, request)
        live = {broker.id: broker for broker in batch.reachable(self.image, SENDER)}
        self.told &= live.keys()
        told = batch.requests(self.image, self.delta, SENDER)
        for id, broker in live.items():
            messages = told.get(id, []) if id in self.told else batch.full(self.image, broker, SENDER)
            self.told.add(id)
            if id not in self.deaf:
                self.say(id, messages)
        return ready

    def say(self, id: int, messages: list[Any]) -> None:
        for message in messages:
            self.handler[id].hear(message, self.image)
            again, _ = self.handler[id].hear(message, self.image)
            assert not again, f"a request that is repeated changed something: {again}"

    def tell_all(self) -> None:
        """A new controller becomes active."""
        self.deaf.clear()
        for broker in batch.reachable(self.image, SENDER):
            self.say(broker.id, batch.full(self.image, broker, SENDER))

    def check(self) -> None:
        for broker in batch.reachable(self.image, SENDER):
            if broker.id not in self.deaf:
                assert essence(self.handler[broker.id].image, broker.id) == essence(self.image, broker.id)


def essence(image: Image, me: int) -> Any:
    """What a broker must know: live brokers, topics, partitions, and of its own all of it."""
    return (
        {b.id: (b.epoch, b.endpoints, b.rack) for b in image.live_brokers()},
        {
            (topic.name, p.id): (topic.id, p.replicas, p.isr, p.leader, p.leader_epoch, p.partition_epoch)
            + ((p.adding, p.removing, p.recovery) if me in p.replicas else ())
            for topic in image.topics.values()
            for p in topic.partitions.values()
        },
    )


class CarriedPlay(Play):
    def __init__(self) -> None:
        self.harness: CarryingHarness = CarryingHarness(4)
        self.incarnations = dict.fromkeys(range(BROKERS), 0)
        self.harness.create("t0", (0, 1, 2), (1, 2, 3), (2, 3, 0))

    def run(self, steps: Any) -> None:
        for step in steps:
            what, a, *_ = step
            if what >= 250:
                self.harness.deaf.add(a % BROKERS)
            elif what >= 244:
                self.harness.tell_all()
            elif ACTIONS[what % len(ACTIONS)] is not Play.feature:  # no eligible leader replicas in this mode
                super().run([step])
            self.harness.check()
        self.harness.tell_all()
        self.harness.check()


numbers = st.integers(0, 255)


@settings(max_examples=80, deadline=None)
@given(steps=st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=40))
def test_whatever_is_decided_every_live_broker_comes_to_hold(steps: list[Step]) -> None:
    CarriedPlay().run(steps)


@pytest.mark.parametrize("seed", range(8))
def test_long_runs_are_carried_whole(seed: int) -> None:
    import random

    rng = random.Random(seed)
    CarriedPlay().run([tuple(rng.randrange(256) for _ in range(4)) for _ in range(120)])


def topic(name: str = "t", replicas: tuple[int, ...] = (1, 2), **fields: Any) -> list[Any]:
    id = name.encode().ljust(16, b"-")
    state = {"leader": replicas[0], "leader_epoch": 5, "partition_epoch": 7, **fields}
    return [
        records.TopicRecord(name=name, topic_id=id),
        records.PartitionRecord(topic_id=id, partition_id=0, replicas=list(replicas), isr=list(replicas), **state),
    ]


def image_with(*batch: Any) -> Image:
    image = Image()
    image.apply_all(batch)
    return image


def role(name: str = "t", **fields: Any) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        **{"replicas": [1, 2], "isr": [1, 2], "leader": 2, "leader_epoch": 6, "partition_epoch": 8, **fields}
    )
    named = LeaderAndIsrRequest.LeaderAndIsrTopicState(
        topic_name=name, topic_id=name.encode().ljust(16, b"-"), partition_states=[state]
    )
    return LeaderAndIsrRequest(topic_states=[named])


def test_a_leader_hears_who_is_dead_before_it_hears_of_a_smaller_isr() -> None:
    """Else its watermark waits for a follower that was caught up a moment ago: seen as writes that stood for 12 s."""
    harness = CarryingHarness(3)
    harness.create("t", (0, 1, 2))
    listener, broker = harness.handler[0], harness.image.brokers[2]
    harness.deaf.add(0)
    harness.submit(BrokerRefused(broker_id=2, broker_epoch=broker.epoch))
    for message in batch.requests(harness.image, harness.delta, SENDER)[0]:
        listener.hear(message, harness.image)
        (partition,) = listener.image.partitions_on_broker(0)
        assert listener.image.brokers[2].fenced or 2 in partition.isr
    assert partition.isr == (0, 1)


def test_an_older_leader_epoch_is_ignored_and_said_to_be_stale() -> None:
    image = image_with(*topic())
    found, codes = translation.leader_and_isr(image, 1, role(leader_epoch=4, partition_epoch=9))
    assert not found
    assert codes[0][3] is Code.STALE_CONTROLLER_EPOCH


def test_a_role_for_a_broker_that_is_no_replica_is_refused() -> None:
    found, codes = translation.leader_and_isr(image_with(*topic()), 3, role())
    assert not found
    assert codes[0][3] is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_the_first_versions_speak_of_topics_without_ids() -> None:
    request = role()
    state = request.topic_states[0].partition_states[0]
    state.topic_name = "old"
    old = LeaderAndIsrRequest(ungrouped_partition_states=[state])
    heard = LeaderAndIsrRequest.decode(old.encode(1), 1)
    image = Image()
    found, codes = translation.leader_and_isr(image, 1, heard)
    image.apply_all(found)
    known = image.topic("old")
    assert known is not None
    assert known.partitions[0].leader == 2
    assert codes[0][:1] == ("old",)


def test_a_leader_beside_another_in_one_epoch_is_refused() -> None:
    """Apache Kafka's brokers take nothing of an epoch that they have; ours take what came of the same leader since."""
    image = image_with(*topic(leader=1, leader_epoch=6, partition_epoch=7))
    found, codes = translation.leader_and_isr(image, 1, role(leader=2, leader_epoch=6, partition_epoch=8))
    assert (found, codes[0][3]) == ([], Code.STALE_CONTROLLER_EPOCH)
    found, codes = translation.leader_and_isr(image, 1, role(leader=1, leader_epoch=6, partition_epoch=8, isr=[1]))
    (taken,) = found
    assert isinstance(taken, records.PartitionRecord)
    assert (list(taken.isr), codes[0][3]) == ([1], Code.NONE)


@pytest.mark.parametrize(("known", "named"), [(-1, 2), (2, -1)])
def test_an_epoch_without_a_leader_may_be_given_one_or_lose_it(known: int, named: int) -> None:
    image = image_with(*topic(leader=known, leader_epoch=6, partition_epoch=7))
    found, codes = translation.leader_and_isr(image, 1, role(leader=named, leader_epoch=6, partition_epoch=8))
    (taken,) = found
    assert isinstance(taken, records.PartitionRecord)
    assert (taken.leader, codes[0][3]) == (named, Code.NONE)


def test_metadata_alone_gives_a_broker_no_part_in_a_partition() -> None:
    """A role comes by LeaderAndIsr only: what a broker holds is not led on hearsay."""
    truth = image_with(*topic())
    truth.apply(
        records.RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=9,
            fenced=False,
            end_points=[records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="h", port=1)],
        )
    )
    whole, roles = batch.full(truth, truth.brokers[1], SENDER)
    listener = RecordingListener(1)
    listener.hear(whole, truth)
    assert listener.image.topic("t") is None
    listener.hear(roles, truth)
    assert listener.image.topic("t") is not None


def test_a_topic_made_again_under_its_name_replaces_the_old_one() -> None:
    image = image_with(*topic())
    request = role(leader_epoch=0, partition_epoch=0)
    request.topic_states[0].topic_id = b"another".ljust(16, b"-")
    found, _ = translation.leader_and_isr(image, 1, request)
    assert isinstance(found[0], records.RemoveTopicRecord)
    image.apply_all(found)
    known = image.topic("t")
    assert known is not None
    assert known.id == b"another".ljust(16, b"-")


def test_deleting_a_topic_deletes_it_where_replicas_are_by_stop_replica_only() -> None:
    truth = image_with(*topic())
    for id in (1, 3):
        truth.apply(
            records.RegisterBrokerRecord(
                broker_id=id,
                broker_epoch=9 + id,
                fenced=False,
                end_points=[records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="h", port=id)],
            )
        )
    handler = {id: RecordingListener(id) for id in (1, 3)}
    for id, listener in handler.items():
        for message in batch.full(truth, truth.brokers[id], SENDER):
            listener.hear(message, truth)
    delta = Delta()
    truth.apply(records.RemoveTopicRecord(topic_id=b"t".ljust(16, b"-")), delta=delta)
    told = batch.requests(truth, delta, SENDER)
    assert [type(message) for message in told[1]] == [UpdateMetadataRequest, StopReplicaRequest, StopReplicaRequest]
    assert [_deletes(message) for message in told[1][1:] if isinstance(message, StopReplicaRequest)] == [False, True], (
        "a replica goes offline before it is deleted"
    )
    assert [type(message) for message in told[3]] == [UpdateMetadataRequest]
    handler[1].hear(told[1][0], truth)
    assert handler[1].image.topic("t") is not None
    offline = told[1][1]
    assert isinstance(offline, StopReplicaRequest)
    handler[1].hear(offline, truth)
    assert handler[1].image.topic("t") is not None
    assert translation.stops(handler[1].image, 1, offline) == [(b"t".ljust(16, b"-"), 0)]
    handler[1].hear(told[1][2], truth)
    handler[3].hear(told[3][0], truth)
    assert not handler[1].image.names
    assert not handler[3].image.names


def _deletes(stop: StopReplicaRequest) -> bool:
    (deletes,) = {state.delete_partition for topic in stop.topic_states for state in topic.partition_states}
    return deletes


class Sent(ControllerHarness):
    """A harness that keeps what each broker is told of the last decision."""

    told: dict[int, list[Any]]

    def commit(self, records: Any, request: Any = None) -> Any:
        ready = super().commit(records, request)
        self.told = batch.requests(self.image, self.delta, SENDER)
        return ready

    def stops(self, id: int) -> list[tuple[bool, list[int]]]:
        """Per StopReplica to a broker: whether it deletes, and the partitions."""
        sent = [message for message in self.told[id] if isinstance(message, StopReplicaRequest)]
        return [(_deletes(m), [s.partition_index for t in m.topic_states for s in t.partition_states]) for m in sent]


def test_a_broker_that_wants_to_stop_is_told_to_stop_what_it_follows() -> None:
    """CS-1, as KafkaController.doControlledShutdown: what others have a replica of, and lead by now."""
    harness = Sent(3, elr=False, zookeeper_mode=True)
    harness.create("t", (0, 1), (1, 0), (2, 0), (1, 2))
    harness.create("single", (0,))
    harness.heartbeat(0, want_shut_down=True)
    assert harness.stops(0) == [(False, [0, 1, 2])], "0, in which it was made a follower just now, as well"
    assert isinstance(harness.told[0][-2], LeaderAndIsrRequest), "its new part in what it led is told before"
    assert harness.stops(1) == harness.stops(2) == []
    harness.heartbeat(0, want_shut_down=True)
    assert not harness.told.get(0), "once"


def test_a_replica_that_moves_away_stops_before_it_is_deleted() -> None:
    harness = Sent(3, elr=False, zookeeper_mode=True, epoch_for_each_change=True)
    harness.create("t", (0, 1))
    harness.submit(AlterPartitionReassignments(moves=(Move(topic="t", partition=0, replicas=(1, 2)),)))
    assert harness.stops(0) == []
    harness.set_isr("t", 0, 0, 1, 2)
    assert harness.stops(0) == [(False, [0]), (True, [0])]


@pytest.mark.parametrize("epoch", [4, 5, -1, -2])
def test_a_replica_that_stopped_begins_anew_with_the_part_that_it_had(epoch: int) -> None:
    """Kafka's brokers forget a replica that stopped: the next LeaderAndIsr makes it, whatever its epoch."""
    image = image_with(*topic())
    state = StopReplicaRequest.StopReplicaPartitionState(leader_epoch=epoch)
    named = StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=[state])
    stopped = translation.stops(image, 1, StopReplicaRequest(topic_states=[named]))
    assert stopped == ([] if epoch == 4 else [(b"t".ljust(16, b"-"), 0)])
    (before,) = image.topics[b"t".ljust(16, b"-")].partitions.values()
    role = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
        leader=before.leader,
        leader_epoch=before.leader_epoch,
        isr=list(before.isr),
        partition_epoch=before.partition_epoch,
        replicas=list(before.replicas),
        leader_recovery_state=before.recovery,
    )
    roles = LeaderAndIsrRequest.LeaderAndIsrTopicState(
        topic_name="t", topic_id=before.topic_id, partition_states=[role]
    )
    found, _ = translation.leader_and_isr(image, 1, LeaderAndIsrRequest(topic_states=[roles]), stopped)
    assert len(found) == len(stopped)


def test_a_stop_under_an_older_leader_epoch_deletes_nothing() -> None:
    state = StopReplicaRequest.StopReplicaPartitionState(leader_epoch=4, delete_partition=True)
    named = StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=[state])
    found, codes = translation.stop_replica(image_with(*topic()), 1, StopReplicaRequest(topic_states=[named]))
    assert not found
    assert codes[0][2] is Code.FENCED_LEADER_EPOCH


SMALL = st.sampled_from([-2, -1, 0, 1, 2, 2**31 - 1])
NAMES, IDS = st.sampled_from(["a", "b", "c"]), st.sampled_from([bytes(16), bytes([1]) * 16, bytes([2]) * 16])


def _told(kind: Any) -> st.SearchStrategy[Any]:
    """A request as no controller would send it: any of three ids under any of three names."""
    fields = {"partition_index": SMALL, "leader": SMALL, "leader_epoch": SMALL}
    lists = {"isr": st.lists(SMALL, max_size=3), "replicas": st.lists(SMALL, max_size=3)}
    if kind is LeaderAndIsrRequest:
        part: Any = st.builds(kind.LeaderAndIsrPartitionState, partition_epoch=SMALL, **fields, **lists)
        topic: Any = kind.LeaderAndIsrTopicState
    else:
        part = st.builds(kind.UpdateMetadataPartitionState, zk_version=SMALL, **fields, **lists)
        topic = kind.UpdateMetadataTopicState
    topics = st.builds(topic, topic_name=NAMES, topic_id=IDS, partition_states=st.lists(part, max_size=2))
    return st.builds(kind, type=st.integers(0, 2), topic_states=st.lists(topics, max_size=3))


def _stopped() -> st.SearchStrategy[Any]:
    kind = StopReplicaRequest
    part: Any = st.builds(
        kind.StopReplicaPartitionState, partition_index=SMALL, leader_epoch=SMALL, delete_partition=st.booleans()
    )
    topics: Any = st.builds(kind.StopReplicaTopicState, topic_name=NAMES, partition_states=st.lists(part, max_size=2))
    return st.builds(kind, topic_states=st.lists(topics, max_size=2))


@given(st.lists(_told(LeaderAndIsrRequest) | _told(UpdateMetadataRequest) | _stopped(), max_size=6))
def test_what_no_controller_would_say_breaks_no_image(requests: list[Any]) -> None:
    listener = RecordingListener(1)
    for request in requests:
        listener.hear(request, listener.image)
    for id, topic in listener.image.topics.items():
        assert listener.image.names[topic.name] == id
        assert all(number >= 0 and part.leader_epoch >= 0 for number, part in topic.partitions.items())


def test_a_broker_that_is_named_twice_is_there_once() -> None:
    """The index of an image removed such a member twice when its partition changed, and raised KeyError."""
    listener = RecordingListener(1)
    for epoch, isr in enumerate(([1, 1], [2], [1, 2, 2])):
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
            leader=1, isr=isr, replicas=[1, 2, 1], leader_epoch=epoch, partition_epoch=epoch
        )
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(
            topic_name="a", topic_id=bytes([1]) * 16, partition_states=[state]
        )
        listener.hear(LeaderAndIsrRequest(topic_states=[topic]), listener.image)
        (partition,) = listener.image.topics[bytes([1]) * 16].partitions.values()
        assert partition.replicas == (1, 2)
        assert partition.isr == tuple(dict.fromkeys(isr))


def test_the_id_of_another_topic_is_refused() -> None:
    listener = RecordingListener(1)
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader=1, isr=[1], replicas=[1])
    for name, code in (("a", Code.NONE), ("b", Code.INCONSISTENT_TOPIC_ID)):
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(
            topic_name=name, topic_id=bytes([1]) * 16, partition_states=[state]
        )
        _, codes = listener.hear(LeaderAndIsrRequest(topic_states=[topic]), listener.image)
        assert codes == [(name, bytes([1]) * 16, 0, code)]
    assert list(listener.image.names) == ["a"]


@pytest.mark.parametrize("migrating", [False, True])
def test_requests_say_whether_a_kraft_controller_sends_them(migrating: bool) -> None:
    """Kafka 3.9's brokers keep the quorum's controller and one among the brokers apart by it (KIP-866)."""
    where = records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="h", port=1)
    image = image_with(
        *topic(),
        records.RegisterBrokerRecord(
            broker_id=1, broker_epoch=1, fenced=False, end_points=[where], is_migrating_zk_broker=True
        ),
    )
    sender = batch.SendingController(controller_id=9, controller_epoch=1, listener="PLAINTEXT", to_migrating=migrating)
    told: list[Any] = batch.full(image, image.brokers[1], sender)
    delta = Delta()
    image.apply(records.RemoveTopicRecord(topic_id=b"t".ljust(16, b"-")), delta=delta)
    told += batch.requests(image, delta, sender)[1]
    assert {type(request) for request in told} == set(VERSIONS)
    assert {request.is_k_raft_controller for request in told} == {migrating}
