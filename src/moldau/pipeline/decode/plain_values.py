"""Values as they are: text in UTF-8, or bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from moldau.pipeline.decode import Decoded

NAME = "value"


@dataclass(frozen=True, slots=True)
class PlainDecoding:
    """One column ``value``: ``string`` or ``binary``."""

    text: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(NAME, pa.string() if self.text else pa.binary())])

    def open(self) -> PlainDecoding:
        return self

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """The values; as text those that are not UTF-8 have none."""
        count = len(values)
        errors: list[str | None] = [None] * count
        column = values
        if self.text:
            try:
                column = values.cast(pa.string())
            except pa.ArrowInvalid:
                column = pa.array([self._text(value, at, errors) for at, value in enumerate(values)], pa.string())
        failed = pa.array([one is not None for one in errors], pa.bool_())
        return Decoded(
            rows=pa.StructArray.from_arrays([column], [NAME], mask=failed),
            errors=pa.array(errors, pa.string()),
            schema_ids=pa.nulls(count, pa.int32()),
            drift=pa.nulls(count, pa.string()),
        )

    def _text(self, value: pa.BinaryScalar, at: int, errors: list[str | None]) -> str | None:
        if not value.is_valid:
            return None
        try:
            return str(value.as_buffer().to_pybytes(), "utf-8")
        except UnicodeDecodeError as error:
            errors[at] = f"not UTF-8: byte {error.start}"
            return None
