"""One noun names one concept: public classes with the same name do not become more."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src" / "moldau"
PACKAGES = ("cluster", "history", "quorum", "replication", "simulator")
"""Packages that are read; the others come in as their names are made distinct."""
DEFINED_MORE_THAN_ONCE = {
    "FetchAnswer": 2, "History": 2, "Progress": 3, "Sight": 2, "Truncate": 2,
}  # fmt: skip
"""Public class -> how many modules may define it. Lower a number, or remove the name, when there are fewer."""


def public_classes() -> dict[str, list[str]]:
    """Return public class name -> the modules that define a class of that name at their top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_public_class_names_are_not_defined_in_more_modules_than_before() -> None:
    more = {
        name: modules
        for name, modules in public_classes().items()
        if len(modules) > DEFINED_MORE_THAN_ONCE.get(name, 1)
    }
    assert not more, "one noun, one concept: call the new class otherwise:\n" + "\n".join(
        f"{name}: {', '.join(modules)}" for name, modules in more.items()
    )
