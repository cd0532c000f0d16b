"""Giving back the memory of long messages a piece at a time.

A message of a hundred thousand partitions is a hundred thousand objects, and the last reference to it frees them all:
30 to 40 ms in one step of the loop. So its long arrays are held a little longer than it, and let go in turns.
"""

from __future__ import annotations

from moldau.ports import Tasks
from moldau.wire.schema import Message, Struct

AT_ONCE = 2_000
"""Items let go in one turn of the loop; longer arrays are held."""


def long_arrays(message: Message) -> list[list[object]]:
    """Copies of its arrays that have more than a turn's items, and of those in the items of its shorter ones."""
    found: list[list[object]] = []
    _gather(message, found)
    return found


def _gather(part: Struct, found: list[list[object]]) -> None:
    for field in type(part).fields:
        value = getattr(part, field.name, None)
        if not isinstance(value, list) or not value or not isinstance(value[0], Struct):
            continue
        if len(value) > AT_ONCE:
            found.append(list(value))
        else:
            for item in value:
                _gather(item, found)


def let_go(tasks: Tasks, held: list[list[object]]) -> None:
    """Let go of what was ``held``, some of it in each turn of the loop from the next one on."""
    if not held:
        return

    def step() -> None:
        last = held[-1]
        del last[-AT_ONCE:]
        if not last:
            held.pop()
        if held:
            tasks.call_soon(step)

    tasks.call_soon(step)
