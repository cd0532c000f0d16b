"""``NamedTuple``, the same as typing's to every type checker, at an eighth of what typing's costs to define.

typing.NamedTuple compiles a ``__new__`` and, under postponed annotations, one expression for each field when its class
is made: 0.18 ms for each of the 160 classes that a broker loads, a fifth of the processor time of its start. Here
``__new__`` is compiled when some instances were made. What differs: nothing that a class of ours does (an instance
could be given other attributes, which type checkers refuse). Values that want checks or slots: ``value.py``.
"""

from __future__ import annotations

import collections
from itertools import count
from typing import TYPE_CHECKING, Any

from moldau.model.value import UNCOMPILED

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class NamedTuple(tuple):
        """A tuple whose items have names: ``class Span(NamedTuple): start: int; end: int = 0``."""

        __slots__ = ()
        _fields = ()

        def __init_subclass__(cls) -> None:
            body = cls.__dict__
            names = tuple(cls.__annotations__)
            defaults = {name: body[name] for name in names if name in body}
            assert tuple(defaults) == names[len(names) - len(defaults) :], "a field without default after one with"
            cls._fields = cls.__match_args__ = names
            cls._field_defaults = defaults
            cls._numbers = count(1)
            cls.__new__ = _first_new
            while len(_ITEMS) < len(names):
                _ITEMS.extend(_items_of(2 * len(_ITEMS) or 16)[len(_ITEMS) :])
            for name, item in zip(names, _ITEMS, strict=False):
                setattr(cls, name, item)

        @classmethod
        def _make(cls, items):
            made = tuple.__new__(cls, items)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, got {len(made)}")
            return made

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no fields {list(changes)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join(f"{name}={item!r}" for name, item in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)


def _items_of(count: int) -> list[Any]:  # Any: descriptors have no type of their own
    """Return what reads the first, the second ... item of a tuple: descriptors of a class that namedtuple makes."""
    make: Any = collections.namedtuple  # Any: its type wants the names written out
    fields = make("fields", [f"field_{at}" for at in range(count)])
    return [vars(fields)[name] for name in fields._fields]


_ITEMS: list[Any] = []  # Any: as ``_items_of`` returns
"""Descriptors that all classes share: each knows its place in the tuple, and nothing of the class."""


def _first_new(cls: Any, *items: object, **named: object) -> Any:
    """Stands in for ``__new__`` until UNCOMPILED instances were made, or one was not given what it should be: the
    compiled one knows how to say that."""
    names = cls._fields
    if next(cls._numbers) <= UNCOMPILED:
        given = dict(zip(names, items, strict=False))
        if len(items) <= len(names) and len(given) + len(named) == len(given | named):
            given = cls._field_defaults | given | named
            if given.keys() == set(names):
                return tuple.__new__(cls, [given[name] for name in names])
    env: dict[str, Any] = {"make": tuple.__new__}
    parameters = ["cls"]
    for name in names:
        if name in cls._field_defaults:
            env[f"_default_{name}"] = cls._field_defaults[name]
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
    exec(f"def __new__({', '.join(parameters)}): return make(cls, ({''.join(f'{name}, ' for name in names)}))", env)
    cls.__new__ = env["__new__"]
    return cls.__new__(cls, *items, **named)
