"""Coordinators of groups are asked all at once, and one that does not answer costs its own groups only."""

from __future__ import annotations

from threading import Barrier

import pytest

from moldau.client.sync import Cluster, Refused
from moldau.model import Code
from moldau.pipeline.coordinators import at_once
from moldau.pipeline.groups import unanswered_text

NOBODY = "127.0.0.1:1"
GROUPS = {1: ["a", "b", "c"], 2: ["d"], 3: ["e", "f"]}


def test_all_coordinators_are_asked_before_the_first_has_answered() -> None:
    together = Barrier(len(GROUPS), timeout=60)

    def work(_: Cluster, group: str) -> str:
        if group in "ade":
            together.wait()  # broken, and an error, if one of them were asked after another
        return group.upper()

    assert at_once(NOBODY, GROUPS, work) == ({group: group.upper() for group in "abcdef"}, {})


def test_the_other_groups_of_a_coordinator_that_does_not_answer_are_not_waited_for() -> None:
    asked: list[str] = []

    def work(_: Cluster, group: str) -> str:
        asked.append(group)
        if group == "b":
            raise TimeoutError("silence")
        return group

    found, unanswered = at_once(NOBODY, GROUPS, work)
    assert (sorted(found), unanswered) == (["a", "d", "e", "f"], {"b": "silence", "c": "silence"})
    assert "c" not in asked
    assert unanswered_text(unanswered) == "b, c: silence"


def test_a_group_that_is_refused_leaves_the_others_of_its_coordinator_alone() -> None:
    def work(_: Cluster, group: str) -> str:
        if group == "b":
            raise Refused(Code.GROUP_AUTHORIZATION_FAILED, "group 'b'")
        return group

    found, unanswered = at_once(NOBODY, GROUPS, work)
    assert sorted(found) == ["a", "c", "d", "e", "f"]
    assert unanswered == {"b": "group 'b': GROUP_AUTHORIZATION_FAILED"}


def test_nobody_is_asked_for_no_groups() -> None:
    def work(_: Cluster, group: str) -> str:
        pytest.fail(group)

    assert at_once(NOBODY, {}, work) == ({}, {})
