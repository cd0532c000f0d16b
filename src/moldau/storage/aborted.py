"""A transaction that was aborted, as ``.txnindex`` files tell it. Read next: ``transactions.py``."""

from __future__ import annotations

from moldau.model.named import NamedTuple


class Aborted(NamedTuple):
    """A transaction that was aborted: its first record's offset, its marker's, and the first offset that was not
    decided once it had ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int
