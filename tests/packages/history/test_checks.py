"""The checkers of the kill suite: quiet about what a log may do, loud about each thing that it may not."""

from __future__ import annotations

import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moldau.history import checks
from moldau.history.checks import Anomaly, check, doubts, longest_gap_ms
from moldau.history.rows import FAIL, INFO, OK, OPEN, History, Read, Send, read_lines, write_lines
from tests.packages.cluster.histories import BREAKS, Break, histories, kill


def log_of(*values: str, process: str = "final") -> list[Read]:
    """Partition 0 with these values from offset 0 on."""
    return [Read(process, 0, offset, value) for offset, value in enumerate(values)]


def sent(*outcomes: str) -> list[Send]:
    """Sends a, b, c... of one producer; the acknowledged ones at offsets 0, 1, 2..."""
    sends, offset = [], 0
    for number, outcome in enumerate(outcomes):
        acked = offset if outcome == OK else -1
        offset += outcome == OK
        name = "abcdefgh"[number]
        sends.append(Send("p0", number, 0, name, 100 * number, 100 * number + 150, outcome, acked))
    return sends


def history(sends: list[Send], final: list[Read], reads: list[Read] | None = None) -> History:
    end = max((read.offset + 1 for read in final), default=0)
    return History(sends, reads or [], final, {0: end}, [])


def kinds(found: list[Anomaly]) -> set[str]:
    return {anomaly.kind for anomaly in found}


@given(histories())
def test_a_history_that_a_log_may_have_raises_no_alarm(valid: History) -> None:
    assert check(valid) == []


@pytest.mark.parametrize(("break_it", "kind"), BREAKS, ids=[break_it.__name__ for break_it, _ in BREAKS])
@given(st.data())
@settings(max_examples=40)
def test_one_thing_that_went_wrong_is_noticed_by_its_rule(break_it: Break, kind: str, data: st.DataObject) -> None:
    broken = list(break_it(data.draw(histories())))
    assume(broken)

    assert kind in kinds(check(data.draw(st.sampled_from(broken))))


def test_an_acknowledged_value_that_nobody_finds_is_lost() -> None:
    found = check(history(sent(OK, OK, OK), log_of("a", "b")))
    assert kinds(found) == {checks.LOST, checks.UNSEEN}
    assert "c of p0 to partition 0 was acknowledged at offset 2" in found[0].text


def test_a_lost_value_whose_place_another_took_is_lost_and_inconsistent() -> None:
    found = check(history(sent(OK, OK, INFO), log_of("a", "c")))
    assert kinds(found) == {checks.LOST, checks.INCONSISTENT}


def test_a_value_that_was_not_acknowledged_may_be_there_or_not() -> None:
    assert check(history(sent(OK, INFO), log_of("a"))) == []
    assert check(history(sent(OK, INFO), log_of("a", "b"))) == []


def test_a_value_that_was_refused_for_sure_may_not_be_there() -> None:
    assert kinds(check(history(sent(OK, FAIL), log_of("a", "b")))) == {checks.PHANTOM}


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    assert kinds(check(history(sent(OK), log_of("a", "a")))) == {checks.DUPLICATED}


def test_two_values_of_a_session_in_the_wrong_order_are_reordered() -> None:
    sends = [send._replace(offset=1 - send.offset) for send in sent(OK, OK)]
    assert kinds(check(history(sends, log_of("b", "a")))) == {checks.REORDERED}


def test_a_value_sent_after_anothers_acknowledgement_may_not_stand_before_it() -> None:
    early = Send("p0", 0, 0, "a", 0, 10, OK, 1)
    late = Send("p1", 0, 0, "b", 20, 30, OK, 0)
    assert kinds(check(history([early, late], log_of("b", "a")))) == {checks.REORDERED}
    meanwhile = late._replace(invoke_ns=5)
    assert check(history([early, meanwhile], log_of("b", "a"))) == []


def test_a_send_without_an_answer_is_told() -> None:
    assert kinds(check(history(sent(OK, OPEN), log_of("a", "b")))) == {checks.UNANSWERED}


