"""Whatever a peer answers, or does instead of answering: the node that asked lives, says so, and asks again.

A node asks others in its background, and a background task that fails stops the node (law X7): what a peer does must
never be such a failure. Peers: ``hostile_peer.py``. Clients that mean no good: tests/live/test_fuzz.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.storage_format import format_storage
from moldau.broker.controller.failure_detector import reaches_us
from moldau.broker.network.peers import NotSpoken, Peers
from moldau.broker.node import Node
from moldau.client.connection import ConnectionOptions, connect
from moldau.cluster.nodes import free_ports
from moldau.model import Code
from moldau.ports import Receiver, Transport, World
from moldau.runtime.disk import RealDisk
from moldau.runtime.world import RealNet, RealRandom, real_world
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k19_create_topics import CreateTopicsRequest
from moldau.wire.messages.k22_init_producer_id import InitProducerIdRequest
from moldau.wire.messages.k52_vote import VoteRequest, VoteResponse
from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from moldau.wire.records import metadata as records
from moldau.wire.schema import Message
from tests.packages.broker.data_cluster import TOPIC, TOPIC_ID, DataCluster, batch, run, until
from tests.packages.broker.hostile_peer import HostilePeer
from tests.packages.doubles import ManualTasks, manual_world

CLUSTER_ID = "Z5vVXEQ4SKqk8vTQ4jAHSg"
HOSTILE, OURS = 101, 1
FETCH, REGISTRATION, HEARTBEAT, PRODUCER_IDS, CREATE_TOPICS = 1, 62, 63, 67, 19
LIST_OFFSETS, VOTE, BEGIN_QUORUM_EPOCH = 2, 52, 53


def leads(request: Message) -> Message | None:
    """A controller that leads, takes everybody in, and has decided nothing yet."""
    match request:
        case FetchRequest():
            epoch = max(request.topics[0].partitions[0].current_leader_epoch, 1)
            leader = FetchResponse.LeaderIdAndEpoch(leader_id=HOSTILE, leader_epoch=epoch)
            part = FetchResponse.PartitionData(high_watermark=0, current_leader=leader, log_start_offset=0, records=b"")
            topic = request.topics[0]
            found = FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])
            return FetchResponse(responses=[found])
        case BrokerRegistrationRequest():
            return BrokerRegistrationResponse(broker_epoch=-1)  # covered by an image of nothing
        case BrokerHeartbeatRequest():
            return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(producer_id_start=7000, producer_id_len=1)
    return None


def votes(request: Message) -> Message | None:
    """A voter that is for whoever asks."""
    if not isinstance(request, VoteRequest):
        return None
    asked = request.topics[0].partitions[0]
    part = VoteResponse.PartitionData(leader_id=-1, leader_epoch=asked.candidate_epoch, vote_granted=True)
    return VoteResponse(topics=[VoteResponse.TopicData(topic_name=request.topics[0].topic_name, partitions=[part])])


def knows_no_offset(request: Message) -> Message | None:
    """A leader whose log is always somewhere else."""
    if not isinstance(request, FetchRequest):
        return None
    part = FetchResponse.PartitionData(error_code=Code.OFFSET_OUT_OF_RANGE)
    topic = FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[part])
    return FetchResponse(session_id=7, responses=[topic])


class Scene:
    """A node of ours among peers that are hostile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failures: list[tuple[str, BaseException]] = []
        self.ended: list[int] = []
        self.node: Any = None

    def world(self) -> World:
        return real_world(asyncio.get_running_loop(), self._failed)

    def _failed(self, task: str, error: BaseException) -> None:
        self.failures.append((task, error))

    def make(self, **settings: str) -> Node:
        given = {"node.id": str(OURS), "log.dirs": str(self.folder), "controller.listener.names": "CONTROLLER"}
        config = NodeConfig(given | {key.replace("_", "."): text for key, text in settings.items()})
        format_storage(config, CLUSTER_ID, RealDisk(), RealRandom())
        self.node = Node(config, self.world(), self.ended.append)
        return self.node

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Node]:
        before = asyncio.all_tasks()
        starting = asyncio.ensure_future(self.node.start())
        try:
            yield self.node
            assert not self.failures, self.failures
            assert not self.ended
            if starting.done():
                starting.result()
        finally:
            starting.cancel()
            for bound in self.node.bound.values():
                bound.close()
            for socket_listener in self.node.listeners:
                socket_listener.close()
            self.node.peers.close()
            begun = asyncio.all_tasks() - before
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)


