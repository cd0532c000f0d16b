"""Protobuf schemas: compiled from .proto text or read as a descriptor set, and the columns that a message has.

Compiling takes grpcio-tools (the compiler runs as a process of its own), the rest the protobuf package.
Read next: protobuf_values.py.
"""

from __future__ import annotations

import errno
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from moldau.pipeline.decode import DecodeError, NotReadHere

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Convert = Callable[[object], object]
"""Turns a field's value into what Arrow takes."""

COMPILE_SECONDS = 60
_UNSIGNED_64 = pa.decimal128(20, 0)
_SCALARS = {
    "double": pa.float64(), "float": pa.float32(), "int32": pa.int32(), "sint32": pa.int32(), "sfixed32": pa.int32(),
    "int64": pa.int64(), "sint64": pa.int64(), "sfixed64": pa.int64(), "uint32": pa.int64(), "fixed32": pa.int64(),
    "uint64": _UNSIGNED_64, "fixed64": _UNSIGNED_64, "bool": pa.bool_(), "string": pa.string(), "bytes": pa.binary(),
    "enum": pa.string(),
}  # fmt: skip
_WIDER = {
    "int32": ("int64",), "uint32": ("uint64", "int64"), "bool": ("int32", "int64", "uint32", "uint64"),
    "enum": ("int32", "int64"), "sint32": ("sint64",), "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip
"""What a reader may take a writer's type for: the same bytes then say the same value, or are refused."""
_KINDS = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message",
    "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
_TIMESTAMP = "google.protobuf.Timestamp"
_EARLIEST_S, _LATEST_S = -62_135_596_800, 253_402_300_799
_DEEPEST = 50


class FieldColumn(NamedTuple):
    """A field as a column: the name, its type, and how a value is read; ``optional`` fields may be unset."""

    name: str
    type: pa.DataType
    convert: Convert
    optional: bool


_NAME_ERRORS = (errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL)
"""What a file system says of a name that no file can have there; the rest it says of itself."""
_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:")
"""How a line of the compiler's log begins, with a time and the number of its process."""


def compile_proto(files: Mapping[str, str], main: str) -> bytes:
    """The descriptor set of ``main``, which may import the other files (by their names) and Google's own. NotReadHere
    where that is for this machine's reasons, not for theirs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in files.items():
            try:
                place = (folder / path).resolve()
                if not place.is_relative_to(folder.resolve()):
                    raise DecodeError(f"protobuf: {path!r} is no name of an import")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            except (OSError, ValueError) as error:  # the name: too long, a folder of another import, a NUL, ...
                if isinstance(error, OSError) and error.errno not in _NAME_ERRORS:
                    raise NotReadHere(f"protobuf: {path!r} cannot be written in {folder}: {error.strerror}") from None
                raise DecodeError(f"protobuf: {path!r} cannot be written as a file") from None
        return _compiled(folder, main)


def compile_file(path: Path) -> bytes:
    """The descriptor set of a .proto file, whose imports are beside it, or of a file that is one (.desc, .pb)."""
    if path.suffix != ".proto":
        try:
            return path.read_bytes()
        except OSError as error:
            raise DecodeError(f"decode: {path} cannot be read: {error}") from None
    if not path.is_file():
        raise DecodeError(f"decode: {path} cannot be read: there is no such file")
    return _compiled(path.parent, path.name)


def _compiled(folder: Path, main: str) -> bytes:
    found = importlib.util.find_spec("grpc_tools")
    if found is None or found.origin is None:
        raise NotReadHere("decode: .proto text needs grpcio-tools: pip install 'moldau[pipeline]'")
    own = Path(found.origin).absolute().parent / "_proto"
    with tempfile.TemporaryDirectory() as out:
        place = Path(out) / "set"
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", "-I.", f"-I{own}", "--include_imports",
                   f"--descriptor_set_out={place}", f"./{main}"]  # fmt: skip
        try:  # in the folder: the compiler takes '=' and ':' in a path for signs of its own
            ended = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=COMPILE_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise NotReadHere(f"protobuf: {main} was not compiled in {COMPILE_SECONDS} s") from None
        if ended.returncode < 0:
            raise NotReadHere(f"protobuf: the compiler of {main} was ended by signal {-ended.returncode}")
        if ended.returncode or not place.exists():
            lines = [
                one for one in ended.stderr.splitlines() if "warning" not in one.lower() and not _LOGGED.match(one)
            ]
            raise DecodeError(f"protobuf: {'; '.join(lines[:3]) or 'the compiler failed'}")
        return place.read_bytes()


class Schema:
    """The messages of a descriptor set, whose last file is the schema itself."""

    def __init__(self, descriptors: bytes) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool
        except ImportError:
            raise DecodeError("decode: protobuf needs the package protobuf: pip install 'moldau[pipeline]'") from None
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
            pool = descriptor_pool.DescriptorPool()
            for file in files:
                pool.Add(file)
            self._pool, self._main = pool, files[-1]
            pool.FindFileByName(self._main.name)
        except Exception as error:  # the package has no class for all that bytes may do to it
            raise DecodeError(f"protobuf: not a descriptor set: {type(error).__name__}: {error}") from None

    def message(self, name: str | None) -> Descriptor:
        """A message by its name, with or without the package; the first of the file without a name."""
        names = self.names()
        if name is None:
            if not names:
                raise DecodeError("protobuf: the schema has no message")
            name = names[0]
        wanted = [one for one in names if one == name or one.removeprefix(f"{self._main.package}.") == name]
        if not wanted:
            raise DecodeError(f"protobuf: there is no message {name!r}. Known are: {', '.join(names[:20])}.")
        return self._pool.FindMessageTypeByName(wanted[0])

    def at(self, indexes: Sequence[int]) -> Descriptor | None:
        """The message that a value's indexes name, None when there is none."""
        name, messages = self._main.package, self._main.message_type
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            name = f"{name}.{messages[index].name}".lstrip(".")
            messages = messages[index].nested_type
        return self._pool.FindMessageTypeByName(name)

    def names(self) -> list[str]:
        """The full names of all messages of the schema's own file, in its order."""
        found: list[str] = []

        def add(space: str, messages: Sequence[object]) -> None:
            for one in messages:
                if not one.options.map_entry:  # type: ignore[attr-defined]  # generated code has no types
                    full = f"{space}.{one.name}".lstrip(".")  # type: ignore[attr-defined]  # as above
                    found.append(full)
                    add(full, one.nested_type)  # type: ignore[attr-defined]  # as above

        add(self._main.package, self._main.message_type)
        return found


def columns(message: Descriptor, within: tuple[str, ...] = ()) -> list[FieldColumn]:
    """The columns of a message; DecodeError when one holds itself. Fields of empty messages are none."""
    if message.full_name in within or len(within) > _DEEPEST:
        raise DecodeError(f"protobuf: {message.full_name} is within itself: such a schema has no columns")
    inside = (*within, message.full_name)
    return [found for field in message.fields if (found := _column(field, inside)) is not None]


def reader(found: Sequence[FieldColumn]) -> Callable[[Message], dict[str, object]]:
    """Reads a message into the columns."""
    parts = tuple((one.name, one.optional, one.convert) for one in found)

    def read(message: Message) -> dict[str, object]:
        return {
            name: None if optional and not message.HasField(name) else convert(getattr(message, name))
            for name, optional, convert in parts
        }

    return read


def _column(field: FieldDescriptor, within: tuple[str, ...]) -> FieldColumn | None:
    if _is_map(field):
        key, value = (_single(one, within) for one in field.message_type.fields)
        if key is None or value is None:
            return None
        (key_type, _), (value_type, convert) = key, value
        return FieldColumn(field.name, pa.map_(key_type, value_type), _map_of(convert), False)
    one = _single(field, within)
    if one is None:
        return None
    kind, convert = one
    if field.is_repeated:
        return FieldColumn(field.name, pa.list_(kind), _list_of(convert), False)
    return FieldColumn(field.name, kind, convert, field.has_presence)


def _single(field: FieldDescriptor, within: tuple[str, ...]) -> tuple[pa.DataType, Convert] | None:
    """The type of one value of a field, and how it is read; None for a message without fields."""
    message = field.message_type
    if message is None:
        kind = _KINDS[field.type]
        if kind == "enum":
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return pa.string(), lambda value: names.get(value, str(value))
        return _SCALARS[kind], _same
    if message.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC"), _timestamp
    if message.full_name in _WRAPPERS:
        inner = _single(message.fields[0], within)
        assert inner is not None, "a wrapper has a value"
        return inner[0], lambda value: value.value
    if message.full_name in _JSON:
        return pa.string(), _json
    found = columns(message, within)
    return (pa.struct([(one.name, one.type) for one in found]), reader(found)) if found else None


def _same(value: object) -> object:
    return value


def _list_of(convert: Convert) -> Convert:
    return list if convert is _same else lambda value: [convert(one) for one in value]  # type: ignore[attr-defined, return-value]  # a list


def _map_of(convert: Convert) -> Convert:
    return lambda value: [(key, convert(one)) for key, one in value.items()]  # type: ignore[attr-defined]  # a map


def _timestamp(value: object) -> int:
    """Microseconds since 1970; ValueError outside of the years that a Timestamp may have."""
    seconds, nanos = value.seconds, value.nanos  # type: ignore[attr-defined]  # a Timestamp
    if not _EARLIEST_S <= seconds <= _LATEST_S or not 0 <= nanos < 1_000_000_000:
        raise ValueError(f"{seconds} s and {nanos} ns are not a Timestamp")
    return int(seconds) * 1_000_000 + int(nanos) // 1000


def _json(value: object) -> str:
    from google.protobuf import json_format

    text: str = json_format.MessageToJson(value, indent=None)
    return text


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def more_fields(
    writer: Descriptor, reader: Descriptor, path: str = "", seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Paths of fields that the writer's message has and the reader's has not, by their numbers."""
    if writer.full_name in seen:
        return
    for field in writer.fields:
        there = reader.fields_by_number.get(field.number)
        if there is None:
            yield path + field.name
        elif field.message_type is not None and there.message_type is not None:
            yield from more_fields(
                field.message_type, there.message_type, f"{path}{there.name}.", seen | {writer.full_name}
            )


def other_kind(
    writer: Descriptor, reader: Descriptor, path: str = "", seen: frozenset[str] = frozenset()
) -> str | None:
    """The first field, by number, whose bytes would be taken for another value, in words; None when there is none."""
    if writer.full_name in seen:
        return None
    for field in writer.fields:
        there = reader.fields_by_number.get(field.number)
        if there is None:
            continue
        ours, theirs = _KINDS[there.type], _KINDS[field.type]
        if ours != theirs and ours not in _WIDER.get(theirs, ()):
            return f"{path}{there.name}: written as {theirs}, and the column is {ours}"
        if field.is_repeated and not there.is_repeated:
            return f"{path}{there.name}: written as a list, and the column is none"
        if field.message_type is not None and there.message_type is not None:
            inner = other_kind(
                field.message_type, there.message_type, f"{path}{there.name}.", seen | {writer.full_name}
            )
            if inner is not None:
                return inner
    return None
