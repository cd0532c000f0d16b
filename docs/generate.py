"""Makes docs/configuration.md from the tables in the code, and the states in docs/controller.md. Run by `make docs`; tests
hold the pages to the code."""

from __future__ import annotations

from pathlib import Path

from docs import states
from moldau.terms.broker_config import SECTIONS
from moldau.terms.config_key import ConfigKey
from moldau.terms.group_config import CLIENT_METRICS_KEYS, GROUP_KEYS
from moldau.terms.topic_config import TOPIC_KEYS

PAGE = Path(__file__).parent / "configuration.md"
HEAD = """# Configuration

Generated from `moldau/terms` by `make docs`; do not edit. Names, types, defaults and bounds are Apache Kafka 4.3's: the very
`server.properties` that starts a Kafka node starts a Moldau node. An unknown key is named in a warning, a bad value stops the
start with the key, the value and what is allowed. Keys that Kafka knows and Moldau has no use for yet are accepted.
"""


def row(key: ConfigKey) -> str:
    default = key.text(key.default)
    shown = "" if default is None else f"`{default}`" if default else "(empty)"
    note = "" if key.effect else " *(accepted, without effect)*"
    return f"| `{key.name}` | {shown} | {key.allowed()} | {key.doc}{note} |"


def section(title: str, keys: dict[str, ConfigKey]) -> str:
    rows = [row(key) for key in keys.values() if not key.internal]
    return "\n".join([f"\n## {title}\n", "| key | default | allowed | what it does |", "|---|---|---|---|", *rows, ""])


def page() -> str:
    parts = [HEAD]
    parts += [section(title[0].upper() + title[1:], keys) for title, keys in SECTIONS.items()]
    parts.append(section("Topics", TOPIC_KEYS))
    parts.append(section("Groups (set while everything runs)", GROUP_KEYS))
    parts.append(section("Client metrics (set while everything runs)", CLIENT_METRICS_KEYS))
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    states.PAGE.write_text(states.page(states.PAGE.read_text()))
    print(f"wrote {PAGE.name} and {states.PAGE.name}")
