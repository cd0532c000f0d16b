"""How a message says what it is: fields that know the versions they live in.

One class serves all versions of a message. A field is declared with ``at(first_version, type)``; the codec for a
(class, version) pair is generated on first use by ``moldau.wire.codec``. Nothing here reads or writes bytes: the codec
gives its two functions to ``use`` when it is imported, as the package itself does.
Source of the type system: the Kafka protocol guide and KIP-482 (flexible versions, tagged fields).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

from moldau.model.value import UNCOMPILED

Buffer = bytes | bytearray | memoryview
M = TypeVar("M", bound="Struct")
ResponseT = TypeVar("ResponseT", bound="Message")
"""The class of a response, for whoever passes requests on without looking into them."""
_Response = TypeVar("_Response", bound="Message", covariant=True)

FIXED = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}
"""Types of fixed size: struct letter and bytes."""

VARIABLE = frozenset({"string", "bytes", "records"})

_ZERO: dict[str, object] = {
    "bool": False,
    "float64": 0.0,
    "uuid": bytes(16),
    "string": "",
    "bytes": b"",
    "records": b"",
}

_UNSET: Any = object()


class Field:
    """One field: its type and the versions in which it is present, nullable, or tagged."""

    __slots__ = ("default", "name", "null", "since", "tag", "tagged", "type", "until")

    def __init__(self, since: int, type: Any) -> None:
        self.name = ""
        self.since = since
        self.until = 32767
        self.type = type
        self.null: int | None = None
        self.tag: int | None = None
        self.tagged: int = 32767
        self.default: Any = _UNSET

    def present(self, version: int) -> bool:
        return self.since <= version <= self.until

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version >= self.tagged

    def is_nullable(self, version: int) -> bool:
        return self.null is not None and version >= self.null

    @property
    def element(self) -> Any:
        """The element type of an array field, or None."""
        return self.type[0] if isinstance(self.type, list) else None

    def set_name(self, name: str) -> None:
        """Take a name; work out the default when none was given."""
        self.name = name
        if self.default is _UNSET:
            if isinstance(self.type, list):
                self.default = ()
            elif self.type in FIXED or self.type in VARIABLE:
                self.default = _ZERO.get(self.type, 0) if self.type != "records" or self.null is None else None
            else:
                self.default = None if self.null is not None else self.type

    def resolve(self, structs: dict[str, Any]) -> None:
        """Put the class in the place of a struct's name."""
        if isinstance(self.type, list):
            self.type = [structs.get(self.type[0], self.type[0])]
        elif self.type in structs:
            fresh = self.default == self.type and self.default is not None
            self.type = structs[self.type]
            if fresh:
                self.default = self.type


def at(since: int, type: Any, **options: Any) -> Any:
    """A field present from version ``since`` on.

    Args:
        since: first version that has the field.
        type: a name of FIXED or VARIABLE, the name of a Struct nested in the message, or a list of one such name.
        options: ``until`` last version; ``null`` first version in which None is allowed; ``tag`` number and ``tagged``
            first version in which the field is a tagged one; ``default``.
    """
    field = Field(since, type)
    for key, value in options.items():
        setattr(field, key, value)
    if field.tag is not None and "tagged" not in options:
        field.tagged = since
    return field


def _first_init(self: Struct, **values: Any) -> None:
    """Stands in for ``__init__`` until UNCOMPILED instances were made, or one was given what is no field: most classes
    of the protocol are never used in one process, and of most others a start makes one or two."""
    cls = self.__class__
    if next(cls._numbers) <= UNCOMPILED and values.keys() <= {field.name for field in cls.fields}:
        for field in cls.fields:
            default = field.default
            value = values.get(field.name, _LEFT_OUT)
            if isinstance(default, type) and (value is _LEFT_OUT or value is None):
                value = default()
            elif value is _LEFT_OUT:
                value = [] if default == () else default
            setattr(self, field.name, value)
        return
    cls.__init__ = make_init(cls)  # type: ignore[method-assign]
    cls.__init__(self, **values)


