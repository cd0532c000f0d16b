"""Reads every znode that counts, through the port: many at once, in a few rounds. What it means: ``reading``.

The reads are not one instant. Whoever surveys arms its watches first, so that what changes meanwhile is told (law Z7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import TypeVar

from moldau.ports.zookeeper import NoNode, Stat, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.reading import Survey
from moldau.zookeeper.znodes import parse_topic

Found = tuple[bytes, Stat]
Key = TypeVar("Key", bound=Hashable)


async def survey(zk: ZooKeeper) -> Survey:
    """Everything as it stands; errors of the session, and BadZnode for a topic that cannot be read, come through."""
    await zk.sync()
    ids = [int(name) for name in await _names(zk, paths.BROKER_IDS) if name.isascii() and name.isdigit()]
    brokers = await _many(zk, {id: paths.broker(id) for id in ids})
    topics = await _many(zk, {name: paths.topic(name) for name in await _names(zk, paths.TOPICS)})
    wanted = {}
    for name, (data, _) in topics.items():
        for number in parse_topic(name, data).partitions:
            wanted[name, number] = paths.state(name, number)
    states = await _many(zk, wanted)
    unfinished = sorted({name for name, number in wanted if (name, number) not in states})
    present = [path for path in paths.PERSISTENT if path != paths.PRODUCER_IDS]
    for folder in (paths.partitions(name) for name in unfinished):
        present += await _below(zk, folder)
    entities, folders = await _entities(zk)
    configs = {entity: data for entity, (data, _) in (await _many(zk, {e: paths.config(e) for e in entities})).items()}
    feature, producer_ids = await zk.get_many([paths.FEATURE, paths.PRODUCER_IDS])
    return Survey(
        brokers=brokers,
        topics=topics,
        states=states,
        configs=configs,
        feature=None if feature is None else feature[0],
        producer_ids=None if producer_ids is None else producer_ids[0],
        present=(*present, *folders),
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
