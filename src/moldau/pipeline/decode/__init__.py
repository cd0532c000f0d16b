"""How the values of records become columns: on the driver a ``Decoding`` is planned, executors open it.

``ValueDecoder`` turns the values of a batch into rows and says of each that it could not read why. Read next: plan.py.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from moldau.model.protocol import Protocol


class DecodeError(Exception):
    """A schema that cannot be had or cannot be used: the whole pipeline cannot decode, and the message says why."""


class NotReadHere(DecodeError):
    """A schema that was not looked at, for a reason of this machine (no room, no time, a package that is not
    installed): it says nothing of the schema, nor of any value, and elsewhere or later it may be read."""


class Decoded(NamedTuple):
    """What became of a batch's values, in their order; all four have its length.

    ``rows`` is null where a value could not be read, ``errors`` (string) says why there and is null elsewhere.
    ``schema_ids`` (int32) is the registry's id in front of each value, null where there is none. ``drift`` (string) is
    what a value has beside the columns, null where nothing. A record without a value (null) is a row of nulls without
    an error: a tombstone.
    """

    rows: pa.StructArray
    errors: pa.StringArray
    schema_ids: pa.Int32Array
    drift: pa.StringArray


class ValueDecoder(Protocol):
    """Lives in one worker process for one task or longer; keeps the writers' schemas that it has asked for."""

    def decode(self, values: pa.BinaryArray) -> Decoded: ...


class Decoding(Protocol):
    """How to decode, pickled into tasks."""

    @property
    def schema(self) -> pa.Schema:
        """The columns; their types are Spark's (timestamps are microseconds in UTC)."""

    def open(self) -> ValueDecoder: ...
