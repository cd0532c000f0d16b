"""Whose process is the one that was in sync: told by transaction ids of registrations and states."""

from __future__ import annotations

import pytest

from moldau.image import Endpoint
from moldau.ports.zookeeper import Stat
from moldau.zookeeper.reading import Survey, read
from moldau.zookeeper.znodes import (
    Assignment,
    BrokerZnode,
    StateZnode,
    TopicZnode,
    broker_json,
    state_json,
    topic_json,
)


def survey(registered: int, first_epoch: int, *written: int) -> Survey:
    """Broker 1, and partitions that it is in sync in, with the ids of the transactions that wrote their states."""
    broker = BrokerZnode(1, (Endpoint("PLAINTEXT", "h", 9092, 0),), first_epoch=first_epoch)
    state = StateZnode(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1)
    assigned = {number: Assignment((1, 2)) for number in range(len(written))}
    return Survey(
        brokers={1: (broker_json(broker), Stat(registered, registered, 0, 7))},
        topics={"t": (topic_json(TopicZnode("t", bytes(16), assigned)), Stat(1, 1, 0, 0))},
        states={("t", n): (state_json(state), Stat(1, zxid, 0, 0)) for n, zxid in enumerate(written)},
    )


@pytest.mark.parametrize(
    ("registered", "first_epoch", "same"),
    [(20, -1, True), (40, -1, False), (40, 20, True), (40, 35, False)],
)
def test_a_process_is_the_one_in_sync_if_it_registered_before_every_state_that_names_it(
    registered: int, first_epoch: int, same: bool
) -> None:
    found = read(survey(registered, first_epoch, 50, 30), lambda: bytes(16))
    assert found.since == {1: 30, 2: 30}
    assert (found.lives[1] <= found.since[1]) is same
