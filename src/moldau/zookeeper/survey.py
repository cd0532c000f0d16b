"""Reads every znode that counts, through the port: many at once, in a few rounds. What it means: ``reading``.

The reads are not one instant. Whoever surveys arms its watches first, so that what changes meanwhile is told (law Z7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import TypeVar

from moldau.model.ids import is_topic_name
from moldau.ports.zookeeper import NoAuth, NoNode, Stat, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.reading import Survey
from moldau.zookeeper.znodes import parse_topic

Found = tuple[bytes, Stat]
UNKNOWN = Stat(czxid=-1, mzxid=-1, version=0, ephemeral_owner=0)
"""What is known of a znode about which an ACL says nothing."""
Key = TypeVar("Key", bound=Hashable)


async def survey(zk: ZooKeeper) -> Survey:
    """Everything as it stands; errors of the session come through."""
    await zk.sync()
    denied: list[str] = []
    ids, foreign = paths.broker_ids(await _names(zk, paths.BROKER_IDS))
    brokers = await _many(zk, {id: paths.broker(id) for id in ids}, denied)
    names = await _names(zk, paths.TOPICS)
    topics = await _many(zk, {name: paths.topic(name) for name in names if is_topic_name(name)}, denied)
    wanted = {}
    unread = []
    for name, (data, _) in topics.items():
        try:
            for number in parse_topic(name, data).partitions:
                wanted[name, number] = paths.state(name, number)
        except BadZnode:
            unread.append(name)  # ``reading`` says why
    states = await _many(zk, wanted, denied)
    unfinished = sorted({name for name, number in wanted if (name, number) not in states})
    present = [path for path in paths.PERSISTENT if path != paths.PRODUCER_IDS]
    for folder in (paths.partitions(name) for name in (*unfinished, *unread)):
        present += await _below(zk, folder)
    for name in unread:
        folder = paths.partitions(name)
        states_there = [f"{found}/state" for found in present if found.rpartition("/")[0] == folder]
        read = await get_each(zk, states_there)
        present += [path for path, one in zip(states_there, read, strict=True) if one is not None]
    entities, folders = await _entities(zk)
    configs = await _many(zk, {entity: paths.config(entity) for entity in entities}, denied)
    alone = await _many(zk, {path: path for path in (paths.FEATURE, paths.PRODUCER_IDS)}, denied)
    return Survey(
        brokers=brokers,
        topics=topics,
        states=states,
        configs={entity: data for entity, (data, _) in configs.items()},
        feature=alone[paths.FEATURE][0] if paths.FEATURE in alone else None,
        producer_ids=alone.get(paths.PRODUCER_IDS),
        present=(*present, *folders),
        foreign=(
            *(f"{paths.BROKER_IDS}/{name}" for name in foreign),
            *(f"{paths.TOPICS}/{name}" for name in names if not is_topic_name(name)),
        ),
        denied=frozenset(denied),
    )


async def topic(zk: ZooKeeper, name: str) -> Survey:
    """One topic, its partitions' states and its settings: when a tool has made or changed it. Empty if it is gone.

    NoAuth where an ACL denies one of its znodes, BadZnode where the topic's own cannot be understood.
    """
    topics = await _many(zk, {name: paths.topic(name)})
    if not topics:
        return Survey()
    numbers = parse_topic(name, topics[name][0]).partitions
    states = await _many(zk, {(name, number): paths.state(name, number) for number in numbers})
    entity = f"topics/{paths.sanitized(name)}"
    configs = await _many(zk, {entity: paths.config(entity)})
    present = [] if len(states) == len(numbers) else await _below(zk, paths.partitions(name))
    return Survey(
        topics=topics, states=states, configs={e: data for e, (data, _) in configs.items()}, present=tuple(present)
    )


async def get_each(zk: ZooKeeper, wanted: Sequence[str]) -> list[Found | NoAuth | None]:
    """Many znodes at once: the data and stat of each, None where there is none, NoAuth where an ACL denies it to us."""
    try:
        return list(await zk.get_many(wanted))
    except NoAuth:  # it names one of them
        return list(await asyncio.gather(*(_get_one(zk, path) for path in wanted)))


async def _get_one(zk: ZooKeeper, path: str) -> Found | NoAuth | None:
    try:
        return await zk.get(path)
    except NoNode:
        return None
    except NoAuth as error:
        return error


async def _many(zk: ZooKeeper, wanted: dict[Key, str], denied: list[str] | None = None) -> dict[Key, Found]:
    """What is there of the znodes. Those that an ACL denies are noted in ``denied``, and found without their data;
    without that list NoAuth is raised."""
    if denied is None:
        found = await zk.get_many(list(wanted.values()))
        return {key: each for key, each in zip(wanted, found, strict=True) if each is not None}
    there: dict[Key, Found] = {}
    for (key, path), each in zip(wanted.items(), await get_each(zk, list(wanted.values())), strict=True):
        if isinstance(each, NoAuth):
            denied.append(path)
            there[key] = b"", await _stat(zk, path)
        elif each is not None:
            there[key] = each
    return there


async def _stat(zk: ZooKeeper, path: str) -> Stat:
    """The stat of a znode that is there and may not be read. Servers from 3.9 on deny that too (ZOOKEEPER-2590)."""
    try:
        return await zk.exists(path) or UNKNOWN
    except NoAuth:
        return UNKNOWN


async def _names(zk: ZooKeeper, folder: str) -> list[str]:
    try:
        return await zk.children(folder)
    except NoNode:
        return []


async def _entities(zk: ZooKeeper) -> tuple[list[str], list[str]]:
    """All config entities, those within users included, and the folders that they lie in."""
    kinds = [kind for kind in await _names(zk, paths.CONFIG) if kind != "changes"]
    entities = []
    folders = [paths.config(kind) for kind in kinds]
    for kind, names in zip(kinds, await asyncio.gather(*(_names(zk, paths.config(k)) for k in kinds)), strict=True):
        entities += [f"{kind}/{name}" for name in names]
    users = [entity for entity in entities if entity.startswith("users/")]
    inner = await asyncio.gather(*(_names(zk, paths.config(f"{user}/clients")) for user in users))
    for user, clients in zip(users, inner, strict=True):
        if clients:
            folders.append(paths.config(f"{user}/clients"))
        entities += [f"{user}/clients/{client}" for client in clients]
    return entities, folders


async def _below(zk: ZooKeeper, folder: str) -> list[str]:
    """A folder that may be there, and the folders in it, unless an ACL denies them."""
    try:
        if await zk.exists(folder) is None:
            return []
        return [folder, *(f"{folder}/{name}" for name in await _names(zk, folder))]
    except NoAuth:
        return [folder]