def test_a_follower_that_saw_what_is_gone_or_different_is_told() -> None:
    gone = history(sent(OK, INFO), log_of("a"), log_of("a", "b", process="follower"))
    assert kinds(check(gone)) == {checks.TAKEN_BACK}
    other = history(sent(OK, OK), log_of("a", "b"), log_of("a", "x", process="follower"))
    assert kinds(check(other)) == {checks.INCONSISTENT}


def test_a_follower_that_is_given_an_offset_twice_or_not_at_all_is_told() -> None:
    a, b, c = log_of("a", "b", "c", process="follower")
    sends, final = sent(OK, OK, OK), log_of("a", "b", "c")
    assert kinds(check(history(sends, final, [a, b, b, c]))) == {checks.READER}
    assert kinds(check(history(sends, final, [a, c]))) == {checks.READER}
    assert check(history(sends, final, [b, c])) == []


def test_an_offset_that_nobody_has_is_a_hole() -> None:
    a, _, c = log_of("a", "b", "c")
    assert kinds(check(history(sent(OK, INFO), [a, c._replace(value="b")]))) == {checks.HOLE}


def test_what_was_not_promised_is_not_held_against_a_topic() -> None:
    sends = [Send("p0", n, 0, f"v{n}", n, n, OK, n) for n in range(3)]
    ones = [Read("final", 0, offset, value) for offset, value in enumerate(("v1", "v0", "v0"))]
    found = kinds(check(History(sends, [], ones, {0: 3}, []), checks.Promise(once=False)))
    assert found == {checks.LOST, checks.INCONSISTENT}
    assert check(History(sends, [], ones, {0: 3}, []), checks.Promise(acked=False, once=False)) == []
    twice = [*ones, Read("final", 0, 2, "v2")]
    assert checks.INCONSISTENT in kinds(check(History(sends, [], twice, {0: 3}, []), checks.Promise(False, False)))


def test_where_an_unclean_election_was_held_only_what_nobody_sent_and_what_nobody_answered_counts() -> None:
    sends = [Send("p0", n, 0, f"v{n}", n, n, OK, n) for n in range(3)]
    read, left = Read("follower", 0, 2, "v2"), [Read("final", 0, 0, "v1")]
    torn = checks.Promise(kept=False)
    assert check(History(sends, [read], left, {0: 1}, []), torn) == []
    assert kinds(check(History(sends, [], [Read("final", 0, 0, "x")], {0: 1}, []), torn)) == {checks.PHANTOM}
    assert kinds(check(History([sends[0]._replace(outcome=OPEN)], [], [], {}, []), torn)) == {checks.UNANSWERED}
    assert checks.LOST in kinds(check(History(sends, [read], left, {0: 1}, [])))


def test_a_history_of_some_partitions_has_nothing_of_the_others() -> None:
    sends = [Send("p0", n, n, f"v{n}", n, n, OK, 0) for n in range(2)]
    reads = [Read("r", n, 0, f"v{n}") for n in range(2)]
    whole = History(sends, reads, reads, {0: 1, 1: 1}, [])
    assert whole.of(lambda partition: partition == 1) == History(sends[1:], reads[1:], reads[1:], {1: 1}, [])
    assert whole.of(lambda partition: True) == whole


def test_the_longest_gap_is_that_of_the_worst_partition_within_the_kill() -> None:
    s = 1_000_000_000
    acks = [(0, 0.9), (0, 1.1), (0, 9.9), (1, 0.5), (1, 4.5), (1, 9.8), (1, 30.0)]
    sends = [Send("p0", n, p, f"v{n}", 0, int(at * s), OK, n) for n, (p, at) in enumerate(acks)]
    assert longest_gap_ms(sends, kill()) == pytest.approx(8800)
    assert longest_gap_ms([send for send in sends if send.partition], kill()) == pytest.approx(5300)
    silent = [*sends, Send("p0", 9, 2, "v9", 0, -1, INFO)]
    assert longest_gap_ms(silent, kill()) == pytest.approx(9000)


