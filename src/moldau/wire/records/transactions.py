"""Records of __transaction_state (KIP-98, KIP-890): Moldau writes none, and shows those of Kafka.

``key`` is the type that leads a record's key in the log; a value is led by its version.
"""

from __future__ import annotations

from moldau.wire.schema import Message, Struct, at


class TransactionLogKey(Message, key=0, versions=(0, 0), flexible=None):
    """Key of a transaction's state."""

    transactional_id: str = at(0, "string")


class TransactionLogValue(Message, key=0, versions=(0, 1), flexible=1):
    """A transaction's state."""

    class PartitionsSchema(Struct):
        topic: str = at(0, "string")
        partition_ids: list[int] = at(0, ["int32"])

    producer_id: int = at(0, "int64")
    previous_producer_id: int = at(1, "int64", tag=0, default=-1)
    next_producer_id: int = at(1, "int64", tag=1, default=-1)
    producer_epoch: int = at(0, "int16")
    next_producer_epoch: int = at(1, "int16", tag=3, default=-1)
    transaction_timeout_ms: int = at(0, "int32")
    transaction_status: int = at(0, "int8")
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = at(0, ["PartitionsSchema"], null=0)
    transaction_last_update_timestamp_ms: int = at(0, "int64")
    transaction_start_timestamp_ms: int = at(0, "int64")
    client_transaction_version: int = at(1, "int16", tag=2)