def test_a_broker_outlives_a_controller_that_answers_anything_or_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        peer, scene = HostilePeer(lambda request: forgets(request) or leads(request)), Scene(tmp_path)

        def forgets(request: Message) -> Message | None:
            """Who was registered has to do it again, until every behavior has met that."""
            if isinstance(request, BrokerHeartbeatRequest) and not peer.has_met(REGISTRATION):
                return BrokerHeartbeatResponse(error_code=Code.STALE_BROKER_EPOCH)
            return None

        where = f"127.0.0.1:{await peer.listen()}"
        scene.make(
            process_roles="broker",
            listeners="PLAINTEXT://127.0.0.1:0",
            controller_quorum_voters=f"{HOSTILE}@{where}",
            broker_heartbeat_interval_ms="20",
            controller_quorum_retry_backoff_ms="5",
            controller_quorum_fetch_timeout_ms="200",
        )
        async with scene.running() as node:

            def is_through(*keys: int) -> bool:
                assert not scene.failures, scene.failures
                node.lifecycle.send_heartbeat_now()  # whatever it waits for
                return peer.has_met(*keys)

            peer.tame = {FETCH}
            await until(lambda: is_through(REGISTRATION, HEARTBEAT) and node.admitted, "every behavior met its life")
            peer.tame = {FETCH, HEARTBEAT}
            line = await connect(node.world, "127.0.0.1", node.bound["PLAINTEXT"].port)
            while not peer.has_met(CREATE_TOPICS):
                await line.ask(CreateTopicsRequest(timeout_ms=15))  # one attempt, and an answer in any case
            while not peer.has_met(PRODUCER_IDS):
                given = await line.ask(InitProducerIdRequest(transactional_id=None))
                assert given.producer_id >= 0
            line.close()
            peer.tame = {HEARTBEAT}
            await until(lambda: is_through(FETCH), "every behavior met the fetches of metadata")
        peer.close()

    run(scenario)
    assert "cannot be used" in caplog.text, "nobody is told of it"


def test_a_broker_goes_on_asking_a_controller_that_does_not_know_its_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        peer, scene = HostilePeer(leads, unserved=frozenset({REGISTRATION})), Scene(tmp_path)
        peer.tame = {FETCH}
        scene.make(
            process_roles="broker",
            listeners="PLAINTEXT://127.0.0.1:0",
            controller_quorum_voters=f"{HOSTILE}@127.0.0.1:{await peer.listen()}",
        )
        once, refused = scene.node.controller_channel.send, []

        async def noted(*asked: Any) -> Any:
            try:
                return await once(*asked)
            except NotSpoken as error:
                refused.append(str(error))
                raise

        scene.node.controller_channel.send = noted
        async with scene.running() as node:

            def is_through() -> bool:
                assert not scene.failures, scene.failures
                node.lifecycle.send_heartbeat_now()
                return len(refused) > 3

            await until(is_through, "it asks again and again")
        assert "does not serve BrokerRegistrationRequest" in refused[0]
        peer.close()

    run(scenario)