def test_a_run_in_which_nothing_happened_proves_nothing() -> None:
    good = History([Send("p0", n, 0, f"v{n}", 0, 1, OK, n) for n in range(100)], [], [], {0: 100}, [kill(), kill()])
    assert doubts(good, 2) == []
    assert "1 of 2 kills" in doubts(good._replace(kills=good.kills[:1]), 2)[0]
    assert "only 99 acknowledgements" in doubts(good._replace(sends=good.sends[:99]), 2)[0]
    assert "no effect" in doubts(good._replace(kills=[kill(), kill(leader_ms=-1)]), 2)[0]
    assert "partitions [1]" in doubts(good._replace(ends={0: 100, 1: 0}), 2)[0]


def test_a_kill_of_a_controller_is_seen_only_when_another_answers() -> None:
    ruled = kill(was_controller=True)
    assert not ruled.had_effect
    assert ruled._replace(controller_ms=5).had_effect
    assert not kill(led=0, leader_ms=-1).had_effect


@given(histories())
def test_a_written_history_reads_back_the_same(valid: History) -> None:
    whole = valid._replace(kills=[kill()])
    file = io.StringIO()
    write_lines(whole, file)
    assert read_lines(file.getvalue().splitlines()) == whole


def test_a_line_that_is_no_operation_is_named() -> None:
    with pytest.raises(ValueError, match="line 1"):
        read_lines(['{"op": "dance"}'])


COMPACTED = checks.Promise(compacted=True, tombstones=True)


def keyed(*values: str) -> list[Send]:
    """Acknowledged sends of one producer to a compacted topic, at offsets 0, 1, 2..."""
    return [
        Send("p0", number, 0, value, 100 * number, 100 * number + 50, OK, number) for number, value in enumerate(values)
    ]


def left(*places: tuple[int, str], process: str = "final") -> list[Read]:
    return [Read(process, 0, offset, value) for offset, value in places]


def test_what_a_newer_record_of_its_key_replaces_may_be_gone() -> None:
    sends = keyed("a=1", "b=2", "a=3", "b~4")
    reads = left((0, "a=1"), (1, "b=2"), (3, "b~4"), process="r")
    assert check(history(sends, left((2, "a=3"), (3, "b~4")), reads), COMPACTED) == []
    assert kinds(check(history(sends, left((2, "a=3"), (3, "b~4"))))) >= {checks.LOST, checks.HOLE}


@pytest.mark.parametrize(
    ("final", "kind"),
    [
        (left((1, "b=2"), (3, "b=4")), checks.LOST),  # nothing of a
        (left((0, "a=1"), (3, "b=4")), checks.LOST),  # an older one of a
        (left((2, "a=3"), (1, "b=4")), checks.INCONSISTENT),  # renumbered
        (left((3, "b=4"), (2, "a=3")), checks.READER),
        (left((2, "a=3"), (3, "b=9")), checks.PHANTOM),
        (left((2, "a=3")), checks.UNSEEN),
    ],
)
def test_what_a_compacted_topic_may_not_do_is_noticed(final: list[Read], kind: str) -> None:
    assert kind in kinds(check(history(keyed("a=1", "b=2", "a=3", "b=4"), final), COMPACTED))


def test_a_key_that_was_deleted_does_not_rise_again_while_tombstones_stay() -> None:
    risen = history(keyed("a=1", "a~2", "b=3"), left((0, "a=1"), (2, "b=3")))
    assert kinds(check(risen, COMPACTED)) == {checks.RISEN}
    assert check(risen, COMPACTED._replace(tombstones=False)) == []
    assert check(history(keyed("a=1", "a~2", "b=3"), left((2, "b=3"))), COMPACTED) == []


def test_a_tombstone_whose_answer_was_lost_may_have_taken_its_key() -> None:
    unheard = Send("p0", 1, 0, "a~2", 100, 150, INFO)
    sends = [*keyed("a=1"), unheard]
    assert check(History(sends, [], [], {0: 0}, []), COMPACTED._replace(tombstones=False))[0].kind == checks.UNSEEN
    assert checks.LOST not in kinds(check(history(sends, []), COMPACTED))
