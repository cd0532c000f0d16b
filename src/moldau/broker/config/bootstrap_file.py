"""The first records of a new cluster, as Apache Kafka's format tool wrote them: feature levels, SCRAM users.

A controller that finds its log empty begins with them, whichever program formatted its folder (KIP-778, KIP-900). What
``moldau storage format`` writes, metadata.version alone, says no more than that the cluster begins as ours do.
"""

from __future__ import annotations

import logging

from moldau.broker.config.storage_format import BOOTSTRAP, METADATA_VERSION
from moldau.controller.features import SUPPORTED
from moldau.model import Code
from moldau.ports import Disk
from moldau.wire.batch import check, headers, records
from moldau.wire.codec import Malformed
from moldau.wire.compression import BatchError
from moldau.wire.records.framing import unpack_metadata
from moldau.wire.records.metadata import FeatureLevelRecord
from moldau.wire.schema import Message

log = logging.getLogger(__name__)
_LEVELS = {feature.name: feature for feature in SUPPORTED}


def first_records(folder: str, disk: Disk) -> list[Message] | None:
    """What a new cluster of this metadata folder begins with; None: with what ours begin with."""
    path = f"{folder}/{BOOTSTRAP}"
    try:
        found = _read(disk.read(path)) if disk.exists(path) else []
    except (OSError, Malformed, BatchError) as error:
        log.error("%s cannot be read, and the cluster begins without what it says: %s", path, error)
        return None
    levels = {one.name: one.feature_level for one in found if isinstance(one, FeatureLevelRecord)}
    level = levels.get("metadata.version", 0)
    if not found or (len(found) == 1 and level == METADATA_VERSION):
        return None
    known = _LEVELS["metadata.version"]
    if level < known.low:
        log.error(
            "%s asks for metadata.version %d, and %d is the lowest here: the cluster begins at %d, without the rest",
            path, level, known.low, METADATA_VERSION,
        )  # fmt: skip
        return None
    return found


def _read(data: bytes) -> list[Message]:
    found = []
    for position, header in headers(data):
        if check(data, position, header) is not Code.NONE:
            raise BatchError(f"the checksum of the batch at byte {position} is wrong")
        if not header.is_control:
            found += [unpack_metadata(one.value) for one in records(data, position) if one.value is not None]
    return found
