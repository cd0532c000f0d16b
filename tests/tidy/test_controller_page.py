"""The controller's page says what its state tables say."""

from __future__ import annotations

from docs.states import PAGE, generated, page

from moldau.controller.states import PARTITION_MOVES, REPLICA_MOVES


def test_the_controllers_page_is_what_the_state_tables_say() -> None:
    text = PAGE.read_text()
    assert text == page(text), "run `python -m docs.states`"


def test_every_state_and_every_move_is_on_the_page() -> None:
    text = generated()
    for moves in (PARTITION_MOVES, REPLICA_MOVES):
        for state, targets in moves.items():
            assert f"**{state.value}**" in text
            for target in targets:
                assert f"    {state.value} --> {target.value}\n" in text
