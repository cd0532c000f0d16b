"""Writes what ``make mutants`` printed into docs/testing-results.md: the tables, and the laws' rows.

``make mutants > mutants.txt; python -m moldau.simulator.mutants.page docs/testing-results.md mutants.txt [MORE]``; of a
mutant that was hunted again, the last line counts. Hunts nothing. Read next: ``table.py``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.simulator.scenes import ZOOKEEPER

MACHINES = "machines"
_HEAD = "| bug | mistake | world | caught by | median seeds |\n|---|---|---|---|---|\n"
_LAW = re.compile(r"^(\| ([A-Z]\d+) \|.*\|) [^|]* \|$", re.MULTILINE)


class MutantRow(NamedTuple):
    """A mutant's row as ``make mutants`` prints it; ``seeds`` is words where a hunt found nothing."""

    bug: str
    mistake: str
    world: str
    laws: str
    seeds: str

    @property
    def table(self) -> str:
        """Which table it belongs to: whole clusters on ZooKeeper have their own."""
        return ZOOKEEPER if self.world.partition(" ")[0] == ZOOKEEPER else MACHINES


def rows(texts: Iterable[str]) -> list[MutantRow]:
    """The rows of all outputs; a later one replaces an earlier one of the same mutant in its place."""
    found: dict[tuple[str, str, str], MutantRow] = {}
    for text in texts:
        for line in text.partition(_HEAD)[2].splitlines():
            if not line.startswith("| "):
                break
            row = MutantRow(*(cell.strip() for cell in line.strip("|").split("|")))
            found[row[:3]] = row
    return list(found.values())


def written(page: str, hunted: Sequence[MutantRow]) -> str:
    """The page with its tables, counts and laws as they are now; ValueError names a mark that it has not."""
    for table in (MACHINES, ZOOKEEPER):
        mine = [row for row in hunted if row.table == table]
        lines = "".join(f"| {' | '.join(row)} |\n" for row in mine)
        page = _between(page, f"mutants: {table}", f"{len(mine)} mutants, 3 hunts each.\n\n{_HEAD}{lines}")
    quiet: list[str] = []

    def count(match: re.Match[str]) -> str:
        caught = [row for row in hunted if match[2] in row.laws.split()]
        if not caught:
            quiet.append(match[2])
        return f"{match[1]} {f'{len(caught)}: {caught[0].bug}' if caught else 'none'} |"

    laws = _LAW.sub(count, _inside(page, "mutants: laws"))
    page = _between(page, "mutants: laws", laws.strip("\n") + "\n")
    return _between(page, "mutants: quiet laws", f"Laws that no mutant trips: {' '.join(quiet) or 'none'}.\n")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->\n", f"<!-- end of {name} -->"


def _inside(page: str, name: str) -> str:
    begin, end = _marks(name)
    _, found, rest = page.partition(begin)
    text, ended, _ = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no {begin.strip()} ... {end}")
    return text


def _between(page: str, name: str, text: str) -> str:
    begin, end = _marks(name)
    old = _inside(page, name)
    return page.replace(f"{begin}{old}{end}", f"{begin}\n{text}\n{end}")


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.write_text(written(where.read_text(), rows(Path(name).read_text() for name in sys.argv[2:])))
