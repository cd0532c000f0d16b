"""What must hold between two steps of a migration, one function each: before, event, after, effects -> a fault or None.

Run in tests after every event. Sources: KIP-866; invariants C4 (decided by one controller only), Z1 and Z4 (every write
fenced), C10 (nothing of an old controller acts afterwards).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.broker.migration.stages import (
    Action,
    Claimed,
    Copied,
    Counted,
    Effect,
    Event,
    MigrationMachine,
    MigrationRules,
    MigrationStage,
    RulesNoMore,
)
from moldau.controller.migration import MigrationState

Law = Callable[[MigrationMachine, Event, MigrationMachine, Sequence[Effect]], str | None]

WORK = frozenset({Action.COUNT, Action.CLAIM, Action.COPY, Action.COMPARE})


def one_action_at_a_time(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """The end of an action is the next event: two under way would race."""
    under_way = [effect for effect in effects if effect in WORK or effect is Action.PAUSE]
    return f"{under_way} at once" if len(under_way) > 1 else None


def only_who_rules_acts(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """C10: off, nothing is done but falling silent; giving up the controller role stops writer and channels."""
    if after.stage is MigrationStage.OFF and set(effects) & (WORK | {Action.SEND, Action.PAUSE}):
        return f"{effects} without a controller role"
    left = isinstance(event, RulesNoMore) and before.stage is not MigrationStage.OFF
    if left and not {Action.STOP_WRITING, Action.STOP_SENDING} <= set(effects):
        return "the controller role ended, and something of it goes on"
    return None


def nothing_is_claimed_before_all_take_part(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """A broker that was not counted would serve on under a controller that it does not know."""
    first = Action.CLAIM in effects and not before.copied and not isinstance(event, MigrationRules)
    if first and before.stage is not MigrationStage.CLAIM and event != Counted(""):
        return f"{event} led to a claim"
    return None


def nothing_is_copied_before_the_claim(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """Z1: else ZooKeeper's controller would go on deciding about what was copied."""
    if Action.COPY in effects and not (isinstance(event, Claimed) and before.stage is MigrationStage.CLAIM):
        return f"{event} led to copying"
    return None


def nothing_is_copied_twice(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """A second copy would take back what was decided since the first."""
    return "copied again" if Action.COPY in effects and before.copied else None


def brokers_hear_of_what_is_in_the_log(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """Told everything out of an empty log, brokers would delete what they hold."""
    if Action.SEND in effects and not after.copied:
        return "brokers are told before anything was copied"
    return None


def what_was_copied_stays_copied(
    before: MigrationMachine, event: Event, after: MigrationMachine, effects: Sequence[Effect]
) -> str | None:
    """While a controller role lasts, ``copied`` follows the log: it changes with the copy's commit, and never back."""
    if isinstance(event, MigrationRules):
        wanted = event.state == MigrationState.MIGRATION
    elif isinstance(event, RulesNoMore):
        wanted = False
    else:
        wanted = before.copied or (isinstance(event, Copied) and before.stage is MigrationStage.COPY)
    return None if after.copied == wanted else f"copied: {before.copied}, {event}, {after.copied}"


LAWS: tuple[Law, ...] = (
    one_action_at_a_time,
    only_who_rules_acts,
    nothing_is_claimed_before_all_take_part,
    nothing_is_copied_before_the_claim,
    nothing_is_copied_twice,
    brokers_hear_of_what_is_in_the_log,
    what_was_copied_stays_copied,
)
