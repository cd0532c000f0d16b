"""A batch on its way into a segment. Read next: ``log_validator.py`` (who makes it), ``segment.py`` (who takes it)."""

from __future__ import annotations

from moldau.model.named import NamedTuple


class BatchExtent(NamedTuple):
    """A batch about to be appended: its size in bytes, its offsets, its largest timestamp."""

    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
