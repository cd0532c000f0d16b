"""Dynamic settings in ZooKeeper mode: every broker reads them at the start of a session, then follows the notes.

Whoever changes a setting leaves a note under /config/changes; its entity is then read anew, and what differs from the
image becomes records. At the active controller a difference is what a tool wrote behind its back: it is asked for, as
if by request, so that its decisions know of it. The controller removes notes after a while, as Kafka does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable, Sequence
from functools import partial

from moldau.broker.loop import sleep
from moldau.broker.zookeeper.folders import make_again
from moldau.broker.zookeeper.parts import PlaneParts, ZooKeeperNode
from moldau.controller import requests
from moldau.image import Image
from moldau.image.quotas import quota, quota_record, quotas
from moldau.ports import Handle
from moldau.ports.zookeeper import ConnectionLoss, Delete, NoAuth, NoNode, SessionExpired, ZooKeeperError
from moldau.wire.records.metadata import ClientQuotaRecord, ConfigRecord
from moldau.wire.schema import Message
from moldau.zookeeper import paths
from moldau.zookeeper.notes import parse_config, parse_config_change
from moldau.zookeeper.payload import BadZnode
from moldau.zookeeper.settings import RESOURCES, entity_of, judged, quota_entity, quota_entity_of, records_of

log = logging.getLogger(__name__)

KEPT_MS = 15 * 60_000
"""How long a note stays for brokers that are slow."""
RETRY_MS = 100
RETRY_MAX_MS = 2_000
"""Before the folder of notes is tried again that an ACL, or its absence, keeps from us: first, and at most."""
QUOTA_FOLDERS = ("users", "clients", "ips")
_KINDS = {folder: kind for kind, folder in RESOURCES.items()}


class ZnodeSettings:
    """One node's view of settings in znodes, and its watches of them, in one session after the other."""

    def __init__(self, node: ZooKeeperNode, plane: PlaneParts) -> None:
        self._node = node
        self._plane = plane
        self._news = asyncio.Event()
        self._seen: set[str] = set()
        self._missed = False
        self._task: Handle | None = None

    async def open(self) -> None:
        """Begin in a new session: watch the notes, then read everything that they may be about (law Z7)."""
        self.close()
        try:
            self._seen = set(await self._notes())
        except (NoNode, NoAuth) as error:
            log.warning("changes of settings cannot be heard of: %s", error)
            self._seen = set()
            self._news.set()  # is tried again
        await self._read_all()
        self._task = self._node.world.tasks.spawn(self._follow(), "settings in znodes")

    def read_again(self) -> None:
        """Read everything once more: what this node asked for as a controller, and did not live to decide, it has seen
        the note of, and nobody tells it again."""
        self._missed = True
        self._news.set()

    async def _read_all(self) -> None:
        self._missed = False
        for folder in RESOURCES.values():
            try:
                names = await self._plane.zk.children(f"{paths.CONFIG}/{folder}")
            except (NoNode, NoAuth) as error:
                log.debug("no settings of %s: %s", folder, error)
                continue
            stand = [f"{folder}/{name}" for name in names]
            known = (
                entity_of(kind, name) for kind, name in self._node.metadata.image.configs if kind == _KINDS[folder]
            )
            # What is known and stands no more was taken away while nobody told of it.
            await self._take(dict.fromkeys([*stand, *known]))
        with_quotas = (quota_entity_of(of) for of, _, _ in quotas(self._node.metadata.image))
        await self._take(dict.fromkeys([*await self._quota_entities(), *with_quotas]))

    async def _quota_entities(self) -> list[str]:
        """Users, clients of users, clients and addresses that have a znode."""
        found = [f"{folder}/{name}" for folder in QUOTA_FOLDERS for name in await self._names(folder)]
        inner = [f"{one}/clients" for one in found if one.startswith("users/")]
        return found + [f"{folder}/{name}" for folder in inner for name in await self._names(folder)]

    async def _names(self, folder: str) -> list[str]:
        try:
            names: list[str] = await self._plane.zk.children(f"{paths.CONFIG}/{folder}")
        except (NoNode, NoAuth) as error:
            log.debug("no quotas in %s: %s", folder, error)
            return []
        return names

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def of_topics(self, names: Iterable[str]) -> list[Message]:
        """Records of all settings that topics have; a topic that is new here may have been made with some."""
        entities = [f"topics/{paths.sanitized(name)}" for name in names]

        async def read() -> dict[str, dict[str, str]]:
            await self._plane.zk.sync()  # a server that lags has not made them yet, and no note tells of them later
            return await self._read(entities)

        try:
            found = await self._plane.retry_until_connected(read)
        except ZooKeeperError as error:
            log.debug("settings of new topics are not known: %s", error)
            return []  # the next session reads all of them
        return [record for entity, settings in found.items() for record in records_of(entity, good(entity, settings))]

    async def _notes(self) -> list[str]:
        found: list[str] = await self._plane.zk.children(paths.CONFIG_CHANGES, lambda happened, path: self._news.set())
        return found

    async def _follow(self) -> None:
        wait_ms = RETRY_MS
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                notes = await self._plane.retry_until_connected(self._notes)
                fresh = [note for note in notes if note not in self._seen]
                if fresh:
                    await self._plane.retry_until_connected(partial(self._apply_notes, fresh))
                self._seen = set(notes)
                if wait_ms > RETRY_MS:
                    log.info("changes of settings are heard of again")
                if wait_ms > RETRY_MS or self._missed:
                    # What was changed meanwhile may have left no note.
                    await self._plane.retry_until_connected(self._read_all)
                    wait_ms = RETRY_MS
            except SessionExpired:
                return
            except ZooKeeperError as error:
                # An ACL, or somebody has removed the folder: settings stay as they are until it is mended.
                if wait_ms == RETRY_MS:
                    log.warning("changes of settings are not heard of until this is mended: %s", error)
                if isinstance(error, NoNode):
                    await self._make_folders()
                self._node.world.tasks.call_later(wait_ms, self._news.set)
                wait_ms = min(2 * wait_ms, RETRY_MAX_MS)

    async def _make_folders(self) -> None:
        """What every broker makes at its start, and somebody has removed since."""
        try:
            await self._plane.retry_until_connected(partial(make_again, self._plane.zk))
        except ZooKeeperError as error:
            log.debug("%s", error)

    async def _apply_notes(self, notes: Sequence[str]) -> None:
        all_paths = [f"{paths.CONFIG_CHANGES}/{note}" for note in notes]
        entities: dict[str, None] = {}
        for path, found in zip(all_paths, await self._plane.zk.get_many(all_paths), strict=True):
            try:
                if found is not None:
                    entities[parse_config_change(path, found[0])] = None
            except BadZnode as error:
                log.warning("a note is not understood: %s", error)
        while self._plane.claimed_epoch is not None and not self._plane.writer.idle:
            await sleep(self._node.world.tasks, 2)  # most notes at the controller are its own, told by what it commits
        await self._take(entities)
        if self._plane.claimed_epoch is not None:
            self._node.world.tasks.spawn(self._sweep(all_paths), "removal of old notes")

    async def _read(self, entities: Sequence[str]) -> dict[str, dict[str, str]]:
        """Entity -> its settings, none when there is no such znode; those that cannot be read are left out."""
        left = list(entities)
        while True:
            try:
                found = await self._plane.zk.get_many([paths.config(entity) for entity in left])
                break
            except (ConnectionLoss, SessionExpired):
                raise
            except ZooKeeperError as error:  # an ACL, or a name that a tool put into a note and no znode can have
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
            if one is not None and self._plane.claimed_epoch is not None:
                self._plane.writer.known_znodes.saw(paths.config(entity), one[0])
        return settings

    async def _take(self, entities: Iterable[str]) -> None:
        """Read what stands of entities, and make it known.

        A topic that was made or deleted meanwhile brings its settings with it, or has taken them away: what was read of
        one that is gone would be those of the next topic of its name.
        """
        ids = {entity: self._topic_id(entity) for entity in entities}
        found = await self._read(list(ids))
        await self._plane.publisher.free()
        image: Image = self._node.metadata.image
        records = [
            record
            for entity, settings in found.items()
            if (id := self._topic_id(entity)) == ids[entity] and (id is not None or not settings)
            for record in differences(image, entity, good(entity, settings), kept=settings)
        ]
        if not records:
            return
        if self._plane.claimed_epoch is None:
            await self._plane.feed(records)
        else:
            self._node.controller.submit_nowait(requests.AdoptConfigs(records=tuple(records)))

    def _topic_id(self, entity: str) -> bytes | None:
        """The id of the topic whose settings an entity's are, if it is there; of what is no topic's always the same."""
        folder, _, name = entity.partition("/")
        if folder != "topics":
            return b""
        topic = self._node.metadata.image.topic(name)
        return None if topic is None else topic.id

    async def _sweep(self, notes: Sequence[str]) -> None:
        await sleep(self._node.world.tasks, KEPT_MS)
        for note in notes:
            if (guard := self._plane.writer.guard) is None:
                return
            try:
                await self._plane.retry_until_connected(partial(self._plane.zk.multi, [guard, Delete(path=note)]))
            except ZooKeeperError as error:
                log.debug("a note stays: %s", error)


