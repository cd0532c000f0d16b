"""A broker that comes back: clients find it refusing connections, or knowing its cluster; never ignorant."""

from __future__ import annotations

import asyncio
import random

from moldau.client.connection import ConnectionOptions, connect
from moldau.simulator.cluster import PORT
from moldau.simulator.loop import Owner
from moldau.simulator.plan import draw
from moldau.simulator.run import Run
from moldau.terms import Code
from moldau.wire.messages.k03_metadata import MetadataRequest


def test_a_restarted_broker_refuses_clients_until_it_knows_its_cluster() -> None:
    run = Run(draw(3, "kill"))
    cluster, topic = run.cluster, run.plan.topics[0].name
    client = cluster.world(Owner("client"), "somewhere", cluster.seats[1].disk, cluster.seats[1].clock)
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
        others = [seat.host for seat in cluster.seats.values() if seat.id != 1]
        mend = cluster.wires.sever(pair for other in others for pair in (("n1", other), (other, "n1")))
        cluster.start(1)
        for _ in range(100):
            await ask()
            await asyncio.sleep(0.03)
        assert set(said) == {"refused"}, "it knows nothing yet"
        mend()
        dice = random.Random(3)
        while said[-1] == "refused":
            await asyncio.sleep(dice.random() * 0.005)
            await ask()
        for _ in range(50):
            await ask()
        assert "UNKNOWN_TOPIC_OR_PARTITION" not in said
        assert said[-1] == "NONE"

    asyncio.set_event_loop(None)
    cluster.loop.run_until_complete(scenario())
    cluster.close()
