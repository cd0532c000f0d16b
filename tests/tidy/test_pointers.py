"""A module that another one's text names is there, where the reader will look for it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SRC = TOP / "src" / "moldau"
ALL = {path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py")}
OTHERS = {path.relative_to(TOP).as_posix() for part in ("tests", "bench", "src") for path in (TOP / part).rglob("*.py")}
NAMED = re.compile(r"(?<![\w./-])((?:[a-z0-9_]+/)*[a-z0-9_]+\.py)\b")


def is_there(named: str) -> bool:
    """Whether a path ends so, anywhere in the package, the tests or the bench."""
    return any(one == named or one.endswith(f"/{named}") for one in ALL | OTHERS)


@pytest.mark.parametrize("module", sorted(ALL))
def test_a_module_that_a_text_names_is_there(module: str) -> None:
    said = ast.get_docstring(ast.parse((SRC / module).read_text())) or ""
    missing = [name for name in NAMED.findall(said) if not is_there(name)]
    assert not missing
