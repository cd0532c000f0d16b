"""DescribeConfigs, 1-4: settings of topics, brokers, groups, client metrics, and levels of loggers; where each comes
from, synonyms, types, docs (KIP-226, KIP-569, KIP-412).

A broker's own settings and its loggers are told by that broker only; the name "" is the cluster's defaults. The others
come from the committed image over this node's file. Secrets have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.broker.config.changes import named_this_node
from moldau.broker.loop import Pace, run_to_end_if_short
from moldau.broker.network.requests import RequestContext
from moldau.broker.services import NodeServices
from moldau.controller.topics import bad_name
from moldau.image import Image
from moldau.image.configs import (
    CLUSTER,
    ConfigSource,
    ResourceType,
    Setting,
    broker_settings,
    broker_synonyms,
    client_metrics_settings,
    group_settings,
    is_sensitive,
    topic_settings,
    visible_topic_keys,
)
from moldau.model import Code
from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigKey, Kind
from moldau.model.config_key import shown as cut
from moldau.model.dynamic_config import ONLY_DYNAMIC, update_mode
from moldau.model.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS
from moldau.model.topic_config import TOPIC_KEYS
from moldau.runtime.levels import LEVELS, levels
from moldau.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Result = DescribeConfigsResponse.DescribeConfigsResult
Settings = Callable[[str], list[Setting]]


class Described(NamedTuple):
    """A resource: the names of its settings, what each is, the keys that define them, whether they can be changed."""

    names: Sequence[str]
    settings: Callable[[str], Iterable[Setting]]
    keys: Mapping[str, ConfigKey]
    dynamic: bool


_KEYS_OF_BROKERS = {**BROKER_KEYS, **ONLY_DYNAMIC}
AT_ONCE = 5
"""Resources that are described without a pause: each has dozens of settings."""
ENTRIES_AT_ONCE = 50
"""Settings that are told in one turn of the loop."""
WITHOUT_EFFECT = "(Accepted by Moldau, without effect.)"


def handle(
    node: NodeServices, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | Generator[None, None, DescribeConfigsResponse]:
    """Answer from this node's image and file; a resource that is asked for again in the same words is told once."""
    return run_to_end_if_short(_steps(node, request, context), len(request.resources) <= AT_ONCE)


def _steps(
    node: NodeServices, request: DescribeConfigsRequest, context: RequestContext
) -> Generator[None, None, DescribeConfigsResponse]:
    """The answer, with a pause after so many resources."""
    response, pace = DescribeConfigsResponse(), Pace(ENTRIES_AT_ONCE)
    told: set[object] = set()
    for asked in request.resources:
        keys = None if asked.configuration_keys is None else frozenset(asked.configuration_keys)
        resource = (asked.resource_type, asked.resource_name, keys)
        if resource not in told:
            told.add(resource)
            response.results.append((yield from _result(node, request, asked, keys, pace)))
        if pace.spent(1):
            yield
    return response


control = handle


def _result(
    node: NodeServices,
    request: DescribeConfigsRequest,
    asked: DescribeConfigsRequest.DescribeConfigsResource,
    wanted: frozenset[str] | None,
    pace: Pace,
) -> Generator[None, None, Result]:
    result = Result(resource_type=asked.resource_type, resource_name=asked.resource_name)
    found = _resource(node, asked.resource_type, asked.resource_name)
    if not isinstance(found, Described):
        result.error_code, result.error_message = found
        return result
    for name in found.names:
        if wanted is None or name in wanted:
            entry = _entry(name, found.settings(name), found.keys.get(name), request, found.dynamic)
            result.configs.append(entry)
            if pace.spent(1):
                yield
    if asked.resource_type == ResourceType.BROKER and request.include_synonyms and asked.resource_name != CLUSTER:
        _show_older_keys(node, result)
    return result


def _show_older_keys(node: NodeServices, result: Result) -> None:
    """A broker's key that is set names the keys that it goes before as synonyms as well."""
    config = node.config
    for entry in result.configs:
        if entry.value is not None:
            found = broker_synonyms(node.metadata.image, config.node_id, entry.name, config.static_topic_config())
            entry.synonyms = [_synonym(one, secret=False) for one in found]


