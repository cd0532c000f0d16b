"""How much one decision may write: its records are one batch of the metadata log, which every node keeps and rereads.

Who names more things than may be written in one operation is refused before they are looked at.
Apache Kafka's controller appends no batch of more than 8 MiB, and says RECORD_LIST_TOO_LARGE to whoever asks for one.
Without a bound one request for settings of 90 MB would make a batch that no fetch with a time limit gets through.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.controller.replies import Refused
from moldau.controller.requests import (
    AlterConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    IncrementalAlterConfigs,
)
from moldau.model import Code
from moldau.wire.codec import Malformed
from moldau.wire.records.framing import pack_metadata
from moldau.wire.records.metadata import NoOpRecord, PartitionChangeRecord, PartitionRecord
from moldau.wire.schema import Message

BATCH_BYTES_MAX = 8 << 20
OF_OUR_OWN = (NoOpRecord, PartitionRecord, PartitionChangeRecord)
"""Records without any text of a client's: small, many, and cut into parts by whoever decides them."""


def too_many(request: object, most: int) -> Refused | None:
    """Why a request names too many things, if it does: told before any is looked at, for all of a request is decided in
    one step of the loop. A topic that is made writes two records at least.
    """
    if isinstance(request, CreateTopics):
        count = 2 * len(request.topics)
    elif isinstance(request, CreatePartitions | DeleteTopics):
        count = len(request.topics)
    elif isinstance(request, AlterConfigs | IncrementalAlterConfigs):
        count = len(request.resources)
    else:
        return None
    if count <= most:
        return None
    return Refused(Code.POLICY_VIOLATION, f"The request would write more than {most} records: divide it into several.")


def too_large(records: Sequence[Message]) -> Refused | None:
    """Why these records cannot be written, if they cannot; what clients put into them is measured, not guessed."""
    size = 0
    for record in records:
        if isinstance(record, OF_OUR_OWN):
            continue
        try:
            size += len(pack_metadata(record))
        except Malformed as error:
            return Refused(Code.INVALID_REQUEST, f"No record can hold it: {error}")
        if size > BATCH_BYTES_MAX:
            return Refused(
                Code.RECORD_LIST_TOO_LARGE,
                f"The request would write more than {BATCH_BYTES_MAX} bytes of metadata: divide it into several.",
            )
    return None
