"""Brokers' data planes in one process: real sockets and files, and a controller that is a model.

Each ``MiniBroker`` is a listener with replicas behind it; ``DataCluster`` holds the one image, hands its changes to
everybody, and answers AlterPartition and AllocateProducerIds. Not a cluster: no elections but those a test asks for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Self

from moldau.broker.api import ANSWERS, BROKER, handler
from moldau.broker.config.node_config import NodeConfig
from moldau.broker.network.listener import SocketListener
from moldau.broker.network.memory import RequestMemory
from moldau.broker.replicas.deps import ReplicaManagerDeps
from moldau.broker.replicas.manager import ReplicaManager
from moldau.client.connection import Connection, ConnectionOptions, connect
from moldau.image import Delta, Image
from moldau.model import Code
from moldau.ports import World
from moldau.runtime.world import new_loop, real_world
from moldau.storage import LogDirs
from moldau.wire.batch import build
from moldau.wire.messages.k00_produce import ProduceRequest, ProduceResponse
from moldau.wire.messages.k01_fetch import FetchRequest, FetchResponse
from moldau.wire.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse
from moldau.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsResponse
from moldau.wire.records import metadata as records
from tests.packages import loops
from tests.packages.broker.doubles import PlaneDouble

TOPIC = "flights"
TOPIC_ID = bytes([7] * 16)
# No machine is so slow that it drops a follower that lives; a test that wants one dropped says how soon.
SETTINGS = {"replica.lag.time.max.ms": "120000", "min.insync.replicas": "1", "replica.fetch.backoff.ms": "100"}
DROPS_SOON: dict[str, Any] = {"replica_lag_time_max_ms": "1000"}
PATIENCE_S = 60.0


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine on a loop of its own; a background task that raised fails it."""
    loop = new_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(work(), 4 * PATIENCE_S))
    finally:
        loops.close(loop)


async def until(truth: Callable[[], Any], what: str = "what the test waits for") -> Any:
    """Wait until something holds (and is true); what it was."""
    end = time.monotonic() + PATIENCE_S
    while not (found := truth()):
        assert time.monotonic() < end, f"waited {PATIENCE_S:.0f} s in vain: {what}"
        await asyncio.sleep(0.005)
    return found


def records_of(data: FetchResponse.PartitionData) -> bytes:
    """The batches of a partition's answer."""
    assert data.records is not None, "null instead of no records"
    return bytes(data.records)


def batch(count: int = 1, size: int = 10, **fields: Any) -> bytes:
    """A client's batch of ``count`` records."""
    return build([(1_700_000_000_000 + n, b"k%d" % n, b"v" * size, ()) for n in range(count)], **fields)


class MiniBroker:
    """One data plane with its listener. As a handler's ``node`` it has what the data handlers ask of one."""

    def __init__(self, cluster: DataCluster, id: int, folder: Path, settings: dict[str, str]) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.config = NodeConfig(
            {
                "node.id": str(id), "process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER", "controller.quorum.voters": "100@localhost:1",
                "log.dirs": str(folder / f"broker-{id}"), **SETTINGS, **settings,
            }
        )  # fmt: skip
        self.request_memory = RequestMemory(self.world.tasks)
        self.metadata = self  # handlers read node.metadata.image and .offset
        self.offset = 0
        self.epoch = 0
        self.cluster_id = "mini"
        self.plane = PlaneDouble()
        self.failures: list[BaseException] = []

    @property
    def image(self) -> Image:
        return self.cluster.image

    async def start(self) -> None:
        cluster, id = self.cluster, self.config.node_id
        logs = LogDirs(self.world.disk, self.config.log_dirs, random=self.world.random)
        logs.claim("mini", id)
        self.replicas = ReplicaManager(
            ReplicaManagerDeps(
                me=id,
                world=self.world,
                config=self.config,
                logs=logs,
                send_to_controller=lambda message: cluster.answer(id, message),
                connect=lambda host, port: connect(self.world, host, port, ConnectionOptions(client_id=f"broker-{id}")),
                broker_epoch=lambda: self.epoch,
                on_leader_refused=cluster.refused.append,
                requests=self.request_memory,
            )
        )
        logs.load(self.replicas.config_of, self.world.clock.wall_ms())
        self.socket_listener = SocketListener(
            self.world,
            name="PLAINTEXT",
            kind=BROKER,
            answers=ANSWERS[BROKER],
            dispatch=lambda key: partial(handler(key, BROKER), self),
            handler_failed=self.handler_failed,
            frame_bytes_max=1 << 27,
            memory=self.request_memory,
        )
        self.listener = await self.world.net.listen("127.0.0.1", 0, self.socket_listener.accept)  # type: ignore[arg-type]
        self.port = self.listener.port

    def apply(self, delta: Delta) -> None:
        """Learn of a change of the image. Folders are made here, not by workers, if so wished: a test need not ask
        again then, as a client does."""
        self.replicas.apply(self.image, delta)
        for dir in self.replicas.logs.dirs if self.cluster.folders_at_once else ():
            dir.changes.run()
            for making in self.replicas.logs.end_changes(dir):
                self.replicas.folders.made(making)

    def handler_failed(self, header: object, error: BaseException) -> None:
        self.failures.append(error)

    def replica(self, number: int = 0) -> Any:
        return self.replicas.by_key[(TOPIC_ID, number)]

    def kill(self) -> None:
        """Stop answering and following; the files stay as they are."""
        self.listener.close()
        self.socket_listener.close()
        self.replicas.stop()


