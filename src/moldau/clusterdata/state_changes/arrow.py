"""State-change logs as Arrow batches: the lines of ``lines``, many at once.

What makes up most of a large log are a few sentences (``sentences``), whose lines are read by their shapes
(``shapes``); all other lines go the way of ``lines.fields_of``. Both say the same of a line, which tests compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.clusterdata.columns import Column, arrow_schema
from moldau.clusterdata.state_changes.lines import COLUMNS, FIELDS, FileRange, blocks, fields_of, text_of
from moldau.runtime.memory import keep_freed_buffers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from moldau.clusterdata.state_changes.shapes import ParsedLines, Shapes

BLOCK_BYTES = 1 << 21
"""Some thousand lines: what NumPy costs for each block, whatever its size, is little for each of them."""


def batches(of: FileRange, columns: tuple[Column, ...] = COLUMNS) -> Iterator[pa.RecordBatch]:
    """The lines of a range of a file, in their order, as batches with these of ``COLUMNS``."""
    from moldau.clusterdata.state_changes.shapes import Shapes

    keep_freed_buffers()
    shapes = Shapes(one.name for one in columns)
    for position, data in blocks(of, BLOCK_BYTES):
        yield batch(of.path, position, data, shapes, columns)


def batch(path: str, position: int, data: bytes, shapes: Shapes, asked: tuple[Column, ...] = COLUMNS) -> pa.RecordBatch:
    """Whole lines, of which the first begins at a byte of a file."""
    import numpy as np
    import pyarrow as pa

    schema = arrow_schema(asked)
    found = shapes.read(data)
    count = len(found.starts)
    others = np.flatnonzero(~found.taken)
    told = [fields_of(text_of(data[found.starts[at] : found.ends[at]])) for at in others]
    columns = _columns(data, found, schema)
    if "file" in schema.names:
        columns["file"] = pa.repeat(pa.scalar(path, pa.string()), count)
    if "position" in schema.names:
        columns["position"] = pa.array(found.starts + position)
    if "line" in schema.names:
        columns["line"] = _lines(data, found)
    if told:
        reasons = pa.array([reason for reason, _ in told], pa.string())
        where = np.arange(count)
        where[others] = count + np.arange(len(others))
        values = dict(zip(FIELDS, zip(*(values for _, values in told), strict=True), strict=True))
        for name in (name for name in ("reason", *FIELDS) if name in schema.names):
            more = reasons if name == "reason" else pa.array(values[name], schema.field(name).type)
            if name not in columns:
                columns[name] = pa.nulls(count, schema.field(name).type)
            if more.null_count < len(more) or columns[name].null_count < count:
                columns[name] = pa.concat_arrays([columns[name], more]).take(pa.array(where))
    none = {name: pa.nulls(count, schema.field(name).type) for name in schema.names if name not in columns}
    return pa.RecordBatch.from_arrays([(columns | none)[name] for name in schema.names], schema=schema)


def _lines(data: bytes, found: ParsedLines) -> pa.Array:
    """The lines as text; bytes that are no UTF-8 as ``text_of`` has them."""
    import numpy as np
    import pyarrow as pa

    try:
        data.decode()
    except UnicodeDecodeError:
        return pa.array(list(map(text_of, data.split(b"\n"))), pa.string())
    offsets = np.zeros(len(found.starts) + 1, np.int32)
    np.cumsum(found.ends - found.starts, out=offsets[1:])
    return pa.StringArray.from_buffers(len(found.starts), pa.py_buffer(offsets), pa.py_buffer(data.replace(b"\n", b"")))


def _columns(data: bytes, found: ParsedLines, schema: pa.Schema) -> dict[str, pa.Array]:
    """The columns that lines of known shapes have, as far as they are asked for; null in all other lines."""
    import numpy as np
    import pyarrow as pa

    from moldau.clusterdata.state_changes.shapes import TEXTS, TIME

    columns: dict[str, pa.Array] = {}
    if not found.taken.any():
        return columns
    buffer, absent = pa.py_buffer(data), ~found.taken
    if "time" in schema.names:
        columns["time"] = _slices(buffer, found.starts + TIME.start, found.starts + TIME.stop, absent)
    if "topic" in schema.names:
        columns["topic"] = _slices(buffer, *found.topic, absent)
    which = pa.array(found.text, mask=absent)
    for name, texts in zip(TEXTS, zip(*found.texts, strict=True), strict=True):
        if name in schema.names:
            columns[name] = pa.array(texts, pa.string()).take(which)
    for name, (numbers, there) in found.numbers.items():
        columns[name] = pa.array(numbers, mask=None if there.all() else ~there)
    for name, (counts, flat, there) in found.lists.items():
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        mask = None if there.all() else pa.array(~there)
        columns[name] = pa.ListArray.from_arrays(offsets, flat, mask=mask)
    assert all(columns[name].type == schema.field(name).type for name in columns)
    return columns


def _slices(
    buffer: pa.Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64], absent: NDArray[np.bool_]
) -> pa.Array:
    """Parts of a buffer, in its order, as texts: of all that is between its bounds every other piece."""
    import numpy as np
    import pyarrow as pa

    count = len(starts)
    bounds = np.zeros(2 * count + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = starts, ends
    bounds[0:-1:2][absent] = bounds[1::2][absent] = 0
    np.maximum.accumulate(bounds, out=bounds)
    pieces = pa.StringArray.from_buffers(2 * count, pa.py_buffer(bounds), buffer)
    return pieces.take(pa.array(np.arange(0, 2 * count, 2), mask=absent if absent.any() else None))
