"""The migration's machine: its laws after every event of any history, and the ways that matter, step by step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.migration import stages
from moldau.broker.migration.laws import LAWS
from moldau.broker.migration.stages import Action, Event, MigrationMachine, MigrationStage, step
from moldau.controller.migration import MigrationState

EVENTS: list[Event] = [
    *(stages.MigrationRules(state) for state in MigrationState),
    stages.RulesNoMore(),
    stages.Counted(""),
    stages.Counted("the migration waits for broker 3"),
    stages.Claimed(),
    stages.Copied(),
    stages.Compared(),
    stages.Failed("no"),
    stages.PauseOver(),
]


def walk(*events: Event) -> tuple[MigrationMachine, list[stages.Effect]]:
    """The state after some events, and what the last one brought about; every law holds at each."""
    state, effects = MigrationMachine(), []
    for event in events:
        before = state
        state, effects = step(state, event)
        for law in LAWS:
            found = law(before, event, state, effects)
            assert found is None, f"{law.__name__}: {found}"
    return state, effects


@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_the_laws_hold_whatever_happens(events: list[Event]) -> None:
    walk(*events)


START = stages.MigrationRules(MigrationState.PRE_MIGRATION)


def test_all_goes_well() -> None:
    assert walk(START) == (MigrationMachine(MigrationStage.COUNT), [Action.COUNT])
    state, effects = walk(START, stages.Counted(""))
    assert state.stage is MigrationStage.CLAIM
    assert effects[-1] is Action.CLAIM
    assert walk(START, stages.Counted(""), stages.Claimed())[1] == [Action.COPY]
    state, effects = walk(START, stages.Counted(""), stages.Claimed(), stages.Copied())
    assert effects[1:] == [Action.SEND, Action.COMPARE]
    assert state.copied
    assert (
        walk(START, stages.Counted(""), stages.Claimed(), stages.Copied(), stages.Compared())[0].stage
        is MigrationStage.BOTH
    )


def test_who_is_missing_is_said_once_and_looked_for_again() -> None:
    waits = stages.Counted("the migration waits for broker 3")
    _, effects = walk(START, waits)
    assert effects == [stages.Say(waits.missing, is_trouble=True), Action.PAUSE]
    assert walk(START, waits, stages.PauseOver())[1] == [Action.COUNT]
    assert walk(START, waits, stages.PauseOver(), waits)[1] == [Action.PAUSE]


def test_a_controller_that_died_while_it_copied_is_followed_by_one_that_copies_anew() -> None:
    claimed = (START, stages.Counted(""), stages.Claimed())
    assert walk(*claimed, stages.RulesNoMore())[1] == [Action.STOP_WRITING, Action.STOP_SENDING]
    state, effects = walk(*claimed, stages.RulesNoMore(), START)
    assert (state, effects) == (MigrationMachine(MigrationStage.COUNT), [Action.COUNT])


def test_whoever_rules_once_all_is_copied_claims_tells_everybody_and_compares() -> None:
    state, effects = walk(stages.MigrationRules(MigrationState.MIGRATION))
    assert (state, effects) == (MigrationMachine(MigrationStage.CLAIM, copied=True), [Action.CLAIM])
    assert walk(stages.MigrationRules(MigrationState.MIGRATION), stages.Claimed())[1] == [Action.SEND, Action.COMPARE]


def test_a_write_that_fails_leads_back_to_the_claim_and_brokers_are_told_on() -> None:
    both = (stages.MigrationRules(MigrationState.MIGRATION), stages.Claimed(), stages.Compared())
    state, effects = walk(*both, stages.Failed("no"))
    assert state.stage is MigrationStage.CLAIM
    assert Action.STOP_WRITING in effects
    assert Action.STOP_SENDING not in effects
    assert walk(*both, stages.Failed("no"), stages.PauseOver())[1] == [Action.CLAIM]


def test_what_is_finished_is_left_alone_and_what_never_was_on_zookeeper_is_refused() -> None:
    state, effects = walk(stages.MigrationRules(MigrationState.POST_MIGRATION))
    assert state.stage is MigrationStage.OFF
    assert isinstance(effects[0], stages.Say)
    assert isinstance(walk(stages.MigrationRules(MigrationState.NONE))[1][0], stages.EndNode)
