"""`Any` switches the type checker off: a line that writes it says why, and the lines that do not become fewer."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src" / "moldau"
WITHOUT_REASON = {"broker": 0, "controller": 0, "storage": 0, "replication": 0, "groups": 0, "client": 0, "quorum": 0}
"""Package -> lines that may write `Any` without a reason. Lower a number when there are fewer; none is ever raised."""
IMPORT = re.compile(r"\s*(from|import) ")


def unreasoned(path: Path) -> list[str]:
    """The lines of a file that write `Any` in code and have no comment with the word."""
    found, in_text = [], False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        was_text, quotes = in_text, line.count('"""')
        in_text ^= quotes % 2 == 1
        code, _, comment = line.partition("#")
        if was_text or quotes or IMPORT.match(line):
            continue
        if re.search(r"\bAny\b", code) and "Any" not in comment:
            found.append(f"{path}:{number}: {line.strip()}")
    return found


def test_any_has_a_reason_in_its_line() -> None:
    for package, most in WITHOUT_REASON.items():
        found = [line for path in sorted((ROOT / package).rglob("*.py")) for line in unreasoned(path)]
        assert len(found) <= most, f"{package}: {len(found)} lines, {most} may be:\n" + "\n".join(found)


def test_no_part_takes_the_node_as_any() -> None:
    found = [str(path) for path in ROOT.rglob("*.py") if re.search(r"\bnode: Any\b", path.read_text())]
    assert not found