def _synonym(one: Setting, *, secret: bool) -> DescribeConfigsResponse.DescribeConfigsSynonym:
    return DescribeConfigsResponse.DescribeConfigsSynonym(
        name=one.name, value=None if secret else one.value, source=one.source
    )


def _resource(node: NodeServices, type: int, name: str) -> Described | tuple[Code, str | None]:
    """The resource of that name, or why there is none."""
    image: Image = node.metadata.image
    static = node.config.static_topic_config()
    me = node.config.node_id
    if type == ResourceType.TOPIC:
        problem = bad_name(name)
        if problem is not None:
            return problem
        if name not in image.names:
            return Code.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {cut(name)} does not exist."
        return Described(
            list(visible_topic_keys()), lambda key: topic_settings(image, name, key, static, me), TOPIC_KEYS, True
        )
    if type == ResourceType.BROKER:
        if name == CLUSTER:
            own = image.config(ResourceType.BROKER, CLUSTER)
            return Described(
                sorted(own),
                lambda key: [Setting(key, own[key], ConfigSource.DYNAMIC_DEFAULT_BROKER)],
                _KEYS_OF_BROKERS,
                True,
            )
        if name != str(me):
            return (
                Code.INVALID_REQUEST,
                f"Unexpected broker id, expected {me} or empty string, but received {cut(name)}",
            )
        return Described(
            _broker_names(image, me), lambda key: broker_settings(image, me, key, static), _KEYS_OF_BROKERS, False
        )
    return _smaller_resource(node, type, name)


def _smaller_resource(node: NodeServices, type: int, name: str) -> Described | tuple[Code, str | None]:
    """Describe a resource that is neither a topic nor a broker, or say why not."""
    image: Image = node.metadata.image
    if type == ResourceType.BROKER_LOGGER:
        wrong = named_this_node(node.config.node_id, name)
        if wrong is not None:
            return wrong
        found = levels()
        what = "How much this logger writes."
        keys = {key: ConfigKey(key, Kind.STRING, None, what, one_of=tuple(LEVELS)) for key in found}
        return Described(
            list(found), lambda key: [Setting(key, found[key], ConfigSource.DYNAMIC_BROKER_LOGGER)], keys, True
        )
    if type == ResourceType.GROUP:
        if not name:
            return Code.INVALID_REQUEST, "Group name must not be empty"
        static = node.config.static_topic_config()
        return Described(sorted(GROUP_KEYS), lambda key: group_settings(image, name, key, static), GROUP_KEYS, True)
    if type == ResourceType.CLIENT_METRICS:
        if not name:
            return Code.INVALID_REQUEST, "Client metrics subscription name must not be empty"
        own = image.config(ResourceType.CLIENT_METRICS, name)
        shown = sorted(CLIENT_METRICS_KEYS) if own else []  # a subscription that nobody made has no settings
        return Described(shown, lambda key: client_metrics_settings(image, name, key), CLIENT_METRICS_KEYS, True)
    return Code.INVALID_REQUEST, f"Unsupported resource type: {type}"


def _broker_names(image: Image, me: int) -> list[str]:
    dynamic = image.config(ResourceType.BROKER, str(me)).keys() | image.config(ResourceType.BROKER, CLUSTER).keys()
    return sorted({name for name, key in BROKER_KEYS.items() if not key.internal} | dynamic)


def _entry(
    name: str, found: Iterable[Setting], key: ConfigKey | None, request: DescribeConfigsRequest, dynamic: bool
) -> Entry:
    settings = list(found)
    best = settings[0]
    secret = is_sensitive(key)
    entry = Entry(
        name=name,
        value=None if secret else best.value,
        read_only=not dynamic and update_mode(name) == "read-only",
        config_source=best.source,
        is_sensitive=secret,
        config_type=0 if key is None else key.kind,
    )
    if request.include_synonyms:
        entry.synonyms = [
            _synonym(one, secret=secret)
            for one in settings
            if one.value is not None or one.source is not ConfigSource.DEFAULT
        ]
    if request.include_documentation and key is not None:
        entry.documentation = key.doc if key.effect else f"{key.doc} {WITHOUT_EFFECT}"
    return entry
