"""Makes docs/configuration.md from the tables in the code, the states in docs/controller.md, the reference pages of
``reference.py`` and the pictures of ``pictures.py``. Run by `make docs`; tests hold the pages to the code."""

from __future__ import annotations

from pathlib import Path

from docs import pictures, reference, rules, states

from moldau.model.broker_config import BROKER_KEYS, SECTIONS
from moldau.model.config_key import ConfigKey
from moldau.model.dynamic_config import ONLY_DYNAMIC, update_mode
from moldau.model.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS
from moldau.model.topic_config import TOPIC_KEYS
from moldau.model.topic_defaults import BECOMES

PAGE = Path(__file__).parent / "configuration.md"
HEAD = """# Configuration

Generated from `moldau/model` by `make docs`; do not edit. Names, types, defaults and bounds are Apache Kafka 4.3's: the very
`server.properties` that starts a Kafka node starts a Moldau node, or is refused with the reason. A bad value stops the start
with the key, the value and what is allowed. Keys that Kafka knows and Moldau has no use for are accepted and checked, and marked
as without effect; DescribeConfigs says the same in its documentation. Those of them that the file sets are named in one warning
at the start, unknown keys in another.

Variables of the environment are no settings, as they are in Docker images of Kafka (`KAFKA_ADVERTISED_LISTENERS`, `KAFKA_NODE_ID`,
`KAFKA_CFG_NODE_ID`): a warning at the start names those that are set, with the keys of `server.properties` that say the same.
What Kafka's scripts take (`KAFKA_HEAP_OPTS`, `KAFKA_OPTS`) is not named.

## What cannot be served

Only listeners that speak PLAINTEXT are served. `listener.security.protocol.map` may give them any names; a listener, or a
controller's listener that this node would connect to, which stands for SSL, SASL_PLAINTEXT or SASL_SSL stops the start, and so
does one that the map does not name. Settings of TLS and SASL have no effect then, as in Kafka. These stop the start as well,
because leaving them out would allow what they forbid, or hide records: `authorizer.class.name`,
`create.topic.policy.class.name`, `alter.config.policy.class.name`, `client.quota.callback.class`, a value that a provider of
`config.providers` would fill in, `remote.log.storage.system.enable=true`, and on ZooKeeper `zookeeper.set.acl=true` and
`zookeeper.ssl.client.enable=true`.

A listener without a host binds 127.0.0.1 ([why](decisions/0004-loopback-by-default.md)), and clients are told `localhost`, unless
`advertised.listeners` names another host; if that is another machine's address, a warning says who will not get through.
`0.0.0.0` and `[::]` bind all interfaces and need `advertised.listeners`; a host left out there is this host's canonical name.

## Changing settings while everything runs

The column *update mode* says what `kafka-configs --alter --entity-type brokers` may change without a restart: `cluster-wide` for
all brokers together (`--entity-default`) or for one, `per-broker` for one only, `read-only` in the file only. A broker's own
setting goes before the cluster's, that before the file's. What may not be changed is refused with INVALID_REQUEST and Kafka's
words ("Cannot update these configs dynamically: [node.id]"). Departures from Apache Kafka:

- `listeners` and `listener.security.protocol.map` are read-only here: a node opens and closes no listener while it runs.
- Stores of keys and certificates (`ssl.keystore.*`, `ssl.truststore.*`) are refused as Kafka refuses them without a listener's
  prefix; no listener with TLS is served, so that keys with the prefix are unknown.
- A key that nobody knows is refused with INVALID_CONFIG, where Kafka keeps it for plugins.
- Kafka runs threads, and changes a thread count by a factor of two at most at a time. Here one loop does the work: thread counts
  (`num.io.threads`, `num.network.threads`, `background.threads`, `log.cleaner.threads`) are kept and shown, any of them, and
  nothing changes.
- Settings of groups are those of the new group protocols (KIP-848, KIP-932, KIP-1071). They are checked and kept; groups are
  served by the classic protocol, which takes a group's times from its members. Settings of client metrics (KIP-714) are checked
  and kept; no client is asked for metrics, because GetTelemetrySubscriptions and PushTelemetry are not served.
"""


def allowed(key: ConfigKey) -> str:
    """What a key's value may be; where it becomes a topic's setting as it is, what that may be."""
    topic_name, factor = BECOMES.get(key.name, ("", 0)) if BROKER_KEYS.get(key.name) is key else ("", 0)
    # A negative time of retention is another way to say that there is no limit.
    return TOPIC_KEYS[topic_name].allowed() if factor == 1 and topic_name != "retention.ms" else key.allowed()


def row(key: ConfigKey) -> str:
    default = key.text(key.default)
    shown = "" if default is None else f"`{default}`" if default else "(empty)"
    note = "" if key.effect else " *(accepted, without effect)*"
    return f"| `{key.name}` | {shown} | {allowed(key)} | {key.doc}{note} |"


def row_of_broker(key: ConfigKey) -> str:
    return f"{row(key)} {update_mode(key.name)} |"


def section(title: str, keys: dict[str, ConfigKey], *, of_broker: bool = False) -> str:
    show = row_of_broker if of_broker else row
    rows = [show(key) for key in keys.values() if not key.internal]
    columns = ["key", "default", "allowed", "what it does", *(["update mode"] if of_broker else [])]
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([f"\n## {title}\n", *head, *rows, ""])


def page() -> str:
    parts = [HEAD]
    parts += [section(title[0].upper() + title[1:], keys, of_broker=True) for title, keys in SECTIONS.items()]
    parts.append(section("Brokers (set while everything runs only)", ONLY_DYNAMIC, of_broker=True))
    parts.append(section("Topics", TOPIC_KEYS))
    parts.append(section("Groups (set while everything runs)", GROUP_KEYS))
    parts.append(section("Client metrics (set while everything runs)", CLIENT_METRICS_KEYS))
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    states.PAGE.write_text(states.page(states.PAGE.read_text()))
    rules.PAGE.write_text(rules.page())
    for path, made in (*reference.PAGES.items(), *pictures.PICTURES.items()):
        path.write_text(made())
    print(
        f"wrote {', '.join(path.name for path in (PAGE, states.PAGE, rules.PAGE, *reference.PAGES, *pictures.PICTURES))}"
    )
