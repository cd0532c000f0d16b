"""Dynamic settings on the ZooKeeper plane: every broker reads them at the start of a session, then follows the notes.

Whoever changes a setting leaves a note under /config/changes; its entity is then read anew, and what differs from the
image becomes records. At the active controller a difference is what a tool wrote behind its back: it is asked for, as
if by request, so that its decisions know of it. The controller removes notes after a while, as Kafka does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from moldau.broker.asking import pause
from moldau.controller import asks
from moldau.image import Image
from moldau.ports.zookeeper import NoAuth, NoNode, SessionExpired, ZooKeeperError
from moldau.wire.records.metadata import ConfigRecord
from moldau.zookeeper import paths
from moldau.zookeeper.notes import parse_config, parse_config_change
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.settings import RESOURCES, records_of

log = logging.getLogger("moldau.zookeeper")

KEPT_MS = 15 * 60_000
"""How long a note stays for brokers that are slow."""
_KINDS = {folder: kind for kind, folder in RESOURCES.items()}


class ZnodeSettings:
    """One node's ear for settings, in one session after the other."""

    def __init__(self, node: Any, plane: Any) -> None:
        self._node = node
        self._plane = plane
        self._news = asyncio.Event()
        self._seen: set[str] = set()
        self._task: Any = None

    async def open(self) -> None:
        """Begin in a new session: watch the notes, then read everything that they may be about (law Z7)."""
        self.close()
        self._seen = set(await self._notes())
        for folder in RESOURCES.values():
            try:
                names = await self._plane.zk.children(f"{paths.CONFIG}/{folder}")
            except (NoNode, NoAuth) as error:
                log.debug("no settings of %s: %s", folder, error)
                continue
            await self._take(await self._read([f"{folder}/{name}" for name in names]))
        self._task = self._node.world.tasks.spawn(self._follow(), "settings in znodes")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def of_topics(self, names: Iterable[str]) -> list[Any]:
        """Records of all settings that topics have; a topic that is new here may have been made with some."""
        entities = [f"topics/{paths.sanitized(name)}" for name in names]

        async def read() -> dict[str, dict[str, str]]:
            await self._plane.zk.sync()  # a server that lags has not made them yet, and no note tells of them later
            return await self._read(entities)

        try:
            found = await self._plane.patiently(read)
        except ZooKeeperError as error:
            log.debug("settings of new topics are not known: %s", error)
            return []  # the next session reads all of them
        return [record for entity, settings in found.items() for record in records_of(entity, settings)]

    async def _notes(self) -> list[str]:
        found: list[str] = await self._plane.zk.children(paths.CONFIG_CHANGES, lambda happened, path: self._news.set())
        return found

    async def _follow(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                notes = await self._plane.patiently(self._notes)
                fresh = [note for note in notes if note not in self._seen]
                self._seen = set(notes)
                if fresh:
                    await self._plane.patiently(partial(self._heed, fresh))
        except SessionExpired:
            pass

    async def _heed(self, notes: Sequence[str]) -> None:
        all_paths = [f"{paths.CONFIG_CHANGES}/{note}" for note in notes]
        entities: dict[str, None] = {}
        for path, found in zip(all_paths, await self._plane.zk.get_many(all_paths), strict=True):
            try:
                if found is not None:
                    entities[parse_config_change(path, found[0])] = None
            except BadZnode as error:
                log.warning("a note is not understood: %s", error)
        while self._plane.office_epoch is not None and not self._plane.writer.idle:
            await pause(self._node.world.tasks, 2)  # most notes at the controller are its own, told by what it commits
        await self._take(await self._read(list(entities)))
        if self._plane.office_epoch is not None:
            self._node.world.tasks.spawn(self._sweep(all_paths), "removal of old notes")

    async def _read(self, entities: Sequence[str]) -> dict[str, dict[str, str]]:
        """Entity -> its settings, none when there is no such znode; those that cannot be read are left out."""
        left = list(entities)
        while True:
            try:
                found = await self._plane.zk.get_many([paths.config(entity) for entity in left])
                break
            except NoAuth as error:
                log.error("settings stay as they are: %s", error)
                if error.path not in (shut := {paths.config(entity) for entity in left}):
                    return {}
                left = [entity for entity in left if paths.config(entity) in shut - {error.path}]
        settings = {}
        for entity, one in zip(left, found, strict=True):
            try:
                settings[entity] = {} if one is None else parse_config(entity, one[0])
            except BadZnode as error:
                log.error("settings stay as they are: %s", error)
                continue
            if one is not None and self._plane.office_epoch is not None:
                self._plane.writer.standing.saw(paths.config(entity), one[0])
        return settings

    async def _take(self, found: dict[str, dict[str, str]]) -> None:
        await self._plane.telling.free()
        image: Image = self._node.metadata.image
        records = [record for entity, settings in found.items() for record in differences(image, entity, settings)]
        if not records:
            return
        if self._plane.office_epoch is None:
            await self._plane.feed(records)
            return
        changes: dict[tuple[int, str], list[tuple[str, int, str | None]]] = {}
        for record in records:
            verb = asks.Operation.DELETE if record.value is None else asks.Operation.SET
            key = (record.resource_type, record.resource_name)
            changes.setdefault(key, []).append((record.name, verb.value, record.value))
        self._node.office.tell(
            asks.IncrementalAlterConfigs(
                resources=tuple(
                    asks.ConfigChange(resource_type=kind, resource_name=name, changes=tuple(each))
                    for (kind, name), each in changes.items()
                )
            )
        )

    async def _sweep(self, notes: Sequence[str]) -> None:
        await pause(self._node.world.tasks, KEPT_MS)
        for note in notes:
            if self._plane.office_epoch is None:
                return
            try:
                await self._plane.patiently(partial(self._plane.zk.delete, note))
            except ZooKeeperError as error:
                log.debug("a note stays: %s", error)


def differences(image: Image, entity: str, settings: dict[str, str]) -> list[ConfigRecord]:
    """Records that make the image's settings of an entity those that stand in its znode. No quotas."""
    folder = entity.partition("/")[0]
    if folder not in _KINDS:
        return []
    named = records_of(entity, settings or {"": ""})
    if not named:
        return []
    kind, name = named[0].resource_type, named[0].resource_name
    known = image.config(kind, name)
    changed = [record for record in (named if settings else []) if known.get(record.name) != record.value]
    gone = [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=None)
        for key in sorted(known)
        if key not in settings
    ]
    return changed + gone
