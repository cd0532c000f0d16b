"""The examples in docstrings run, and say what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
FILES = sorted(path for path in (SRC / "moldau").rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_examples_say_what_they_show(path: Path) -> None:
    module = import_module(".".join(path.relative_to(SRC).with_suffix("").parts))
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert found, "an example that no docstring holds is not run"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in found:
        runner.run(test)
    assert runner.failures == 0