class DataCluster:
    """Brokers 0 to n-1 under a model controller."""

    def __init__(self, folder: Path, brokers: int = 3, **settings: str) -> None:
        self.failures: list[tuple[str, BaseException]] = []
        self.world = real_world(asyncio.get_running_loop(), lambda task, error: self.failures.append((task, error)))
        self.folder = folder
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.image = Image()
        self.brokers: dict[int, MiniBroker] = {id: MiniBroker(self, id, folder, self.settings) for id in range(brokers)}
        self.live: dict[int, MiniBroker] = {}
        self.folders_at_once = True
        self.refused: list[int] = []
        self.altered: list[AlterPartitionRequest.PartitionData] = []
        self.offset = 0
        self.next_producer_id = 0
        self.lines: dict[int, Connection] = {}
        self.others: list[Connection] = []

    async def __aenter__(self) -> Self:
        for id in self.brokers:
            await self.boot(id)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if exc[0] is not None:
            print(self.state())
        for line in (*self.lines.values(), *self.others):
            line.close()
        for broker in self.live.values():
            broker.kill()
        if exc[0] is None:
            assert not self.failures, self.failures
            assert not any(broker.failures for broker in self.brokers.values())

    def state(self) -> str:
        """For whoever reads of a failure: one line for each replica of each live broker."""
        lines = [f"failures {self.failures}, refused {self.refused}"]
        for id, broker in self.live.items():
            lines.append(f"broker {id}: {broker.socket_listener.requests} requests, failures {broker.failures}")
            for (topic, number), replica in broker.replicas.by_key.items():
                known, log = self.image.at((topic, number)), replica.log
                isr = "of a topic that is gone" if known is None else f"leader {known.leader}, ISR {known.isr}"
                lines.append(
                    f"  {replica.partition}: {replica.machine.role.name}, epoch {replica.machine.leader_epoch},"
                    f" log {log.log_start_offset} to {log.log_end_offset},"
                    f" watermark {replica.machine.high_watermark}, {isr}"
                )
        return "\n".join(lines)

    async def boot(self, id: int) -> MiniBroker:
        """Start a broker, or start it again from its files."""
        broker = self.brokers[id] = MiniBroker(self, id, self.folder, self.settings)
        await broker.start()
        self.offset += 1
        broker.epoch = self.offset
        self.live[id] = broker
        endpoint = records.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=broker.port)
        register = records.RegisterBrokerRecord(
            broker_id=id, broker_epoch=broker.epoch, end_points=[endpoint], fenced=False, rack=f"rack-{id}"
        )
        self.commit(register)
        whole = Delta()
        for topic in self.image.topics.values():
            for number in topic.partitions:
                whole.partitions[(topic.id, number)] = None
        broker.apply(whole)
        return broker

    def kill(self, id: int) -> None:
        """The process is gone: nobody listens there any more."""
        line = self.lines.pop(id, None)
        if line is not None:
            line.close()
        self.live.pop(id).kill()

    def dead(self, id: int) -> records.BrokerRegistrationChangeRecord:
        """What a controller says of a broker that is gone; until then a leader may take it back into an ISR."""
        return records.BrokerRegistrationChangeRecord(broker_id=id, broker_epoch=self.brokers[id].epoch, fenced=1)

    def commit(self, *batch: Any) -> None:
        """Records everybody learns of, at once."""
        delta = Delta()
        for record in batch:
            self.offset += 1
            self.image.apply(record, self.offset, delta)
        for broker in list(self.live.values()):
            broker.apply(delta)

    def create(self, *replicas: int, topic: str = TOPIC, id: bytes = TOPIC_ID, partitions: int = 1) -> None:
        """A topic whose partitions are all led by the first of ``replicas``."""
        self.commit(
            records.TopicRecord(name=topic, topic_id=id),
            *(
                records.PartitionRecord(
                    topic_id=id, partition_id=number, replicas=list(replicas), isr=list(replicas), leader=replicas[0],
                    leader_epoch=0, partition_epoch=0,
                )
                for number in range(partitions)
            ),
        )  # fmt: skip

    def change(self, number: int = 0, **fields: Any) -> None:
        self.commit(records.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=number, **fields))

    def elect(self, leader: int, isr: tuple[int, ...], number: int = 0) -> None:
        self.change(number, leader=leader, isr=list(isr))

    def configure(self, topic: str = TOPIC, **settings: str) -> None:
        self.commit(
            *(
                records.ConfigRecord(resource_type=2, resource_name=topic, name=name.replace("_", "."), value=value)
                for name, value in settings.items()
            )
        )

    # ---- the controller's side

    async def answer(self, broker_id: int, message: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(message, AlterPartitionRequest):
            return self._alter(message)
        start, self.next_producer_id = self.next_producer_id, self.next_producer_id + 1000
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1000)

    def _alter(self, message: AlterPartitionRequest) -> AlterPartitionResponse:
        response = AlterPartitionResponse()
        for topic in message.topics:
            shown = AlterPartitionResponse.TopicData(topic_id=topic.topic_id)
            response.topics.append(shown)
            for part in topic.partitions:
                self.altered.append(part)
                shown.partitions.append(self._alter_one(bytes(topic.topic_id), part))
        return response

    def _alter_one(self, id: bytes, part: AlterPartitionRequest.PartitionData) -> AlterPartitionResponse.PartitionData:
        state = self.image.partition(id, part.partition_index)
        slot = AlterPartitionResponse.PartitionData(partition_index=part.partition_index)
        if state is None:
            slot.error_code = Code.UNKNOWN_TOPIC_ID
        elif part.leader_epoch != state.leader_epoch:
            slot.error_code = Code.FENCED_LEADER_EPOCH
        elif part.partition_epoch != state.partition_epoch:
            slot.error_code = Code.INVALID_UPDATE_VERSION
        else:
            change = records.PartitionChangeRecord(topic_id=id, partition_id=part.partition_index)
            change.isr = list(part.new_isr)
            self.commit(change)
            state = self.image.partition(id, part.partition_index)
            assert state is not None
            slot.leader_id, slot.leader_epoch = state.leader, state.leader_epoch
            slot.isr, slot.partition_epoch = list(state.isr), state.partition_epoch
        return slot

    # ---- a client's side

    async def line(self, id: int) -> Connection:
        line = self.lines.get(id)
        if line is None or line.closed:
            line = self.lines[id] = await connect(self.world, "127.0.0.1", self.brokers[id].port)
        return line

    async def connect_another(self, id: int) -> Connection:
        """A connection of its own, on which nothing waits."""
        line = await connect(self.world, "127.0.0.1", self.brokers[id].port)
        self.others.append(line)
        return line

    async def ask(self, id: int, message: Any, version: int | None = None, over: Connection | None = None) -> Any:
        return await (over or await self.line(id)).ask(message, version=version)

    async def produce(
        self,
        id: int,
        data: bytes,
        acks: int = -1,
        number: int = 0,
        *,
        version: int = 11,
        timeout_ms: int = 60_000,
        over: Connection | None = None,
    ) -> ProduceResponse.PartitionProduceResponse:
        part = ProduceRequest.PartitionProduceData(index=number, records=data)
        topic = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[part])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        response: ProduceResponse = await self.ask(id, request, version, over)
        return response.responses[0].partition_responses[0]

    def fetch_request(self, *parts: tuple[int, int], **fields: Any) -> FetchRequest:
        """A fetch of (partition, offset) pairs of the topic."""
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 25, **fields}
        each = fields.pop("each_bytes", 1 << 20)
        asked = [
            FetchRequest.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=each)
            for number, offset in parts
        ]
        topic = FetchRequest.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=asked)
        return FetchRequest(topics=[topic] if parts else [], **fields)

    async def fetch(self, id: int, offset: int, number: int = 0, **fields: Any) -> FetchResponse.PartitionData:
        version, over = fields.pop("version", 17), fields.pop("over", None)
        response: FetchResponse = await self.ask(id, self.fetch_request((number, offset), **fields), version, over)
        assert response.error_code == 0
        return response.responses[0].partitions[0]
