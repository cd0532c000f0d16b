"""The laws of a whole cluster, judged by looking at real nodes while they run, and again when all is quiet.

``data`` (S2 S3 S4 S7 S8 S9 S12 S13 S14), ``control`` (C1 C2 C3 C7 C8 C10 C11), ``quorum`` (R1 R2 R3 R4 R5 R8 C1) look
between turns of the loop and at committed batches, with the rooms' own laws on the machines inside the nodes. ``rest``
judges at the end: histories (S1 S6 S15 S16 S19 L2), replicas byte for byte (S5), groups (S18), folders (C8 C9),
administration (C13), liveness. The ids are those of docs/trust.md.
"""
