"""Whose process is the one that was in sync: told by transaction ids of registrations and states."""

from __future__ import annotations

import pytest

from moldau.image import Endpoint
from moldau.ports.zookeeper import Stat
from moldau.zookeeper.reading import Survey, read
from moldau.zookeeper.znodes import (
    BrokerZnode,
    ReplicaAssignment,
    StateZnode,
    TopicZnode,
    broker_json,
    state_json,
    topic_json,
)


def survey(registered: int, first_epoch: int, *written: int, known: tuple[int, ...] = ()) -> Survey:
    """Broker 1, and partitions that it is in sync in, with the ids of the transactions that wrote their states, which
    say under which epochs brokers 1 and 2 were ``known`` if they say anything."""
    broker = BrokerZnode(1, (Endpoint("PLAINTEXT", "h", 9092, 0),), first_epoch=first_epoch)
    state = StateZnode(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1, isr_epochs=known)
    assigned = {number: ReplicaAssignment((1, 2)) for number in range(len(written))}
    return Survey(
        brokers={1: (broker_json(broker), Stat(registered, registered, 0, 7))},
        topics={"t": (topic_json(TopicZnode("t", bytes(15) + b"\1", assigned)), Stat(1, 1, 0, 0))},
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


@pytest.mark.parametrize(
    ("first_epoch", "known", "same"), [(-1, 40, True), (-1, 20, False), (20, 20, True), (15, 20, True), (35, 20, False)]
)
def test_a_state_written_after_a_registration_that_its_writer_had_not_heard_of_vouches_for_nobody(
    first_epoch: int, known: int, same: bool
) -> None:
    found = read(survey(40, first_epoch, 50, 60, known=(known, 7)), lambda: bytes(16))
    assert found.since == {1: known, 2: 7}
    assert (found.lives[1] <= found.since[1]) is same


def test_epochs_that_do_not_match_the_isr_are_not_believed() -> None:
    found = read(survey(40, -1, 50, known=(40,)), lambda: bytes(16))
    assert found.since == {1: 50, 2: 50}
