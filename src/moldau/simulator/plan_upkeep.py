"""Adds operators' work on controllers to a share of the plans: disks are replaced, levels of features are raised.

Drawn by an rng of its own. Decides nothing while the run goes on. Read next: controller_replacement.py,
feature_upgrades.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.image.snapshot import METADATA_VERSION
from moldau.simulator.plan import Plan
from moldau.simulator.scenes import REPLACED, UPGRADE

SHARES = {REPLACED: 0.12, UPGRADE: 0.2}
LOWER = (23, 24)


def with_upkeep(plan: Plan) -> Plan:
    """The plan, with more to do for its operators where its scene asks for it, or its rng draws it."""
    rng = random.Random(f"upkeep plan {plan.seed}")
    for scene, share in SHARES.items():
        drawn, of = rng.random() < share, random.Random(f"{scene} plan {plan.seed}")
        if plan.scene == scene or (plan.scene is None and drawn):
            plan = _DRAWN[scene](of, replace(plan, faults=tuple(dict.fromkeys((*plan.faults, scene)))))
    return plan


def _replaced(rng: random.Random, plan: Plan) -> Plan:
    """Where voters change, all vote at first: of one or two none can be removed."""
    return replace(plan, first_voters=tuple(plan.controllers) if plan.first_voters else ())


def _upgrade(rng: random.Random, plan: Plan) -> Plan:
    """All levels begin lower: with static voters too, where they are (kraft.version 0)."""
    return replace(plan, levels={METADATA_VERSION: rng.choice(LOWER)}, elr=plan.elr and rng.random() < 0.5)


_DRAWN = {REPLACED: _replaced, UPGRADE: _upgrade}
