"""The classic group coordinator: members, generations, committed offsets. A ledger without I/O, a shard per partition.

Feed a ``Shard`` asks and events, carry out its effects in order; ``codec`` makes and reads what it stores. Members get
their partitions from each other (the leader assigns): the coordinator only keeps them together. Read next: shard.py.
"""

from moldau.groups.admin import STATES, TYPES
from moldau.groups.config import GroupsConfig
from moldau.groups.partition import java_hash, partition_for, weight
from moldau.groups.shard import Shard
from moldau.groups.state import Phase

__all__ = ["STATES", "TYPES", "GroupsConfig", "Phase", "Shard", "java_hash", "partition_for", "weight"]
