"""Lines about requests of the ZooKeeper plane: Kafka 3.9's words and levels, and nothing made that nobody keeps."""

from __future__ import annotations

import logging
from itertools import islice
from typing import Any

from moldau.broker.metadata.state_change_log import TRACE
from moldau.broker.zookeeper import request_lines
from moldau.controller.state_change import Author
from moldau.image import Image
from moldau.model import Code
from moldau.wire.messages.k04_leader_and_isr import LeaderAndIsrRequest
from moldau.wire.messages.k05_stop_replica import StopReplicaRequest
from moldau.wire.messages.k06_update_metadata import UpdateMetadataRequest


def roles(count: int, leader: int = 2, topic: str = "foo") -> LeaderAndIsrRequest:
    one = LeaderAndIsrRequest.LeaderAndIsrPartitionState
    states = [
        one(partition_index=n, controller_epoch=5, leader=leader, isr=[1, 2], replicas=[1, 2], is_new=True)
        for n in range(count)
    ]
    topics = [LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=topic, partition_states=states)]
    return LeaderAndIsrRequest(controller_id=1, controller_epoch=5, topic_states=topics)


def shown(leader: int) -> UpdateMetadataRequest:
    state = UpdateMetadataRequest.UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=5, leader=leader, isr=[1], zk_version=3, replicas=[1, 2]
    )
    topics = [UpdateMetadataRequest.UpdateMetadataTopicState(topic_name="foo", partition_states=[state])]
    return UpdateMetadataRequest(controller_id=1, controller_epoch=5, topic_states=topics)


STATE = (
    "LeaderAndIsrPartitionState(topicName='foo', partitionIndex=0, controllerEpoch=5, leader=2, leaderEpoch=0,"
    " isr=[1, 2], partitionEpoch=0, replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=true,"
    " leaderRecoveryState=0)"
)


def test_what_a_broker_is_asked_is_told_as_kafka_tells_it() -> None:
    assert list(request_lines.received(2, roles(1), 7, traced=True)) == [
        (
            logging.INFO,
            "[Broker id=2] Handling LeaderAndIsr request correlationId 7 from controller 1 for 1 partitions",
        ),
        (TRACE, f"[Broker id=2] Received LeaderAndIsr request {STATE} correlation id 7 from controller 1 epoch 5"),
    ]
    assert list(request_lines.finished(2, roles(3), 7, 12, traced=True)) == [
        (
            logging.INFO,
            "[Broker id=2] Finished LeaderAndIsr request in 12ms correlationId 7 from controller 1 for 3 partitions",
        )
    ]
    assert [text for _, text in request_lines.finished(2, shown(-2), 8, 1, traced=False)] == [
        "[Broker id=2] Add 0 partitions and deleted 1 partitions from metadata cache in response to UpdateMetadata"
        " request sent by controller 1 epoch 5 with correlation id 8"
    ]


def test_what_the_controller_sends_is_told_as_kafka_tells_it() -> None:
    stop = StopReplicaRequest(
        topic_states=[
            StopReplicaRequest.StopReplicaTopicState(
                topic_name="foo", partition_states=[StopReplicaRequest.StopReplicaPartitionState(partition_index=4)]
            )
        ]
    )
    told: dict[int, list[Any]] = {3: [shown(1), stop], 2: [shown(1), roles(2)]}
    assert [text for _, text in request_lines.sent(Author(1, 5), told, traced=False)] == [
        "[Controller id=1 epoch=5] Sending StopReplica request for 1 replicas to broker 3",
        "[Controller id=1 epoch=5] Sending LeaderAndIsr request to broker 2 with 2 become-leader and 0 become-follower"
        " partitions",
        "[Controller id=1 epoch=5] Sending UpdateMetadata request to brokers HashSet(2, 3) for 1 partitions",
    ]


def test_partitions_are_put_into_words_one_by_one_and_only_when_somebody_keeps_them() -> None:
    assert len(list(request_lines.received(2, roles(10_000), 7, traced=False))) == 1
    some = list(islice(request_lines.received(2, roles(10_000), 7, traced=True), 3))
    assert "partitionIndex=1," in some[2][1]


def test_what_is_refused_is_told_with_the_reason() -> None:
    old = list(request_lines.fenced(2, roles(1), 7, 6, traced=False))
    assert old == [
        (
            logging.WARNING,
            "[Broker id=2] Ignoring LeaderAndIsr request from controller 1 with correlation id 7 since its controller"
            " epoch 5 is old. Latest known controller epoch is 6",
        )
    ]
    codes = {("foo", 1): Code.STALE_CONTROLLER_EPOCH, ("foo", 2): Code.UNKNOWN_TOPIC_OR_PARTITION}
    begin = "[Broker id=9] Ignoring LeaderAndIsr request from controller 1 with correlation id 7 epoch 5 for partition"
    assert [text for _, text in request_lines.refused(9, roles(3), 7, codes, Image(), traced=False)] == [
        f"{begin} foo-1 since its associated leader epoch 0 is smaller than the current leader epoch -1",
        f"{begin} foo-2 as itself is not in assigned replica list 1,2",
    ]


def test_a_name_that_is_none_cannot_forge_a_line() -> None:
    lines = request_lines.received(2, roles(1, topic="a\n[x] INFO forged" + "b" * 5_000), 7, traced=True)
    for _, text in lines:
        assert text.isprintable()
        assert len(text) < 1_000
