"""The laws of a whole cluster, checked on real nodes while they run, and again at quiescence.

``data`` (S2 S3 S4 S7 S8 S9 S10 S12 S13 S14), ``control`` (C1 C2 C3 C4 C7 C8 C10 C11 C12 S10 S11) and ``quorum`` (R1 to
R10, C1, C5) look between turns of the loop, at committed batches and at steps, with the laws of ``moldau.replication``,
``moldau.controller`` and ``moldau.quorum`` on the machines inside the nodes; ``deletions`` (S20 S21 S1 S16) looks at a
topic whose records are deleted. ``rest`` checks at the end: histories (S1 S6 S15 S16 S19 L2), replicas byte for byte
(S5), groups (S18 L9), folders (C8 C9), administration (C13), liveness, one controller (L8). The ids are those of
docs/laws.md.
"""
