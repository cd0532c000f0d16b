"""What clients find at brokers: a cluster that is known, wherever they ask and whenever; never an ignorant answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from moldau.client.admin import NewTopic, create_topics, delete_records
from moldau.client.connection import ConnectionOptions, connect
from moldau.client.producer import Producer, ProducerOptions
from moldau.model import Code, TopicPartition
from moldau.ports import World
from moldau.simulator.cluster import PORT, SimCluster
from moldau.simulator.loop import Owner
from moldau.simulator.plan import draw
from moldau.simulator.run import SimulatedRun
from moldau.wire.messages.k03_metadata import MetadataRequest
from moldau.wire.messages.k10_find_coordinator import FindCoordinatorRequest


def test_a_restarted_broker_refuses_clients_until_it_knows_its_cluster() -> None:
    run = SimulatedRun(draw(3, "kill"))
    cluster, topic = run.cluster, run.plan.topics[0].name
    client = cluster.world(Owner("client"), "somewhere", cluster.hosts[1].disk, cluster.hosts[1].clock)
    said: list[str] = []

    async def ask() -> None:
        try:
            connection = await connect(client, "n1", PORT, ConnectionOptions(client_id="curious"))
            asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
            answer = await connection.ask(asked)
            connection.close()
            said.append(Code(answer.topics[0].error_code).name)
        except ConnectionRefusedError:
            said.append("refused")

    async def scenario() -> None:
        assert await run._begin()
        cluster.kill(1)
        others = [host.hostname for host in cluster.hosts.values() if host.id != 1]
        mend = cluster.wires.sever(pair for other in others for pair in (("n1", other), (other, "n1")))
        cluster.start(1)
        for _ in range(100):
            await ask()
            await asyncio.sleep(0.03)
        assert set(said) == {"refused"}, "it knows nothing yet"
        mend()
        rng = random.Random(3)
        while said[-1] == "refused":
            await asyncio.sleep(rng.random() * 0.005)
            await ask()
        for _ in range(50):
            await ask()
        assert "UNKNOWN_TOPIC_OR_PARTITION" not in said
        assert said[-1] == "NONE"

    asyncio.set_event_loop(None)
    cluster.loop.run_until_complete(scenario())
    cluster.close()


def test_records_are_deleted_where_every_replica_has_let_them_expire_by_itself() -> None:
    """Followers tell their leader where their logs begin by then, though they have nothing to fetch."""
    plan = draw(4, "kill")
    run = SimulatedRun(replace(plan, settings={**plan.settings, "log.retention.check.interval.ms": "1000"}))
    cluster, where = run.cluster, TopicPartition("old", 0)
    found: list[tuple[Code, int]] = []

    async def scenario() -> None:
        new = NewTopic(name="old", partitions=1, replication_factor=3, configs={"retention.ms": "3000"})
        made = await create_topics(run.admin.client, [new])
        assert made["old"].code is Code.NONE
        producer = Producer(run.admin.client, ProducerOptions(acks=-1))
        assert await producer.prepare("old") is Code.NONE
        assert (await producer.send("old", b"record", partition=0)).code is Code.NONE
        await producer.close()

        def expired() -> bool:
            (of,) = run.observer.replicas("old").values()
            return len(of) == 3 and all(replica.log.log_start_offset == 1 for replica in of.values())

        assert await cluster.until(expired, 60)
        found.append((await delete_records(run.admin.client, {where: 1}, timeout_ms=5_000))[where])

    async def begun() -> None:
        assert await run._begin()
        await run.admin.begin(scenario())

    cluster.loop.after_turn = lambda: None  # what expires is no loss (S20)
    asyncio.set_event_loop(None)
    cluster.loop.run_until_complete(begun())
    cluster.close()
    assert found == [(Code.NONE, 1)]


def test_a_topic_that_was_made_has_been_told_to_every_broker() -> None:
    run = SimulatedRun(draw(4, "kill"))
    cluster = run.cluster

    async def scenario() -> None:
        assert await run._begin()
        for number in range(20):
            new = NewTopic(name=f"new-{number}", partitions=2, replication_factor=1)
            made = await run.admin.begin(create_topics(run.admin.client, [new]))
            assert made[new.name].code is Code.NONE
            nodes = [host.node for host in cluster.alive if host.node is not None]
            (active,) = (node for node in nodes if node.is_active_controller)
            told = [read for id, read in active.plane.readers().items() if id in run.plan.brokers]
            assert min(told) >= active.metadata.offset, f"{new.name}: somebody may still answer that it is not there"

    asyncio.set_event_loop(None)
    cluster.loop.run_until_complete(scenario())
    cluster.close()


def test_a_coordinator_that_is_named_knows_that_it_coordinates() -> None:
    """The one that was told last is asked for, by a second client while the first one's question makes the groups' log:
    librdkafka, which is told NOT_COORDINATOR twice, rests for three seconds."""
    for seed in range(4, 12):
        run = SimulatedRun(draw(seed, "kill"))
        cluster = run.cluster
        client = cluster.world(Owner("client"), "somewhere", cluster.hosts[1].disk, cluster.hosts[1].clock)
        rng, hostname = random.Random(seed), cluster.hosts[min(run.plan.brokers)].hostname

        async def find(
            cluster: SimCluster = cluster, client: World = client, rng: random.Random = rng, hostname: str = hostname
        ) -> None:
            connection = await connect(client, hostname, PORT, ConnectionOptions(client_id="curious"))
            for number in range(200):
                answer = await connection.ask(FindCoordinatorRequest(key=f"group-{number}", coordinator_keys=["g"]))
                for one in answer.coordinators:
                    if one.error_code == Code.NONE:
                        await asyncio.sleep(0.005)  # about so long does a question take
                        image = cluster.hosts[one.node_id].node.metadata.image
                        assert image.topic("__consumer_offsets") is not None, "it will answer NOT_COORDINATOR"
                        connection.close()
                        return
                await asyncio.sleep(rng.random() * 0.01)
            raise AssertionError("no coordinator was named")

        async def scenario(run: SimulatedRun = run, find: Callable[[], Awaitable[None]] = find) -> None:
            assert await run._begin()
            await asyncio.gather(*(find() for _ in range(20)))

        asyncio.set_event_loop(None)
        cluster.loop.run_until_complete(scenario())
        cluster.close()
