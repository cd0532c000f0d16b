"""The table of docs/tools.md counts the command lines that tests compare with Kafka's own tools."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
DOC = TESTS.parent / "docs" / "tools.md"
ROW = re.compile(r"\| `(kafka-\S+\.sh)` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|")
NOW = ("classic_cases", "classic_cases_values")
OLD = "classic_cases_zookeeper"


def lines_of(module: str) -> dict[str, list[str]]:
    """The cases of a module by the name of the text that holds them."""
    found: dict[str, list[str]] = {}
    for node in ast.parse((TESTS / "live" / f"{module}.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            (name,) = (target.id for target in node.targets if isinstance(target, ast.Name))
            found[name] = [line for line in node.value.value.splitlines() if line.startswith("kafka-")]
    return found


def tools_in(lines: list[str]) -> Counter[str]:
    return Counter(line.split()[0] for line in lines)


def test_the_table_of_compared_lines_counts_those_that_there_are() -> None:
    now: Counter[str] = Counter()
    old: Counter[str] = Counter()
    for module in (*NOW, OLD):
        for name, lines in lines_of(module).items():
            of_old = module == OLD or name.endswith("_IN_ZOOKEEPER")
            (old if of_old else now).update(tools_in(lines))
    recorded = [
        tools_in(list(json.loads((TESTS / "golden" / f"{name}.json").read_text())))
        for name in ("classic-4.3", "classic-2.8")
    ]
    counts = (now, recorded[0], old, recorded[1])
    tools = sorted({tool for count in counts for tool in count})
    expected = {tool: [str(count[tool] or "-") for count in counts] for tool in tools}
    told = {tool: list(cells) for tool, *cells in ROW.findall(DOC.read_text())}
    assert told == expected, "\n".join(
        f"| `{tool}` | {' | '.join(cells)} |" for tool, cells in expected.items() if told.get(tool) != cells
    )
