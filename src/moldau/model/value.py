"""Values with named fields and slots that cost next to nothing to define.

``@value`` does for our classes what ``@dataclass(frozen=True, slots=True)`` does, and type checkers see it as such. The
stdlib writes and compiles five methods for every class when its module is loaded: 0.9 ms for each of the 73 values that
a broker loads, a quarter of the processor time of its start. Here a class gets methods that serve all classes, and its
``__init__`` is compiled when some instances were made; most asks and replies never are in one process, and of most
others a start makes one or two.
Not for hot paths, where a NamedTuple or a plain class with ``__slots__`` is made faster.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
UNCOMPILED = 8
"""So many instances of a class are made by code that serves all classes, which takes some microseconds longer for each;
to compile code for the class takes as long as 30 to 60 of them."""


class Fresh:
    """A default that is made anew for each instance."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A field whose default is made for each instance: ``names: list[str] = field(default_factory=list)``."""
    return Fresh(default_factory)


def replace(whole: T, /, **changes: object) -> T:
    """The same value with some fields changed; its checks run again. TypeError for a name that is no field."""
    cls: Any = type(whole)
    return cls(**{**{name: getattr(whole, name) for name in cls._names}, **changes})  # type: ignore[no-any-return]


@overload
def value(cls: type[T], /) -> type[T]: ...


@overload
def value(*, frozen: bool = True, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T] | None = None, /, *, frozen: bool = True, kw_only: bool = False) -> Any:
    """Make a class a value: its annotated names are slots, given by name, or by position too if not ``kw_only``, behind
    those of the value that it inherits from. A name that is annotated there already gets a narrower type here.

    ``frozen``: it refuses assignment, and can be hashed when its fields can. ``__post_init__`` checks what was given.

    >>> @value
    ... class Span:
    ...     start: int
    ...     end: int = 0
    >>> Span(3)
    Span(start=3, end=0)
    >>> Span(3) == Span(3, end=0)
    True
    """
    if cls is None:
        return lambda cls: _define(cls, frozen, kw_only)
    return _define(cls, frozen, kw_only)


def _define(plain: type, frozen: bool, kw_only: bool) -> type:
    body = {key: what for key, what in vars(plain).items() if key not in ("__dict__", "__weakref__")}
    base: Any = plain.__base__  # Any: its attributes are those that this function gives
    inherited: tuple[str, ...] = getattr(base, "_names", ())
    annotated = [name for name, kind in plain.__annotations__.items() if not str(kind).startswith("ClassVar")]
    own = tuple(name for name in annotated if name not in inherited)
    names = inherited + own
    defaults = {name: body.pop(name) for name in annotated if name in body}
    if inherited:
        defaults = base._init_of[0] | defaults
        if base._init_of[1] != frozen:
            raise TypeError(f"{plain.__name__} and {base.__name__}: either both are frozen, or neither")
    late = [name for name in own if name not in defaults]
    if late and not kw_only and any(name in defaults for name in inherited):
        raise TypeError(f"{plain.__name__}: {late[0]} has no default and comes behind {base.__name__}'s that have")
    body |= {
        "__slots__": own,
        "_names": names,
        "__match_args__": () if kw_only else names,
        "__init__": _first_init,
        "__eq__": _eq,
        "__hash__": _hash if frozen else None,
        "__reduce__": _reduce,
        "_init_of": (defaults, frozen, kw_only),
        "_numbers": count(1),
        "_parts": attrgetter(*names) if names else _no_parts,
    }
    body.setdefault("__repr__", _repr)
    if frozen:
        body |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    # Slots can only be given to a class as it is made, so it is made again.
    return type(plain)(plain.__name__, plain.__bases__, body)


def _first_init(self: Any, *values: object, **named: object) -> None:
    """Stands in for ``__init__`` until UNCOMPILED instances were made, or one was not given what it should be: the
    compiled one knows how to say that."""
    cls = type(self)
    if next(cls._numbers) <= UNCOMPILED and _is_filled(self, cls, values, named):
        if hasattr(cls, "__post_init__"):
            self.__post_init__()
        return
    cls.__init__ = _compiled_init(cls, *cls._init_of)
    cls.__init__(self, *values, **named)


def _is_filled(
    self: Any,  # Any: of whichever class
    cls: Any,  # Any: that class
    values: tuple[object, ...],
    named: dict[str, object],
) -> bool:
    """Set the fields as a compiled ``__init__`` would; whether what was given fits."""
    defaults, _, kw_only = cls._init_of
    names = cls._names
    if len(values) > len(names) or (values and kw_only):
        return False
    given = dict(zip(names, values, strict=False))
    if len(given) + len(named) != len(given | named) or not named.keys() <= set(names):
        return False
    given = defaults | given | named
    if len(given) != len(names):
        return False
    for name in names:
        what = given[name]
        if what is _LEFT_OUT or isinstance(what, Fresh):
            what = defaults[name].make()
        object.__setattr__(self, name, what)
    return True


def _compiled_init(cls: Any, defaults: dict[str, object], frozen: bool, kw_only: bool) -> Any:
    env: dict[str, Any] = {"_left_out": _LEFT_OUT}
    parameters, lines = ["self", "*"] if kw_only and cls._names else ["self"], []
    for name in cls._names:
        given, default = name, defaults.get(name, _LEFT_OUT)
        if isinstance(default, Fresh):
            env[f"_fresh_{name}"] = default.make
            given = f"_fresh_{name}() if {name} is _left_out else {name}"
            parameters.append(f"{name}=_left_out")
        elif default is not _LEFT_OUT:
            env[f"_default_{name}"] = default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        env[f"_set_{name}"] = getattr(cls, name).__set__  # the slot itself: a frozen class refuses ``self.name = ...``
        lines.append(f"    _set_{name}(self, {given})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or "    pass"), env)
    init = env["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


_LEFT_OUT: Any = object()


def _no_parts(self: object) -> tuple[()]:
    return ()


def _eq(self: Any, other: Any) -> Any:
    cls = self.__class__
    return cls._parts(self) == cls._parts(other) if other.__class__ is cls else NotImplemented


def _hash(self: Any) -> int:
    cls = self.__class__
    return hash((cls, cls._parts(self)))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
    return f"{type(self).__qualname__}({shown})"


def _reduce(self: Any) -> Any:
    return _rebuild, (type(self), {name: getattr(self, name) for name in self._names})


def _rebuild(cls: Any, fields: dict[str, object]) -> Any:
    """An instance from pickled fields: by name, since values may be keyword-only."""
    return cls(**fields)


def _refuse_set(self: object, name: str, value: object) -> None:
    raise AttributeError(f"cannot assign to field {name!r} of a {type(self).__name__}: it is a value")


def _refuse_delete(self: object, name: str) -> None:
    raise AttributeError(f"cannot delete field {name!r} of a {type(self).__name__}: it is a value")
