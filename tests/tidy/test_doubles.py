"""Tests build values and small classes: an object of loose attributes fits whatever it is given for, and proves
less."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMESPACES_MAX = 189
"""Lines that make a SimpleNamespace. Lower it when there are fewer; it is never raised."""


def test_loose_objects_do_not_become_more() -> None:
    made = re.compile(r"\bSimpleNamespace\(")
    found = [
        f"{path}:{number}"
        for path in sorted(ROOT.rglob("*.py"))
        for number, line in enumerate(path.read_text().split("\n"), 1)
        if made.search(line) and path.name != Path(__file__).name
    ]
    assert len(found) <= NAMESPACES_MAX, f"{len(found)} lines, {NAMESPACES_MAX} may be:\n" + "\n".join(found)
