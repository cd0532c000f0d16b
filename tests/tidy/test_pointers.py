"""A module that another one's text names is there, where the reader will look for it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SRC = TOP / "src" / "moldau"
ALL = {path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py")}
OTHERS = {path.relative_to(TOP).as_posix() for part in ("tests", "bench", "src") for path in (TOP / part).rglob("*.py")}
NAMED = re.compile(r"(?<![\w./-])((?:[a-z0-9_]+/)*[a-z0-9_]+\.py)\b")


@cache
def is_there(named: str) -> bool:
    """Whether a path ends so, anywhere in the package, the tests or the bench."""
    return any(one == named or one.endswith(f"/{named}") for one in ALL | OTHERS)


def test_a_module_that_a_text_names_is_there() -> None:
    said = {module: ast.get_docstring(ast.parse((SRC / module).read_text())) or "" for module in sorted(ALL)}
    named = {module: NAMED.findall(text) for module, text in said.items()}
    assert not {
        module: missing for module, names in named.items() if (missing := [n for n in names if not is_there(n)])
    }
