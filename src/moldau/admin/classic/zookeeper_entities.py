"""Whose settings kafka-configs.sh --zookeeper is asked for: types and names of entities, and where their znodes are."""

from __future__ import annotations

from moldau.admin.classic.configs_entities import DEFAULT_FLAGS, FLAGS, check_changes, check_names, entities_of
from moldau.admin.classic.java import illegal_argument
from moldau.admin.classic.options import GivenOptions
from moldau.model.named import NamedTuple
from moldau.ports.zookeeper import NoNode, ZooKeeper
from moldau.zookeeper import paths

TYPES = ("topics", "clients", "users", "brokers", "ips")
WITH_DEFAULT = {"users", "clients", "brokers", "ips"}
_TITLES = {"users": "user-principal", "clients": "client-id", "topics": "topic"}
_SANITIZED = ("users", "clients")


class Entity(NamedTuple):
    """One entity, or a client of a user, as (type, part of a path) pairs; a part that is None stands for all."""

    parts: list[tuple[str, str | None]]

    def __str__(self) -> str:
        """As Kafka's tool names it."""
        return ", ".join(_shown(kind, name) for kind, name in self.parts)

    @property
    def kind(self) -> str:
        return self.parts[0][0]

    @property
    def path(self) -> str:
        """Below /config."""
        return "/".join(f"{kind}/{name or ''}" for kind, name in self.parts)


def _shown(kind: str, name: str | None) -> str:
    title = _TITLES.get(kind, kind)
    if name is None:
        return kind
    if name == paths.DEFAULT_ENTITY:
        return f"default {title}"
    return f"{title} '{paths.plain(name) if kind in _SANITIZED else name}'"


def entity_in(given: GivenOptions) -> Entity:
    """The entity that the options name."""
    types, names = entities_of(given)
    if types[0] not in _SANITIZED:
        name = names[0] if names else None
        return Entity([(types[0], paths.DEFAULT_ENTITY if name == "" else name)])
    if given.has("alter") and len(names) != len(types):
        what = "--entity-name or --entity-default must be specified with each --entity-type for --alter"
        raise illegal_argument(what)
    if types[0] == "clients" and len(types) == 2:
        types = types[::-1]
        names = names[::-1] if len(names) == 2 else names
    parts = [paths.sanitized(name) if name else paths.DEFAULT_ENTITY for name in names]
    return Entity([(kind, parts[at] if at < len(parts) else None) for at, kind in enumerate(types)])


async def entities_below(zk: ZooKeeper, wanted: Entity) -> list[Entity]:
    """The entities that have a znode, where all are wanted; else the one that was named."""
    found: list[Entity] = [Entity([])]
    for kind, name in wanted.parts:
        longer = []
        for one in found:
            names = [name] if name is not None else await _children(zk, "/".join(filter(None, (one.path, kind))))
            longer += [Entity([*one.parts, (kind, each)]) for each in names]
        found = longer
    return found


async def _children(zk: ZooKeeper, entity: str) -> list[str]:
    try:
        return await zk.children(paths.config(entity))
    except NoNode:
        return []


def check(given: GivenOptions) -> None:
    """JavaError or UsageError when the options do not go together."""
    if given.has("alter") == given.has("describe"):
        given.refuse("Command must include exactly one action: --describe, --alter")
    given.exclude("describe", ["alter", "add-config", "delete-config"])
    types, names = entities_of(given)
    twice = [one for at, one in enumerate(types) if one in types[:at]]
    if twice:
        raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(twice)}")
    both = given.has("bootstrap-server")
    for one in types:
        allowed = (*TYPES, "broker-loggers") if both else TYPES
        if one not in allowed:
            server = "--bootstrap-server" if both else "--zookeeper"
            what = f"the entity type must be one of {','.join(allowed)} with the {server} argument"
            raise illegal_argument(f"Invalid entity type {one}, {what}")
    if not types:
        raise illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise illegal_argument("Only 'users' and 'clients' entity types may be specified together")
    general = any(map(given.has, ("entity-name", "entity-type", "entity-default")))
    if general and any(map(given.has, (*FLAGS, *DEFAULT_FLAGS))):
        text = "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        raise illegal_argument(text)
    if both:
        raise illegal_argument("Only one of --bootstrap-server or --zookeeper must be specified")
    if given.has("all"):
        raise illegal_argument("--bootstrap-server must be specified for --all")
    check_names(given, entities_of(given))
    if given.has("alter"):
        if set(types) & WITH_DEFAULT and not names:
            what = "an entity-name or default entity must be specified"
            raise illegal_argument(f"{what} with --alter of users, clients, brokers or ips")
        if not set(types) & WITH_DEFAULT and not any(names):
            raise illegal_argument(f"an entity name must be specified with --alter of {','.join(types)}")
        check_changes(given)
