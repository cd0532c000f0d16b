"""Puts brokers into racks, and readers near them, in a share of the plans or with the scene ``followers``.

Leaders send a reader to the follower in its rack (KIP-392). In each rack one reads the first topic, and one what is
committed where there are transactions. Drawn by an rng of its own. Decides nothing while the run goes on. Read next:
laws/reads.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from moldau.simulator.plan import Plan

SHARE = 0.2
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def with_racks(plan: Plan, *, always: bool = False) -> Plan:
    """Return the plan, with racks where its rng draws them, or ``always``."""
    rng = random.Random(f"racks plan {plan.seed}")
    drawn = plan.scene is None and rng.random() < SHARE
    if not drawn and not always:
        return plan
    racks = ("a", "b", "c")[: rng.choice((2, 2, 3))]
    first = rng.randrange(len(racks))
    of = {id: racks[(first + at) % len(racks)] for at, id in enumerate(plan.brokers)}
    return replace(plan, racks=of, settings={**plan.settings, "replica.selector.class": SELECTOR})
