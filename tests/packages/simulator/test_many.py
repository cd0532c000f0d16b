"""Three whole simulated brokers with three hundred partitions: whatever befalls a node, all are led and followed again,
and who becomes controller builds nothing anew. That this can be seen to be wrong is tested too."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

import pytest

from moldau.simulator.many import BROKERS, ManyPartitions

PARTITIONS = 300


@pytest.fixture
def many() -> Iterator[ManyPartitions]:
    many = ManyPartitions(PARTITIONS, in_a_topic=100, step=20)
    many.run(many.start)
    many.run(many.create)
    yield many
    many.close()


def image_on(many: ManyPartitions, id: int):
    return many.cluster.hosts[id].node.metadata.image


def test_all_are_led_after_every_death_and_a_new_controller_builds_nothing_anew(many: ManyPartitions) -> None:
    assert sum(len(image_on(many, 1).index.led[id]) for id in BROKERS) == PARTITIONS

    dead = many.run(many.death)
    for id in set(BROKERS) - {dead}:
        led = image_on(many, id).index.led
        assert dead not in led
        assert sum(map(len, led.values())) == PARTITIONS
    many.run(partial(many.come_back, dead))
    many.run(many.spread)

    left = many.run(many.shutdown)
    assert many.cluster.hosts[left].disk.exists("/data0/.kafka_cleanshutdown")
    many.run(partial(many.come_back, left))
    many.run(many.spread)

    first = many.controller
    assert many.run(many.failover) == first != many.controller
    many.run(many.settle)
    assert many.rebuilt() == []
    assert many.wrong() == ""


def test_what_a_broker_does_not_hold_lead_or_follow_is_seen(many: ManyPartitions) -> None:
    node = many.cluster.hosts[2].node
    led, followed = (
        next(replica for replica in node.replicas.by_key.values() if (replica.machine.leader == 2) is leads)
        for leads in (True, False)
    )
    assert many.wrong() == ""
    follower = next(iter(led.machine.followers.values()))
    end, follower.leo = follower.leo, -1
    assert "not all that are in sync fetch" in many.wrong()
    follower.leo = end
    followed.machine.partition_epoch -= 1
    assert "n2 has not heard of" in many.wrong()
    del node.replicas.by_key[followed.key]
    assert "n2 has not heard of" in many.wrong()


def test_what_survivors_build_anew_is_seen(many: ManyPartitions) -> None:
    many.run(many.failover)
    many.run(many.settle)
    node = many.cluster.alive[0].node
    node.metadata.image = node.metadata.image.copy()
    node.metadata.offset += PARTITIONS
    for replica in islice(node.replicas.by_key.values(), 1, 6):
        replica.log = None
    image, logs, records = many.rebuilt()
    assert "image anew" in image
    assert "opened 5 logs again" in logs
    assert "records were written for 300 partitions" in records