def test_a_controller_outlives_voters_that_answer_anything_or_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        peer, scene = HostilePeer(votes), Scene(tmp_path)
        where = f"127.0.0.1:{await peer.listen()}"
        [own] = free_ports(1)
        scene.make(
            process_roles="controller",
            listeners=f"CONTROLLER://127.0.0.1:{own}",
            controller_quorum_voters=f"{OURS}@127.0.0.1:{own},{HOSTILE}@{where},{HOSTILE + 1}@{where}",
            controller_quorum_election_timeout_ms="20",
            controller_quorum_election_backoff_max_ms="20",
            controller_quorum_fetch_timeout_ms="40",
            controller_quorum_retry_backoff_ms="5",
            controller_quorum_request_timeout_ms="500",
        )
        async with scene.running():

            def is_through(*keys: int) -> bool:
                assert not scene.failures, scene.failures
                return peer.has_met(*keys)

            peer.tame = {BEGIN_QUORUM_EPOCH}
            await until(lambda: is_through(VOTE), "every behavior met a vote")
            peer.tame = {VOTE}
            await until(lambda: is_through(BEGIN_QUORUM_EPOCH), "every behavior met a new leader")
        peer.close()

    run(scenario)


def test_a_follower_outlives_a_leader_that_answers_anything_or_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        peer = HostilePeer(knows_no_offset)
        peer.ids.append(TOPIC_ID)
        where = records.RegisterBrokerRecord.BrokerEndpoint(
            name="PLAINTEXT", host="127.0.0.1", port=await peer.listen()
        )
        async with DataCluster(tmp_path, 1, replica_fetch_backoff_ms="5") as cluster:

            def is_through(times: int, *keys: int) -> bool:
                assert not cluster.failures, cluster.failures
                return peer.has_met(*keys, times=times)

            cluster.commit(
                records.RegisterBrokerRecord(broker_id=9, broker_epoch=999, end_points=[where], fenced=False)
            )
            cluster.create(9, 0)
            peer.tame = {FETCH}
            await until(lambda: is_through(2, LIST_OFFSETS), "every behavior was asked for its range")
            peer.tame = set()
            await until(lambda: is_through(4, FETCH), "every behavior met fetches")
            peer.unserved = frozenset({FETCH})
            connections = peer.connections
            await until(lambda: is_through(5) and peer.connections > connections + 3, "it tries to fetch in vain")
            log = cluster.brokers[0].replica().log
            assert (log.log_start_offset, log.log_end_offset) >= (0, 0)
            cluster.elect(0, (0,))
            assert (await cluster.produce(0, batch())).error_code == Code.NONE
        peer.close()

    run(scenario)


@pytest.mark.parametrize("host", ["x" * 70, "a..b", "a\0b"])
def test_what_is_no_address_is_nobody_there(host: str) -> None:
    """Brokers tell hosts and ports of theirs, and others connect there."""

    async def scenario() -> None:
        world = real_world(asyncio.get_running_loop(), lambda task, error: None)
        with pytest.raises(OSError):
            await Peers(world, ConnectionOptions()).ask(host, 9092, CreateTopicsRequest())
        assert not await Peers(world, ConnectionOptions()).refuses(host, 9092)

    run(scenario)


class SilentNet(RealNet):
    """A network in which nobody says whether he is there."""

    async def connect(self, host: str, port: int, receiver: Receiver) -> Transport:
        waiting: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        return await waiting


def test_an_address_that_says_nothing_is_not_waited_for_as_long_as_the_system_would() -> None:
    """A broker that took the place of one whose machine was gone was let in two minutes later, or gave up."""

    async def scenario() -> None:
        tasks = ManualTasks()
        world = manual_world(tasks=tasks, net=SilentNet(asyncio.get_running_loop()))
        peers = Peers(world, ConnectionOptions())
        asked = [peers.accepts("192.0.2.1", 9092), peers.refuses("192.0.2.1", 9092), reaches_us(world, (), "h", 9092)]
        asking = asyncio.ensure_future(asyncio.gather(*asked))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks.advance(3_000)
        assert await asyncio.wait_for(asking, 10) == [None, False, False]

    run(scenario)