def make_init(cls: type[Struct]) -> Callable[..., None]:
    """The ``__init__`` of a message class: keywords only, fresh lists and structs."""
    env: dict[str, Any] = {}  # Any: defaults of every type, and then the function
    args, body = [], []
    for i, field in enumerate(cls.fields):
        if isinstance(field.default, type):
            env[f"D{i}"] = field.default
            args.append(f"{field.name}=None")
            # A struct left out is a default one; None stays None only where the field's own default is None.
            body.append(f"self.{field.name} = D{i}() if {field.name} is None else {field.name}")
        elif field.default == ():
            env[f"D{i}"] = _LEFT_OUT
            args.append(f"{field.name}=D{i}")
            body.append(f"self.{field.name} = [] if {field.name} is D{i} else {field.name}")
        else:
            env[f"D{i}"] = field.default
            args.append(f"{field.name}=D{i}")
            body.append(f"self.{field.name} = {field.name}")
    star = "*, " if args else ""
    source = f"def __init__(self, {star}{', '.join(args)}):\n    " + ("\n    ".join(body) or "pass")
    exec(source, env)
    return env["__init__"]  # type: ignore[no-any-return]


_LEFT_OUT = object()


class Struct:
    """A run of fields. Built with keywords (each has a default), compared by value, printed where not default."""

    fields: ClassVar[tuple[Field, ...]] = ()
    _numbers: ClassVar[Iterator[int]]
    """Numbers of the instances that are made before its ``__init__`` is compiled."""
    flexible: ClassVar[int] = 32767
    packs: ClassVar[bool] = False
    """Whether its arrays of structs may be given encoded (``codec.Packed``)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = []
        for name, value in list(cls.__dict__.items()):
            if isinstance(value, Field):
                value.set_name(name)
                found.append(value)
                if value.default is None or isinstance(value.default, (int, float, bytes)) or value.type == "string":
                    setattr(cls, name, value.default)  # stands for the field in versions that lack it
                else:
                    delattr(cls, name)  # lists and structs are never shared between messages
        cls.fields = tuple(found)
        cls._numbers = count(1)
        cls.__init__ = _first_init  # type: ignore[method-assign]

    def __init__(self, **values: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [
            f"{f.name}={getattr(self, f.name)!r}" for f in self.fields if not _same(getattr(self, f.name), _default(f))
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A whole request, response or record, with its api key (None for records) and versions."""

    api_key: ClassVar[int] = -1
    versions: ClassVar[tuple[int, int]] = (0, 0)
    _decoders: ClassVar[dict[int, Any]] = {}
    _encoders: ClassVar[dict[int, Any]] = {}

    def __init_subclass__(cls, *, key: int = -1, versions: tuple[int, int] = (0, 0), flexible: int | None = 0) -> None:
        super().__init_subclass__()
        cls.api_key = key
        cls.versions = versions
        cls.flexible = 32767 if flexible is None else flexible
        structs = {
            name: value for name, value in cls.__dict__.items() if isinstance(value, type) and issubclass(value, Struct)
        }
        for part in (cls, *structs.values()):
            for field in part.fields:
                field.resolve(structs)
        cls._decoders = {}
        cls._encoders = {}

    @classmethod
    def decode(cls: type[M], buffer: Buffer, version: int) -> M:
        """The message in ``buffer`` (exactly its bytes), or Malformed. Records fields are views into the buffer."""
        message: M = _codec[0](cls, buffer, version)
        return message

    def encode(self, version: int) -> bytes:
        """The bytes of this message (no header, no frame)."""
        return bytes(_codec[1](self, version, bytearray(), None))


class Request(Message, Generic[_Response]):
    """A request, with the class of its response as a type: who sends one is given a value of that class."""


_codec: list[Callable[..., Any]] = []  # Any: a message or its bytes


def use(decode: Callable[..., Any], encode: Callable[..., Any]) -> None:  # Any: a message or its bytes
    """Have ``Message.decode`` and ``Message.encode`` done by these functions of the codec."""
    _codec[:] = decode, encode


def _default(field: Field) -> object:
    if isinstance(field.default, type):
        return field.default()
    return [] if field.default == () else field.default


def _same(a: object, b: object) -> bool:
    if isinstance(a, memoryview) or isinstance(b, memoryview):
        return a is not None and b is not None and bytes(a) == bytes(b)  # type: ignore[call-overload]
    return a == b or (not isinstance(a, Struct) and a != a and b != b)  # noqa: PLR0124  # NaN equals itself here
