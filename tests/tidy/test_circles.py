"""Imports between modules go in circles in no more places than are listed here, and in no larger ones.

Every import counts: at the top of a module, for types only, and inside a function. A circle that has become smaller is
to be listed as it is now; the aim is none.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"
CIRCLES = {
    "moldau.storage.admission": 20,
}
"""The first module of each circle, in the order of the alphabet -> how many modules are in it."""


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(module: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules of ours that one imports, wherever in its text."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            if node.level:
                base = f"{package}.{base}" if base else package
            for one in node.names:
                inner = f"{base}.{one.name}"
                if inner in modules or base in modules:
                    yield inner if inner in modules else base


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        for module in graph:
            if module not in index:
                visit(module)
    finally:
        sys.setrecursionlimit(limit)
    return found


def test_imports_go_in_no_more_circles_than_are_listed() -> None:
    modules = {name_of(path): path for path in sorted(SRC.rglob("*.py"))}
    graph = {name: {*imported(name, path, modules)} - {name} for name, path in modules.items()}
    found = {one[0]: one for one in circles(graph)}
    grown = {first: members for first, members in found.items() if len(members) > CIRCLES.get(first, 0)}
    assert not grown, f"a circle is new, or larger than {CIRCLES}: {grown}"
    smaller = {first: len(found.get(first, [])) for first, size in CIRCLES.items() if len(found.get(first, [])) < size}
    assert not smaller, f"list these circles as they are now: {smaller}"


def test_a_circle_is_found_and_a_line_is_none() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
