"""What works in slices says so by its name: a call of a generator function that is not iterated does nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src" / "moldau"
PAUSES = ("Generator[None, None, ", "Iterator[None]")
"""How the annotation of what is returned begins; one that may be None as well is looked at by every caller."""
HANDLERS = ("handle", "control")
"""Functions of ``broker/api``: the connection that calls them looks at what they return."""


def is_generator(function: ast.FunctionDef) -> bool:
    """Return whether calling the function only makes a generator, which yields nothing but pauses."""
    by_decorator = any("contextmanager" in ast.unparse(one) for one in function.decorator_list)
    returns = "" if function.returns is None else ast.unparse(function.returns)
    return returns.startswith(PAUSES) and returns.endswith("]") and not by_decorator


def unnamed(path: Path) -> Iterator[str]:
    """Yield the public generator functions of a file that do not say so by their names."""
    place = path.relative_to(ROOT)
    is_api = place.parts[:2] == ("broker", "api")
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if any(one in text for one in PAUSES) else ():
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or not is_generator(node):
            continue
        if not node.name.endswith("_in_slices") and not (is_api and node.name in HANDLERS):
            yield f"{place}:{node.lineno} {node.name}"


def test_public_functions_that_work_in_slices_are_called_so() -> None:
    paths = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "simulator"]
    found = [one for path in paths for one in unnamed(path)]
    assert not found, "end these in _in_slices (docs/glossary.md, slices):\n" + "\n".join(found)
