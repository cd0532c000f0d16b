"""What an answer to a pipelined fetch speaks of: the position that the leader's session held when it was asked."""

from __future__ import annotations

from moldau.broker.replicas.follow.partition import FollowedPartition, Mention
from tests.packages.doubles import UNUSED


def at(offset: int) -> Mention:
    return Mention(leader_epoch=1, position=(offset, 1), log_start=0)


def test_each_answer_speaks_of_the_mention_in_its_own_request_though_two_more_are_under_way() -> None:
    following = FollowedPartition(UNUSED)
    following.named(1, at(207), at_once=True)
    following.named(3, at(209), at_once=False)  # while request 2, which does not name it, is under way
    assert following.as_of(2) == at(207)
    following.named(4, at(211), at_once=False)  # before request 3 is answered
    assert following.as_of(3) == at(209)
    assert following.as_of(4) == at(211)
    assert following.as_of(5) == at(211)


def test_what_the_only_request_under_way_says_is_all_that_counts() -> None:
    following = FollowedPartition(UNUSED)
    assert following.as_of(1) is None
    following.named(2, at(1), at_once=False)
    following.named(3, at(2), at_once=True)
    assert following.as_of(2) == at(2)
