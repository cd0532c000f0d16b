"""``make mutants ARGS=--laws``: each law with the functions that check it and the mutants that are named for it.

Made from what is there: a law's functions say in their docstrings which it is ("C3: ..."), a mutant names its laws.
Hunts nothing; ``table.py`` tells whether each mutant is caught. A test asserts that none of ``LAWS`` lacks either.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import NamedTuple

from moldau.simulator.mutants.mutant import Mutant

CHECKS = (
    "moldau.controller.laws", "moldau.replication.laws", "moldau.quorum.laws", "moldau.groups.laws",
    "moldau.zookeeper.laws", "moldau.history.checks", "moldau.simulator.laws.compacted",
    "moldau.simulator.deleter", "moldau.simulator.laws.control", "moldau.simulator.laws.data",
    "moldau.simulator.laws.deletions", "moldau.simulator.laws.quorum",
    "moldau.simulator.laws.reads", "moldau.simulator.laws.rest", "moldau.simulator.laws.sequences",
    "moldau.simulator.laws.transactions",
    "moldau.simulator.laws.zookeeper",
    "moldau.simulator.machines.controller_play",
    "moldau.simulator.machines.controller_swarm", "moldau.simulator.machines.groups_swarm",
    "moldau.simulator.machines.active_controller_swarm", "moldau.simulator.machines.quorum_swarm",
    "moldau.simulator.machines.replication_world", "moldau.simulator.machines.voters_swarm", "moldau.simulator.run",
)  # fmt: skip
"""Where laws are checked: machines alone, their worlds, whole clusters, what clients saw."""

LAWS = (
    *(f"C{number}" for number in range(1, 14)),
    *(f"R{number}" for number in range(1, 11)),
    *(f"L{number}" for number in range(1, 14)),
    "S6",
    "S17",
)
"""The laws of the controller, the quorum, liveness, and what readers are given, also of records in transactions."""

TOLD_AS = {"L6": "C3"}
"""A law whose breach is told under another's name: nodes that never learn of something hold another image at rest."""

_IDS = re.compile(r"(?:[SCRZLX]\d+)(?:(?:, | and )[SCRZLX]\d+)*(?=[\s:,.])")
_ID = re.compile(r"[SCRZLX]\d+")


class Law(NamedTuple):
    """A law, where it is checked (module.function without ``moldau.``), and the mutants named for it."""

    id: str
    checked: tuple[str, ...]
    mutants: tuple[str, ...]

    def row(self) -> str:
        """As Markdown."""
        told = f" (told as {TOLD_AS[self.id]})" if self.id in TOLD_AS else ""
        named = f"{len(self.mutants)}: {', '.join(self.mutants)}" if self.mutants else "**none**"
        return f"| {self.id}{told} | {', '.join(self.checked) or '**nowhere**'} | {named} |"


def laws(mutants: Iterable[Mutant]) -> list[Law]:
    """Every law of ``LAWS`` as the code has it."""
    checked: dict[str, list[str]] = {}
    for name, text in _functions():
        found = _IDS.match(text)
        for id in _ID.findall(found[0]) if found is not None else ():
            checked.setdefault(id, []).append(name)
    named: dict[str, list[str]] = {}
    for mutant in mutants:
        for id in mutant.laws:
            named.setdefault(id, []).append(mutant.name)
    return [Law(id, tuple(checked.get(id, ())), tuple(named.get(TOLD_AS.get(id, id), ()))) for id in LAWS]


def _functions() -> Iterator[tuple[str, str]]:
    """(where, docstring) of every function and method of the modules that check."""
    for module in map(import_module, CHECKS):
        short = module.__name__.removeprefix("moldau.")
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                yield f"{short}.{name}", value.__doc__ or ""
            elif inspect.isclass(value) and value.__module__ == module.__name__:
                for method, function in vars(value).items():
                    if inspect.isfunction(function):
                        yield f"{short}.{name}.{method}", function.__doc__ or ""


def table(mutants: Iterable[Mutant]) -> str:
    """The whole table."""
    rows = "\n".join(law.row() for law in laws(mutants))
    return f"| law | checked by | mutants |\n|---|---|---|\n{rows}\n"