def good(entity: str, settings: dict[str, str]) -> dict[str, str]:
    """The settings of an entity that have valid values; of the others the log tells, each by itself."""
    found, complaints = judged(entity, settings)
    for complaint in complaints:
        log.error("a setting is left as it was: znode %s: %s", paths.config(entity), complaint)
    return found


def differences(
    image: Image, entity: str, settings: dict[str, str], kept: Container[str] = ()
) -> Sequence[ConfigRecord | ClientQuotaRecord]:
    """Records that make the image's settings or quotas of an entity those that stand in its znode. ``kept``: keys that
    stay as they are known, for what stands there now is no good value."""
    folder = entity.partition("/")[0]
    if folder in QUOTA_FOLDERS:
        return _quota_differences(image, entity, settings, kept)
    if folder not in _KINDS:
        return []
    named = [record for record in records_of(entity, settings or {"": ""}) if isinstance(record, ConfigRecord)]
    if not named:
        return []
    kind, name = named[0].resource_type, named[0].resource_name
    known = image.config(kind, name)
    changed = [record for record in (named if settings else []) if known.get(record.name) != record.value]
    gone = [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=None)
        for key in sorted(known)
        if key not in settings and key not in kept
    ]
    return changed + gone


def _quota_differences(
    image: Image, entity: str, settings: dict[str, str], kept: Container[str]
) -> list[ClientQuotaRecord]:
    of = quota_entity(entity)
    if of is None:
        return []
    stands = [record for record in records_of(entity, settings) if isinstance(record, ClientQuotaRecord)]
    known = (key for one, key, _ in quotas(image) if one == of)
    gone = [quota_record(of, key, None) for key in known if key not in {r.key for r in stands} and key not in kept]
    return [record for record in stands if quota(image, of, record.key) != record.value] + gone
