"""kafka-configs.sh: describes and alters configurations of topics, brokers, loggers, groups, metrics, and quotas.

Read next: configs_entities.py (what may be asked), configs_quotas.py (users, clients and addresses).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from moldau.admin.classic.configs_entities import Entities, check, entities_of
from moldau.admin.classic.configs_options import OPTIONS
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.options import GivenOptions
from moldau.admin.classic.run import help_or_version
from moldau.admin.classic.session import ToolSession, checked, executed, no_groups, read_config, without_bootstrap
from moldau.client import admin, groups
from moldau.client.admin import AlterOp, ConfigEntry, Resource, ResourceType
from moldau.model.ids import is_topic_name

ABOUT = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics "
    "or group"
)
RESOURCES = {
    "topics": (ResourceType.TOPIC, 1),
    "brokers": (ResourceType.BROKER, 2),
    "broker-loggers": (ResourceType.BROKER_LOGGER, None),
    "client-metrics": (ResourceType.CLIENT_METRICS, 7),
    "groups": (ResourceType.GROUP, 8),
}
"""Entity type -> its resources, and the source of what is set on them."""
CLUSTER_DEFAULT = 3
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
INVALID = f"{PACKAGE}InvalidConfigurationException"
_PLAIN = ("java.lang.IllegalArgumentException", INVALID)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        help_or_version(given, ABOUT)
        entities = entities_of(given)
        check(given, entities)
        _run(given, entities)
    except JavaError as error:
        return refused(error, arguments)
    return 0


def refused(error: JavaError, arguments: Sequence[str]) -> int:
    """Tell why the tool did nothing; the exit status."""
    sys.stdout.flush()
    if error.kind in _PLAIN or error.kind.startswith("joptsimple."):
        print(error.said, file=sys.stderr)
    else:
        print(f"Error while executing config command with args '{' '.join(arguments)}'", file=sys.stderr)
        sys.stderr.write(error.trace)
    return 1


def _run(given: GivenOptions, entities: Entities) -> None:
    config = without_bootstrap(read_config(given.value("command-config")))
    places = given.value("bootstrap-server"), given.value("bootstrap-controller")
    with ToolSession(config, places[0], controllers=places[1]) as session:
        if given.has("alter") and len(entities.types) != len(entities.names):
            raise illegal_argument("An entity name must be specified for every entity type")
        try:
            if given.has("alter"):
                _alter(session, given, entities)
            elif entities.type in RESOURCES:
                _describe(session, given, entities)
            else:
                from moldau.admin.classic.configs_quotas import describe

                describe(session, entities)
        except JavaError as error:
            of_broker = error.kind.startswith(PACKAGE) and error.kind != INVALID
            raise (executed(error) if of_broker else error) from None


# ---- describe


def _describe(session: ToolSession, given: GivenOptions, entities: Entities) -> None:
    everything = given.has("all")
    if entities.names and not everything and not _exists(session, entities.type, entities.names[0]):
        print(f"The {entities.type[:-1]} '{entities.names[0]}' doesn't exist and doesn't have dynamic config.")
        return
    for name in entities.names[:1] or _all(session, entities.type):
        if name:
            title = "All" if everything else "Dynamic"
            print(f"{title} configs for {entities.type[:-1]} {name} are:")
        else:
            print(f"Default configs for {entities.type} in the cluster are:")
        for entry in _settings(session, entities.type, name, everything).values():
            print(_line(entry))


def _line(entry: ConfigEntry) -> str:
    synonyms = [f"{SOURCES.get(source, 'UNKNOWN')}:{key}={_shown(value)}" for key, value, source in entry.synonyms]
    sensitive = "true" if entry.sensitive else "false"
    return f"  {entry.name}={_shown(entry.value)} sensitive={sensitive} synonyms={{{', '.join(synonyms)}}}"


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _all(session: ToolSession, type: str) -> list[str]:
    """The names of all entities of a type, "" for the default."""
    if type == "topics":
        session.know("listTopics", None)
        return hash_order(session.cluster.client.view.topics, string_hash)
    if type in ("brokers", "broker-loggers"):
        session.know("listNodes", [])
        return [*map(str, sorted(session.cluster.client.view.brokers)), ""]
    if type == "client-metrics":
        return [name for _, name in session.ask("listConfigResources", admin.list_resources, [16])]
    try:
        known = {one.group_id for one in session.ask("findAllBrokers", groups.list_groups)}
    except JavaError as error:
        raise executed(no_groups(error)) from None
    return sorted({*known, *(name for _, name in session.ask("listConfigResources", admin.list_resources, [32]))})


def _settings(session: ToolSession, type: str, name: str, everything: bool) -> dict[str, ConfigEntry]:
    """What is set on an entity, or all that it has; by name in their order."""
    resource_type, source = RESOURCES[type]
    if type == "brokers" and not name:
        source = CLUSTER_DEFAULT
    resource = Resource(resource_type, name)
    outcome, entries = session.ask("describeConfigs", admin.describe_configs, [resource])[resource]
    checked(outcome)
    kept = {key: entry for key, entry in entries.items() if everything or source in (None, entry.source)}
    return dict(sorted(kept.items()))


def _exists(session: ToolSession, type: str, name: str) -> bool:
    """Whether there is such an entity, or something was set on it."""
    if type == "topics":
        _check_topic(name)
    return name in _all(session, type)


def _check_topic(name: str) -> None:
    if is_topic_name(name):
        return
    why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > 249:
        why = f"the length of '{name}' is longer than the max allowed length 249"
    raise illegal_argument(f"Topic name is invalid: {why}")


# ---- alter


def _alter(session: ToolSession, given: GivenOptions, entities: Entities) -> None:
    added = _added(given)
    deleted = [key.strip() for key in given.values("delete-config")]
    if entities.type in RESOURCES:
        _alter_resource(session, entities, added, deleted)
    else:
        from moldau.admin.classic.configs_quotas import alter

        alter(session, entities, added, deleted)
    name = entities.names[0]
    if name:
        print(f"Completed updating config for {entities.type[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {entities.type} in the cluster.")


_OUTSIDE = r"(?=[^\]]*(?:\[|$))"
"""A place that is not between brackets."""
FORM = 'in the format "key=val" or  "key=[val1,val2]" to group values which contain commas.'


def _added(given: GivenOptions) -> dict[str, str]:
    """What is to be set: of the file, and of the option."""
    added = read_config(given.value("add-config-file"))
    added.update(pairs_of(given.value("add-config"), FORM))
    for key in added:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise illegal_argument(f"Invalid character found for config key: {key}")
    return added


def pairs_of(text: str | None, form: str) -> dict[str, str]:
    """What --add-config says; JavaError for what is not in the ``form``."""
    if text is None:
        return {}
    parts = re.split(f",{_OUTSIDE}", text)
    while text and parts and not parts[-1]:
        parts.pop()
    pairs = [re.split(rf"\s*=\s*{_OUTSIDE}", part) for part in parts]
    if any(len(pair) != 2 for pair in pairs):
        raise illegal_argument(f"requirement failed: Invalid entity config: all configs to be added must be {form}")
    return {key.strip(): re.sub(r"\[?\]?", "", value).strip() for key, value in pairs}


def _alter_resource(session: ToolSession, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    name = entities.names[0]
    if entities.type == "broker-loggers":
        known = _settings(session, entities.type, name, False)
        unknown = [key for key in (*deleted, *added) if key not in known]
        if unknown:
            raise JavaError(INVALID, f"Invalid broker logger(s): {','.join(unknown)}")
    changes: list[tuple[str, AlterOp, str | None]] = [(key, AlterOp.SET, value) for key, value in added.items()]
    changes += [(key, AlterOp.DELETE, "") for key in deleted]
    resource = Resource(RESOURCES[entities.type][0], name)
    outcome = session.ask("incrementalAlterConfigs", admin.alter_configs, {resource: changes})[resource]
    if not outcome.ok:
        raise executed(kafka_error(outcome.code, outcome.message))
