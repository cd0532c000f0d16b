"""The names of planes and faults, for the command line; what each does is in faults.py and faults_zookeeper.py.
Imports nothing: help is fast.
"""

QUORUM, ZOOKEEPER = "quorum", "zookeeper"
COMPACTION, DAMAGED, LOST_SEGMENT = "compaction", "damaged-segment", "lost-segment"
KEYED = (COMPACTION, DAMAGED)
"""What only runs with a compacted topic have."""
REPLACED, UPGRADE = "replaced-disk", "upgrade"

SCENES = (
    "kill", "pause", "isolate", "one-way", "power", "break", "halves", "clog", "stop", "clock", "slow-disk",
    "hung-disk", "disk-full", "disk-error", "moves",
    "rot", "blackout", "stalled-writes", "compaction", "replaced-disk", "upgrade",
    "damaged-segment", LOST_SEGMENT,
)  # fmt: skip
DRAWN = SCENES[:-5]
"""What any run may draw; ``compaction`` and ``damaged-segment`` ask for a topic of their own too (plan_keyed.py), the
two between for controllers that have a log (plan_upkeep.py). ``lost-segment`` comes when it is asked for."""
RARER = DRAWN[-3:]
"""What came later, drawn by an rng of its own."""
UPKEEP = (REPLACED, UPGRADE)
"""What only KRaft mode has."""
ZOOKEEPER_SCENES = (
    "expire", "expire-controller", "no-zookeeper", "ensemble-leader", "ensemble-away", "lag", "lost-answers", "tools",
    "unseen", "damaged-znodes",
)  # fmt: skip
"""Faults that only ZooKeeper mode has."""
MIXED = "mixed"
"""Some brokers go by Apache Kafka's rules; faults are drawn as in any run of ZooKeeper mode."""
PIPELINED = "pipelined"
"""A producer with several requests under way is there; faults are drawn as in any run."""
DELETIONS = "deletions"
"""A client deletes records of a topic of its own while nodes die; comes when it is asked for."""
TRANSACTIONS = "transactions"
"""Transactional producers write to a topic of their own; faults are drawn as in any run."""
FOLLOWERS = "followers"
"""Brokers stand in racks, and readers read from followers in theirs; faults are drawn as in any run."""
OF_CLIENTS = (PIPELINED, DELETIONS, TRANSACTIONS, FOLLOWERS)
"""Scenes that bring clients of another kind, and no kind of fault."""
RARER_ON_ZOOKEEPER = (*RARER, "unseen", "damaged-znodes")
