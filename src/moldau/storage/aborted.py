"""A transaction that was aborted, as ``.txnindex`` files tell it, and the marker of its end. Read next:
``transactions.py``.
"""

from __future__ import annotations

from moldau.model.named import NamedTuple
from moldau.storage.raw_records import scan
from moldau.wire.batch import control_type
from moldau.wire.compression import BatchError

_ABORT = 0


class AbortedTxn(NamedTuple):
    """A transaction that was aborted: its first record's offset, its marker's, and the first offset that was not
    decided once it had ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


def is_abort(records: bytes | bytearray | memoryview) -> bool:
    """Whether the records of a control batch are the marker of an abort."""
    try:
        return control_type(next(scan(bytes(records), 1))[5]) == _ABORT
    except BatchError:
        return False
