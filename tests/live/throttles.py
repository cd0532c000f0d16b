"""Throttles of replication as they stand in a cluster."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from moldau.client import admin
from moldau.client.admin import ConfigSource, Resource, ResourceType
from moldau.client.sync import Cluster


def throttles(client: Cluster, topic: str, brokers: Iterable[int]) -> dict[str, str | None]:
    """Those that somebody set on the topic or on the brokers: ``name key`` -> value."""
    places = [Resource(ResourceType.TOPIC, topic), *(Resource(ResourceType.BROKER, str(id)) for id in brokers)]
    found = client.run(admin.describe_configs(client.client, places))
    return {
        f"{place.name} {entry.name}": entry.value
        for place, (_, entries) in found.items()
        for entry in entries.values()
        if "throttled" in entry.name and entry.source in (ConfigSource.TOPIC, ConfigSource.BROKER)
    }


def later(told: str) -> list[str]:
    """The words of the command that a plan's end names for the throttle of a broker which was away just then, without
    ``moldau``; none when every broker could be asked."""
    named = re.search(r"cannot be asked: .* `moldau (.*)` takes it away", told)
    return shlex.split(named[1]) if named else []
