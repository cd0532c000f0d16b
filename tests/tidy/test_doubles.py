"""Tests build values and small classes that the type checker compares with what they stand for: an object of loose
attributes fits whatever it is given for, and proves less."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_no_test_makes_objects_of_loose_attributes() -> None:
    loose = re.compile(r"\bSimpleNamespace\b")
    found = [
        f"{path}:{number}"
        for path in sorted(ROOT.rglob("*.py"))
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if loose.search(line) and path.name != Path(__file__).name
    ]
    assert not found, "write a class, or build the value: see tests/packages/doubles.py\n" + "\n".join(found)


def test_types_of_arguments_are_checked_in_every_test() -> None:
    overrides = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    unchecked = {code for one in overrides for code in one.get("disable_error_code", ())} & {"arg-type", "assignment"}
    assert not unchecked, "a double may stand for anything then"
