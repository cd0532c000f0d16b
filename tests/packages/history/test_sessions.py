"""A record that a client sent again in a new epoch is its own doing; one that stands twice in an epoch is not."""

from __future__ import annotations

from moldau.history.checks import DUPLICATED, check, count
from moldau.history.rows import OK, History, Read, Send
from moldau.history.sessions import Session, told_apart

VALUES = ["a", "b", "a", "c"]
FINAL = [Read("final", 0, offset, value) for offset, value in enumerate(VALUES)]
SENDS = [
    Send("p0", 0, 0, "a", 0, 100, OK, 2),
    Send("p1", 0, 0, "b", 0, 100, OK, 1),
    Send("p0", 1, 0, "c", 0, 100, OK, 3),
]
TWICE = History(SENDS, [Read("follower", *read[1:]) for read in FINAL], FINAL, {0: 4}, [])


def may(session: Session) -> bool:
    """The client had a reason of its own in every session."""
    return True


def test_a_record_that_was_sent_again_in_a_new_epoch_is_told_and_not_held_against_the_cluster() -> None:
    told, again = told_apart(TWICE, {(0, 0): (7, 0), (0, 1): (8, 0), (0, 2): (7, 1), (0, 3): (7, 1)}, may)
    assert again == 1
    assert [read.value for read in told.final] == ["a in epoch 0", "b", "a", "c"]
    assert check(told) == []


def test_a_record_that_stands_twice_in_one_epoch_is_the_clusters_duplicate() -> None:
    told, again = told_apart(TWICE, {(0, 0): (7, 0), (0, 1): (8, 0), (0, 2): (7, 0), (0, 3): (7, 0)}, may)
    assert (told, again) == (TWICE, 0)
    assert count(check(told))[DUPLICATED] == 1


def test_a_record_that_was_sent_again_is_the_clusters_duplicate_where_the_client_had_no_reason_of_its_own() -> None:
    sessions = {(0, 0): (7, 0), (0, 1): (8, 0), (0, 2): (7, 1), (0, 3): (7, 1)}
    assert told_apart(TWICE, sessions, {(7, 0)}.__contains__)[1] == 1
    for others in ({(7, 1)}, {(8, 0)}, set[tuple[int, int]]()):
        told, again = told_apart(TWICE, sessions, others.__contains__)
        assert (told, again) == (TWICE, 0)
        assert count(check(told))[DUPLICATED] == 1


def test_each_session_in_which_a_record_was_left_must_have_had_such_a_reason() -> None:
    thrice = TWICE._replace(final=[*FINAL, Read("final", 0, 4, "a")], ends={0: 5})
    sessions = {(0, 0): (7, 0), (0, 1): (8, 0), (0, 2): (7, 1), (0, 3): (7, 1), (0, 4): (7, 2)}
    assert told_apart(thrice, sessions, {(7, 0), (7, 1)}.__contains__)[1] == 2
    assert told_apart(thrice, sessions, {(7, 0)}.__contains__) == (thrice, 0)


def test_without_idempotence_a_record_that_stands_twice_is_a_duplicate() -> None:
    assert count(check(told_apart(TWICE, {}, may)[0]))[DUPLICATED] == 1


def test_a_record_that_nobody_sent_is_left_as_it_is() -> None:
    ghost = TWICE._replace(sends=SENDS[1:])
    assert told_apart(ghost, {(0, 0): (7, 0), (0, 2): (7, 1)}, may) == (ghost, 0)
