"""Avro values as columns, with a schema registry's 5-byte prefix or from one schema file.

A value is read with its writer's schema and resolved to the schema that gives the columns, as Avro's specification
says. Nothing that stands in a value fails more than that value; a registry that cannot be reached fails the task.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from moldau.pipeline.decode import Decoded, DecodeError
from moldau.pipeline.decode.avro_defaults import drop_unread, fill_defaults
from moldau.pipeline.decode.avro_schema import for_fastavro, more_fields, other_unit, read_schema
from moldau.pipeline.decode.avro_unions import members
from moldau.pipeline.decode.prefixed import PREFIX_BYTES, DecodedValue, Writers, WriterSchema, decoded, drift_of
from moldau.pipeline.registry.client import RegisteredSchema, Registry, RegistryError

_SINGLE_OBJECT = b"\xc3\x01"


@dataclass(frozen=True, slots=True)
class AvroDecoding:
    """The reader's schema, the last of ``texts`` (it uses those before), and the registry where ids are asked."""

    texts: tuple[str, ...]
    registry: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(_final(read_schema(list(self.texts)).arrow())))

    def open(self) -> AvroDecoder:
        return AvroDecoder(self, None if self.registry is None else Registry(self.registry))


def plan_avro_registry(url: str, subject: str, version: int | None = None) -> AvroDecoding:
    """Values with the registry's prefix, as the columns of a subject's version; DecodeError when they cannot be had."""
    try:
        registry = Registry(url)
        found = registry.by_subject(subject, version)
        if found.kind != "AVRO":
            raise DecodeError(f"decode: the schema of {subject!r} is {found.kind}, not AVRO")
        return _planned(AvroDecoding(tuple(registry.with_references(found)), url))
    except RegistryError as error:
        raise DecodeError(f"decode: {error}") from None


def plan_avro_file(path: Path) -> AvroDecoding:
    """Values without a registry, plain or in the single-object encoding, as the columns of an .avsc file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DecodeError(f"decode: {path} cannot be read: {error}") from None
    return _planned(AvroDecoding((text,)))


def _planned(decoding: AvroDecoding) -> AvroDecoding:
    """The decoding, after everything in it was built once, so that what cannot work fails on the driver."""
    if read_schema(list(decoding.texts)).kind != "record":
        raise DecodeError("decode: an Avro schema that is no record has no columns")
    decoding.open()
    assert decoding.schema is not None
    return decoding


class AvroDecoder:
    """Decodes batches in one process, and keeps the writers' schemas."""

    def __init__(
        self, decoding: AvroDecoding, registry: Registry | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            import fastavro
        except ImportError:
            raise DecodeError("decode: avro needs fastavro: pip install 'moldau[pipeline]'") from None
        self._read = fastavro.schemaless_reader
        self._tree = read_schema(list(decoding.texts))
        self._raw, self._arrow = self._tree.raw_arrow(), self._tree.arrow()
        self._as_written, _ = _parsed(decoding.texts)
        self._reader, named = _parsed(decoding.texts)
        fill_defaults(named)
        self._registry = registry
        self._writers = None if registry is None else Writers(registry, "AVRO", self._writer, clock)
        self._convert = members(self._tree)
        self._options = {} if self._convert is None else {"return_record_name": True, "return_named_type": True}
        canonical = fastavro.schema.to_parsing_canonical_form(self._reader)  # type: ignore[arg-type]  # parsed
        code = fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")
        self._single = _SINGLE_OBJECT + bytes.fromhex(code)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """The rows of the values; RegistryError when an id is not known here and the registry cannot be asked."""
        return decoded(values, self._plain if self._writers is None else self._prefixed, self._column)

    def _prefixed(self, value: bytes) -> DecodedValue:
        assert self._writers is not None
        number, writer = self._writers.of(value)
        if writer.error is not None:
            return DecodedValue(None, writer.error, number)
        record, error = self._record(value, PREFIX_BYTES, writer.schema)
        return DecodedValue(record, error, number, writer.drift)

    def _plain(self, value: bytes) -> DecodedValue:
        start = len(self._single) if value.startswith(self._single) else 0
        record, error = self._record(value, start, self._reader)
        if error is not None and start == 0 and value.startswith(_SINGLE_OBJECT):
            error = "the single-object encoding names another schema than the file's"
        return DecodedValue(record, error)

    def _record(self, value: bytes, start: int, writer: object) -> tuple[object, str | None]:
        stream = io.BytesIO(value)
        stream.seek(start)
        try:
            record: object = self._read(stream, writer, self._reader, **self._options)  # type: ignore[arg-type]  # parsed
            converted = record if self._convert is None else self._convert(record)
        except Exception as error:  # garbage raises whatever a reader of bytes can raise: it costs this value alone
            return None, f"not Avro of this schema: {type(error).__name__}: {str(error)[:200]}".rstrip(": ")
        if stream.tell() != len(value):
            return None, f"not Avro of this schema: {len(value) - stream.tell()} bytes are left over"
        return converted, None

    def _writer(self, found: RegisteredSchema) -> WriterSchema[object]:
        assert self._registry is not None
        texts = self._registry.with_references(found)
        tree = read_schema(texts)
        problem, (parsed, named) = other_unit(tree, self._tree), _parsed(texts)
        if problem is not None:
            raise DecodeError(problem)
        if parsed == self._as_written:  # fastavro resolves nothing then, which takes less time
            parsed = self._reader
        drop_unread(named)
        return WriterSchema(parsed, None, drift_of(list(more_fields(tree, self._tree))))

    def _column(self, records: Sequence[object]) -> pa.StructArray:
        return pa.array(records, self._raw).cast(self._arrow).cast(_final(self._arrow))


def _parsed(texts: Sequence[str]) -> tuple[object, Mapping[str, object]]:
    """The last schema as fastavro keeps it, and all named types of it; DecodeError when fastavro refuses it."""
    import fastavro

    named: dict[str, dict[str, object]] = {}
    found: object = None
    for text in texts:
        try:
            schema = for_fastavro(json.loads(text))
            found = fastavro.parse_schema(schema, named_schemas=named)  # type: ignore[arg-type]  # any JSON
        except Exception as error:  # fastavro raises its own errors, and KeyError or TypeError for what is no schema
            raise DecodeError(f"avro: not an Avro schema: {type(error).__name__}: {error}") from None
    return found, named


def _final(kind: pa.DataType) -> pa.DataType:
    """The type with its milliseconds as microseconds, which are Spark's."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _final(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_final(kind.value_type))
    return pa.map_(kind.key_type, _final(kind.item_type)) if pa.types.is_map(kind) else kind
