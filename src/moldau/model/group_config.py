"""Settings of groups (KIP-848, KIP-932, KIP-1071) and of client metrics (KIP-714): names, types, defaults, bounds.

Pure tables, checked and kept as Kafka does, without effect here: groups are served by the classic protocol, and clients
are not asked for their metrics. Facts are those of Apache Kafka 4.3. Read next: ``config_key.py`` (what a key is),
``moldau.controller.config_rules`` (bounds that brokers set, and what belongs together).
"""

from __future__ import annotations

from functools import partial

from moldau.model.broker_config import BROKER_KEYS
from moldau.model.config_key import ConfigKey, Kind, table

_of_group = partial(ConfigKey, effect=False)

GROUP_KEYS: dict[str, ConfigKey] = table(
    *(
        _of_group(name, Kind.INT, default, f"{what} of a {name.partition('.')[0]} group.", low=low)
        for name, default, low, what in (
            ("consumer.session.timeout.ms", 45_000, 1, "Silence after which a member is put out"),
            ("consumer.heartbeat.interval.ms", 5_000, 1, "Time between heartbeats of members"),
            ("consumer.assignment.interval.ms", 1_000, 0, "Least time between two assignments"),
            ("share.session.timeout.ms", 45_000, 1, "Silence after which a member is put out"),
            ("share.heartbeat.interval.ms", 5_000, 1, "Time between heartbeats of members"),
            ("share.assignment.interval.ms", 1_000, 0, "Least time between two assignments"),
            ("share.record.lock.duration.ms", 30_000, 1_000, "How long a record is locked for a member"),
            ("share.delivery.count.limit", 5, 2, "Attempts to deliver a record to a member"),
            ("share.partition.max.record.locks", 2_000, 100, "Records locked at once in a partition"),
            ("streams.session.timeout.ms", 45_000, 1, "Silence after which a member is put out"),
            ("streams.heartbeat.interval.ms", 5_000, 1, "Time between heartbeats of members"),
            ("streams.assignment.interval.ms", 1_000, 0, "Least time between two assignments"),
            ("streams.num.standby.replicas", 0, 0, "Standby copies of a task's state"),
            ("streams.initial.rebalance.delay.ms", 3_000, 0, "How long the first rebalance waits for members"),
        )
    ),
    _of_group("share.auto.offset.reset", Kind.STRING, "latest", "Where a share group begins that has no position."),
    _of_group(
        "share.isolation.level",
        Kind.STRING,
        "read_uncommitted",
        "Whether a share group reads records of open transactions.",
        one_of=("read_committed", "read_uncommitted"),
    ),
    _of_group("share.renew.acknowledge.enable", Kind.BOOLEAN, True, "Whether members may renew a record's lock."),
)

CLIENT_METRICS_KEYS: dict[str, ConfigKey] = table(
    _of_group("metrics", Kind.LIST, (), "Prefixes of the metrics that clients shall send; * for all."),
    _of_group("interval.ms", Kind.INT, 300_000, "How often clients shall send them.", low=100, high=3_600_000),
    _of_group("match", Kind.LIST, (), "Which clients: pairs of a client's property and a pattern, with = between."),
)

MATCHED = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip
"""Properties of a client that a match may name (KIP-714)."""


def broker_bound(name: str, side: str) -> str | None:
    """The broker key that bounds a group's setting from one ``side`` (min, max); None when there is none.

    >>> broker_bound("share.delivery.count.limit", "max")
    'group.share.max.delivery.count.limit'
    """
    kind, _, rest = name.partition(".")
    bound = f"group.{kind}.{side}.{rest.removeprefix('num.')}"
    return bound if bound in BROKER_KEYS else None


def broker_default(name: str) -> str | None:
    """The broker key whose value a group has that sets none of its own."""
    key = f"group.{name}"
    return key if key in BROKER_KEYS else None
