"""What the cluster agreed on: metadata records, the image they fold into, deltas, snapshots, effective settings.

Start with ``image.py``. Nothing here decides; decisions are records made by ``moldau.controller``.
"""

from moldau.image.delta import Delta, PartitionDelta
from moldau.image.image import Image, Topic
from moldau.image.partition import NO_LEADER, NO_LEADER_CHANGE, Partition, Recovery
from moldau.image.registration import Broker, Controller, Endpoint, FeatureRange
from moldau.image.snapshot import image_from, image_hash, snapshot_records

__all__ = [
    "NO_LEADER", "NO_LEADER_CHANGE", "Broker", "Controller", "Delta", "Endpoint", "FeatureRange", "Image", "Partition",
    "PartitionDelta", "Recovery", "Topic", "image_from", "image_hash", "snapshot_records",
]  # fmt: skip
