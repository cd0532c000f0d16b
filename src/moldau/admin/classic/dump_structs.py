"""Messages as the classes that Kafka generates read them, damaged ones too: what they make of the bytes, and their
words where they fail.

`moldau.wire` refuses more: tagged fields of another length than they say, text that is no UTF-8. It is asked first,
as it is faster.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TypeVar

from moldau.admin.classic.dump_streams import UNDERFLOW
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.java_values import java_text
from moldau.admin.classic.kafka_errors import PACKAGE
from moldau.wire.codec import STRING_BYTES_MAX, Malformed, decode_from
from moldau.wire.records.as_json import camel
from moldau.wire.schema import FIXED, Field, Message, Struct

RUNTIME_ERROR = "java.lang.RuntimeException"
M = TypeVar("M", bound=Message)


def fields_version(kind: type[Message], version: int) -> int:
    """The version whose fields a message of this version has, which may be one that there is not."""
    return max(kind.versions[0], min(version, kind.versions[1]))


def read_message(kind: type[M], data: bytes, version: int) -> tuple[M, int]:
    """The message that the data begin with, and its size; JavaError where Kafka's reader fails."""
    of_fields = fields_version(kind, version)
    if of_fields >= version and not _has_later_tags(kind, of_fields):  # type: ignore[arg-type]  # a class has a hash
        try:
            return decode_from(kind, memoryview(data), 0, of_fields)
        except Malformed:
            pass  # read again below, which ends where Kafka's classes do, and in their words
    reader = _Reader(data, of_fields, kind.flexible, version)
    return reader.struct(kind), reader.at


@cache
def _has_later_tags(kind: type[Struct], version: int) -> bool:
    """Whether there are tagged fields of newer versions, which `moldau.wire` reads over, and Kafka refuses."""
    parts = (field.type[0] if isinstance(field.type, list) else field.type for field in kind.fields)
    return any(field.tag is not None and not field.is_tagged(version) for field in kind.fields) or any(
        _has_later_tags(part, version) for part in parts if isinstance(part, type)
    )


S = TypeVar("S", bound=Struct)


class _Reader:
    """Reads the fields of a message one after the other. ``named``: the version that it is said to have."""

    def __init__(self, data: bytes, version: int, flexible: int, named: int) -> None:
        self._data = data
        self._version = version
        self._flexible = version >= flexible
        self._named = named
        self.at = 0

    def struct(self, kind: type[S]) -> S:
        """A struct, and the tagged fields at its end; those that are not known are left out."""
        made = kind()
        present = [field for field in kind.fields if field.present(self._version)]
        for field in present:
            if not field.is_tagged(self._version):
                setattr(made, field.name, self._field(field))
        if self._flexible:
            tagged = {field.tag: field for field in kind.fields if field.tag is not None}
            for _ in range(self._varint()):
                tag, size = self._varint(), self._varint()
                if (known := tagged.get(tag)) is None:
                    self._take(size)
                elif known.is_tagged(self._version):  # Kafka does not look at the size
                    setattr(made, known.name, self._field(known))
                else:
                    raise JavaError(RUNTIME_ERROR, f"Tag {tag} is not valid for version {self._named}")
        return made

    def _field(self, field: Field) -> object:
        name, nullable = camel(field.name), field.is_nullable(self._version)
        if isinstance(field.type, list):
            return self._array(field.type[0], name, nullable)
        if isinstance(field.type, str):
            return self._one(field.type, name, nullable)
        if nullable and (self._varint() <= 0 if field.is_tagged(self._version) else self._number("b", 1) < 0):
            return None
        return self._part(field.type)

    def _part(self, kind: type[Struct]) -> Struct:
        """A struct within the message: of a newer version than there is, Kafka reads none."""
        if self._named > self._version:
            text = f"Can't read version {self._named} of {kind.__name__}"
            raise JavaError(f"{PACKAGE}UnsupportedVersionException", text)
        return self.struct(kind)

    def _array(self, element: str | type[Struct], name: str, nullable: bool) -> list[object] | None:
        count = self._length("i", 4)
        if count < 0:
            _check_null(name, nullable)
            return None
        if count > (left := self._left):
            why = f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            raise JavaError(RUNTIME_ERROR, why)
        one = f"{name} element"
        return [
            self._one(element, one, False) if isinstance(element, str) else self._part(element) for _ in range(count)
        ]

    def _one(self, kind: str, name: str, nullable: bool) -> object:
        if kind == "uuid":
            return self._fixed("16s", 16)
        if kind in FIXED:
            return self._fixed(*FIXED[kind])
        size = self._length("h", 2) if kind == "string" else self._length("i", 4)
        if size < 0:
            _check_null(name, nullable)
            return None
        if kind != "string":
            return self._take(size)
        if size > STRING_BYTES_MAX:
            raise JavaError(RUNTIME_ERROR, f"string field {name} had invalid length {size}")
        return java_text(self._take(size))

    def _length(self, code: str, size: int) -> int:
        """A length or a count: -1 or less for none."""
        return _int(self._varint() - 1) if self._flexible else self._number(code, size)

    @property
    def _left(self) -> int:
        return len(self._data) - self.at

    def _fixed(self, code: str, size: int) -> object:
        if size > self._left:
            raise JavaError(UNDERFLOW, None)
        self.at += size
        return struct.unpack_from(f">{code}", self._data, self.at - size)[0]

    def _number(self, code: str, size: int) -> int:
        found = self._fixed(code, size)
        assert isinstance(found, int)
        return found

    def _take(self, size: int) -> bytes:
        if size > self._left:
            why = f"Error reading byte array of {size} byte(s): only {self._left} byte(s) available"
            raise JavaError(RUNTIME_ERROR, why)
        if size < 0:
            raise JavaError("java.lang.NegativeArraySizeException", str(size))
        self.at += size
        return self._data[self.at - size : self.at]

    def _varint(self) -> int:
        """An unsigned varint as Java holds it: one of more than 31 bits is below 0."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self._number("B", 1)
            number |= (byte & 127) << shift
            if byte < 128:
                return _int(number)
        text = "Varint is too long, the most significant bit in the 5th byte is set, converted value: "
        raise illegal_argument(f"{text}{(number | byte << 28) & 0xFFFFFFFF:x}")


def _check_null(name: str, nullable: bool) -> None:
    if not nullable:
        raise JavaError(RUNTIME_ERROR, f"non-nullable field {name} was serialized as null")


def _int(number: int) -> int:
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000
