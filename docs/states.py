"""Makes the tables and diagrams of docs/controller.md from ``moldau.controller.states``. Run by `make docs`.

A test holds the page to the code. The rest of the page is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from moldau.controller.states import PARTITION_MOVES, REPLICA_MOVES

PAGE = Path(__file__).parent / "controller.md"
BEGIN, END = "<!-- states:begin -->", "<!-- states:end -->"

Moves = Mapping[Enum, frozenset[Enum]]


def table(moves: Moves) -> str:
    """One row for each state, one column for each state it may go to."""
    names = [str(state.value) for state in moves]
    rows = [["from \\ to", *names], ["---", *([":---:"] * len(names))]]
    for state, targets in moves.items():
        rows.append([f"**{state.value}**", *("yes" if target in targets else "" for target in moves)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def diagram(moves: Moves) -> str:
    """A Mermaid state diagram; moves in the order of the table."""
    order = list(moves)
    steps = [f"    {state.value} --> {target.value}" for state in order for target in order if target in moves[state]]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {order[0].value}", *steps, "```"])


def generated() -> str:
    parts = []
    for title, moves in (("Partitions", PARTITION_MOVES), ("Replicas", REPLICA_MOVES)):
        parts += [f"### {title}", table(moves), diagram(moves)]  # type: ignore[arg-type]
    return "\n\n".join(parts)


def page(now: str) -> str:
    """The page with what stands between the markers made anew."""
    before, found, rest = now.partition(BEGIN)
    assert found, f"{PAGE} has no {BEGIN}"
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{generated()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"wrote {PAGE.name}")
