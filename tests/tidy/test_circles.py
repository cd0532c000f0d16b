"""Imports between modules go in no circle: a module is read after those that it imports, and never needs itself.

Every import counts: at the top of a module, for types only, and inside a function.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"


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


def test_imports_go_in_no_circle() -> None:
    modules = {name_of(path): path for path in sorted(SRC.rglob("*.py"))}
    graph = {name: {*imported(name, path, modules)} - {name} for name, path in modules.items()}
    assert not circles(graph)


def test_a_circle_is_found_and_a_line_is_none() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
