"""A cluster on this machine moves from ZooKeeper to the quorum, and back: what ``moldau migrate`` does (KIP-866).

``steps.py`` does one step after the other, ``modes.py`` writes each node's properties for it. What nodes do is
``broker/migration/``; ``cluster/migration_drill/`` goes all the ways under load and judges.
"""
