"""Tier A: the pure machines alone in one heap of events: no asyncio, no bytes, thousands of seeds a minute.

One simulation a machine (quorum, replication, controller, active_controller, groups). Each draws all it does from its
seed, runs a fault phase first (safety), then heals only a core, which must converge (liveness). Laws are run after
every event. Read next: record.py (what a run leaves behind), seeds.py (run one), small.py (small scopes searched
whole), ``simulator.mutants`` (known bugs that the laws must catch).
"""
