"""Makes docs/rules.md from rules.toml: what the cluster does, rule by rule, and the tests that show each.

Run by `make docs`. ``tests/tidy/test_rules.py`` holds that each of the tests is there.
"""

from __future__ import annotations

import tomllib
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent / "rules.md"

HEAD = """# Rules and their tests

Generated from `docs/rules.toml` by `make docs`; do not edit. Each rule has an id under which issues and notes cite
it, and the tests that fail when it is broken. Invariants that the simulator checks at every event have ids too:
[laws.md](laws.md). What is promised to users, in fewer words: [guarantees.md](guarantees.md).

Where Apache Kafka's two controllers differ, each mode follows its own. "Lacks" says what a rule asks for that no test
shows, or that is not done.
"""


class Rule(NamedTuple):
    """One rule: its id, section and text, the tests that show it, and what is missing of it."""

    id: str
    section: str
    says: str
    tests: tuple[str, ...]
    lacks: str = ""


def _read() -> tuple[Rule, ...]:
    tables = tomllib.loads(Path(__file__).with_name("rules.toml").read_text())
    return tuple(
        Rule(name, table["section"], table["says"], tuple(table["tests"]), table.get("lacks", ""))
        for name, table in tables.items()
    )


RULES = _read()


def place(test: str) -> tuple[str, str]:
    """Return the file of a test, from the project's top, and the name of its function (``*`` for all of the file)."""
    path, _, name = test.partition("::")
    folder, _, file = path.rpartition("/")
    return f"tests/{folder}/test_{file}.py", name if name == "*" else f"test_{name}"


def _shown(test: str) -> str:
    path, name = place(test)
    file = path.removeprefix("tests/")
    said = "the whole file" if name == "*" else name.removeprefix("test_").replace("_", " ")
    return f"[{said}](../{path}) <sub>{file}</sub>"


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for section, rules in groupby(RULES, key=lambda rule: rule.section):
        lines += [f"## {section}", "", "| id | rule | tests |", "|---|---|---|"]
        for rule in rules:
            says = rule.says + (f" *Lacks: {rule.lacks}*" if rule.lacks else "")
            lines.append(f"| **{rule.id}** | {says} | {'<br>'.join(map(_shown, rule.tests))} |")
        lines.append("")
    return "\n".join(lines)
