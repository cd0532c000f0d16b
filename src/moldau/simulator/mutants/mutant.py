"""``Mutant``: one known mistake, and how it is put into force and taken back.

``laws`` are the invariants of which one must break. ``bug`` is Kafka's issue or KIP, or the paper that the mistake is
against; "own" where Moldau promises more than Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

_MISSING = object()


class Patches:
    """Changes of modules, classes and tables that end with the ``with`` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()

    def set(self, where: Any, name: str, value: Any) -> None:
        """Put ``value`` in the place of an attribute that is there."""
        assert hasattr(where, name), f"{where} has no {name}: the mutant changes nothing"
        held = vars(where).get(name, _MISSING)
        if held is _MISSING:
            self._undo.append(lambda: delattr(where, name))
        else:
            self._undo.append(lambda: setattr(where, name, held))
        setattr(where, name, value)

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Put ``value`` in the place of an entry that is there."""
        held = table[key]
        self._undo.append(lambda: table.__setitem__(key, held))
        table[key] = value


class Mutant(NamedTuple):
    """A mistake: whose, what it changes (a sentence), the machine whose world must show it, the laws that may object.

    ``first``: a seed that shows it, where that takes many; tests begin there, hunts do not.
    """

    bug: str
    what: str
    machine: str
    laws: tuple[str, ...]
    patch: Callable[[Patches], None]
    first: int = 0

    @property
    def name(self) -> str:
        return self.patch.__name__
