"""A transaction that was aborted, as ``.txnindex`` files tell it, and the marker of a transaction's end. Read next:
``transactions.py``.
"""

from __future__ import annotations

from struct import Struct

from moldau.model.named import NamedTuple
from moldau.wire.batch import BatchHeader, ControlType, control_type, records_of
from moldau.wire.compression import BatchError

_VALUE = Struct(">hi")


class AbortedTxn(NamedTuple):
    """A transaction that was aborted: its first record's offset, its marker's, and the first offset that was not
    decided once it had ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


class Marker(NamedTuple):
    """What the control batch says that ends a transaction, and which epoch of a coordinator had it written."""

    aborts: bool = False
    coordinator_epoch: int = -1


def read_marker(header: BatchHeader, records: bytes | bytearray | memoryview) -> Marker:
    """The marker in the ``records`` of a control batch; as far as they say something."""
    try:
        record = next(records_of(header, bytes(records)), None)
        if record is None:
            return Marker()
        aborts = control_type(record.key) == ControlType.ABORT
    except BatchError:
        return Marker()
    if record.value is None or len(record.value) < _VALUE.size:
        return Marker(aborts)
    return Marker(aborts, _VALUE.unpack_from(record.value)[1])
