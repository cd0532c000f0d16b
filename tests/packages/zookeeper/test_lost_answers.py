"""An answer that was lost: the znodes tell whether the transaction was made, and nothing else is taken for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from moldau.ports.zookeeper import CheckVersion, Create, Delete, Op, Set, ZooKeeperError
from moldau.zookeeper.lost_answers import was_made
from tests.packages.broker.zookeeper_server import Server

BEFORE: list[Op] = [Create(path="/epoch"), Create(path="/a", data=b"1"), Create(path="/gone"), Create(path="/notes")]
OPS: list[Op] = [
    CheckVersion(path="/epoch", version=0),
    Delete(path="/gone"),
    Set(path="/a", data=b"2", version=0),
    Set(path="/a", data=b"3", version=1),
    Create(path="/b", data=b"new"),
    Create(path="/notes/n", sequential=True),
]


def told(*transactions: Sequence[Op], of: Sequence[Op] = OPS) -> bool:
    """What is made of it after these, which somebody made."""

    async def scenario() -> bool:
        server = Server()
        zk = server.open()
        await zk.start()
        for ops in (BEFORE, *transactions):
            server.apply(0, ops)
        if transactions and of[0].path == "/epoch":
            with pytest.raises(ZooKeeperError):
                await zk.multi(of)  # so it comes that anybody asks
        found = await was_made(zk, of)
        await zk.stop()
        return found

    return asyncio.run(scenario())


def test_what_was_made_is_known_again() -> None:
    assert told(OPS)


def test_what_was_not_made_is_not() -> None:
    assert not told()


def test_a_znode_that_somebody_changed_since_tells_nothing() -> None:
    assert not told(OPS, [Set(path="/a", data=b"4")])
    assert not told(OPS, [Set(path="/a", data=b"3")]), "the same data, another version"


def test_the_same_znodes_by_several_hands_are_not_one_transaction() -> None:
    assert not told([OPS[1]], [OPS[2], OPS[3]], [OPS[4]])


def test_a_part_of_it_by_another_client_is_not_the_whole() -> None:
    assert not told([Create(path="/b", data=b"new")])
    assert not told([Delete(path="/gone")])


def test_deletions_alone_are_made_when_all_is_gone_and_notes_alone_tell_nothing() -> None:
    gone: list[Op] = [Delete(path="/gone"), Delete(path="/a", version=0)]
    assert told(gone, of=gone)
    assert not told([gone[0]], of=gone)
    notes: list[Op] = [Create(path="/notes/n", sequential=True)]
    assert not told(notes, of=notes)
