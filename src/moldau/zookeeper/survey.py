"""Reads every znode that counts, through the port: many at once, in a few rounds. What it means: ``reading``.

The reads are not one instant. Whoever surveys arms its watches first, so that what changes meanwhile is told (law Z7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TypeVar

from moldau.ports.zookeeper import NoNode, Stat, ZooKeeper
from moldau.terms.ids import is_topic_name
from moldau.zookeeper import paths
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.reading import Survey
from moldau.zookeeper.znodes import parse_topic

Found = tuple[bytes, Stat]
Key = TypeVar("Key", bound=Hashable)


async def survey(zk: ZooKeeper) -> Survey:
    """Everything as it stands; errors of the session come through."""
    await zk.sync()
    ids, strangers = paths.broker_ids(await _names(zk, paths.BROKER_IDS))
    brokers = await _many(zk, {id: paths.broker(id) for id in ids})
    names = await _names(zk, paths.TOPICS)
    topics = await _many(zk, {name: paths.topic(name) for name in names if is_topic_name(name)})
    wanted = {}
    unread = []
    for name, (data, _) in topics.items():
        try:
            for number in parse_topic(name, data).partitions:
                wanted[name, number] = paths.state(name, number)
        except BadZnode:
            unread.append(name)  # ``reading`` says why
    states = await _many(zk, wanted)
    unfinished = sorted({name for name, number in wanted if (name, number) not in states})
    present = [path for path in paths.PERSISTENT if path != paths.PRODUCER_IDS]
    for folder in (paths.partitions(name) for name in (*unfinished, *unread)):
        present += await _below(zk, folder)
    for name in unread:
        folders = await _names(zk, paths.partitions(name))
        states_there = [f"{paths.partitions(name)}/{number}/state" for number in folders]
        present += [p for p, one in zip(states_there, await zk.get_many(states_there), strict=True) if one is not None]
    entities, folders = await _entities(zk)
    configs = {entity: data for entity, (data, _) in (await _many(zk, {e: paths.config(e) for e in entities})).items()}
    feature, producer_ids = await zk.get_many([paths.FEATURE, paths.PRODUCER_IDS])
    return Survey(
        brokers=brokers,
        topics=topics,
        states=states,
        configs=configs,
        feature=None if feature is None else feature[0],
        producer_ids=producer_ids,
        present=(*present, *folders),
        strangers=(
            *(f"{paths.BROKER_IDS}/{name}" for name in strangers),
            *(f"{paths.TOPICS}/{name}" for name in names if not is_topic_name(name)),
        ),
    )


async def topic(zk: ZooKeeper, name: str) -> Survey:
    """One topic, its partitions' states and its settings: when a tool has made or changed it. Empty if it is gone."""
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


async def _many(zk: ZooKeeper, wanted: dict[Key, str]) -> dict[Key, Found]:
    found = await zk.get_many(list(wanted.values()))
    return {key: each for key, each in zip(wanted, found, strict=True) if each is not None}


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
    """A folder that may be there, and the folders in it."""
    if await zk.exists(folder) is None:
        return []
    return [folder, *(f"{folder}/{name}" for name in await _names(zk, folder))]
