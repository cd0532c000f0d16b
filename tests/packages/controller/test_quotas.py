"""Altering quotas: what an entity and a value may be, all or nothing for an entity, nothing written that stands."""

from __future__ import annotations

import pytest

from moldau.controller.batched import LOOKED_AT
from moldau.controller.facts import DecisionContext, Facts, Settings, SoftState
from moldau.controller.quotas import alter_client_quotas
from moldau.controller.replies import QuotasAltered
from moldau.controller.requests import AdoptConfigs, AlterClientQuotas, QuotaChange
from moldau.image import Image
from moldau.image.quotas import Entity, entity, quota, quota_record, quotas
from moldau.model import Code
from moldau.simulator.machines.controller_harness import ControllerHarness
from moldau.wire.records.metadata import ClientQuotaRecord

RATE = "producer_byte_rate"
JOE: Entity = (("client-id", "joe"),)


def alter(
    harness: ControllerHarness, of: Entity, *changes: tuple[str, float | None], validate_only: bool = False
) -> str:
    """The words of a refusal, or nothing."""
    change = QuotaChange(entity=of, quotas=changes)
    reply = harness.submit(AlterClientQuotas(changes=(change,), validate_only=validate_only))
    assert isinstance(reply, QuotasAltered)
    ((code, message),) = reply.results
    assert code == (Code.NONE if message is None else Code.INVALID_REQUEST)
    return message or ""


def test_quotas_are_set_changed_and_taken_away() -> None:
    harness = ControllerHarness(1)
    assert alter(harness, JOE, (RATE, 1000), ("request_percentage", 12.5)) == ""
    assert quota(harness.image, JOE, RATE) == 1000
    assert alter(harness, JOE, (RATE, 1000)) == ""
    assert harness.records == [], "nothing changed, nothing written"
    assert alter(harness, JOE, (RATE, 2000), ("request_percentage", None), ("consumer_byte_rate", None)) == ""
    assert len(harness.records) == 2, "what was not there is not taken away"
    assert list(quotas(harness.image)) == [(JOE, RATE, 2000)]


def test_validating_changes_nothing() -> None:
    harness = ControllerHarness(1)
    assert alter(harness, JOE, (RATE, 1000), validate_only=True) == ""
    assert list(quotas(harness.image)) == []


def test_defaults_and_names_are_entities_of_their_own_in_whatever_order_they_are_named() -> None:
    harness = ControllerHarness(1)
    both: Entity = (("user", "u"), ("client-id", None))
    assert alter(harness, both, (RATE, 1)) == ""
    assert alter(harness, both[::-1], (RATE, 2)) == ""
    assert alter(harness, (("user", None),), (RATE, 3)) == ""
    assert {of: value for of, _, value in quotas(harness.image)} == {
        (("client-id", None), ("user", "u")): 2,
        (("user", None),): 3,
    }


@pytest.mark.parametrize(
    ("of", "changes", "why"),
    [
        ((), [(RATE, 1)], "Invalid empty client quota entity"),
        ((("group", "g"),), [(RATE, 1)], "Unhandled client quota entity type: group"),
        ((("user", ""),), [(RATE, 1)], "Empty user not supported"),
        ((("user", "a"), ("user", "b")), [(RATE, 1)], "Invalid client quota entity, duplicate entity entry user"),
        ((("ip", "10.0.0.1"), ("user", "b")), [(RATE, 1)], "Invalid quota entity combination"),
        ((("ip", "a host"),), [("connection_creation_rate", 1)], "a host is not a valid IP"),
        ((("ip", "::1"),), [(RATE, 1)], f"Invalid configuration key {RATE}"),
        (JOE, [("connection_creation_rate", 1)], "Invalid configuration key connection_creation_rate"),
        (JOE, [(RATE, 0)], f"Quota {RATE} must be greater than 0"),
        (JOE, [(RATE, -1)], f"Quota {RATE} must be greater than 0"),
        (JOE, [(RATE, 1.5)], f"{RATE} cannot be a fractional value."),
        (JOE, [(RATE, 1e19)], f"Proposed value for {RATE} is too large for a LONG."),
        ((("ip", None),), [("connection_creation_rate", 2.0**31)], "Proposed value for connection_creation_rate"),
        (JOE, [("request_percentage", float("nan"))], "Quota request_percentage must be a finite number"),
        (JOE, [("request_percentage", float("inf"))], "Quota request_percentage must be a finite number"),
        (JOE, [(RATE, 1), (RATE, 2)], f"Duplicate quota key {RATE}"),
        (JOE, [("request_percentage", 5), (RATE, 0)], f"Quota {RATE} must be greater than 0"),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole(of: Entity, changes: list[tuple[str, float]], why: str) -> None:
    harness = ControllerHarness(1)
    assert alter(harness, of, *changes).startswith(why)
    assert list(quotas(harness.image)) == []


def test_an_entity_that_is_named_twice_is_refused_twice_and_others_are_not() -> None:
    harness = ControllerHarness(1)
    changes = [QuotaChange(entity=of, quotas=((RATE, 1),)) for of in (JOE, (("user", "u"),), JOE)]
    reply = harness.submit(AlterClientQuotas(changes=tuple(changes)))
    assert [code for code, _ in reply.results] == [Code.INVALID_REQUEST, Code.NONE, Code.INVALID_REQUEST]


def test_of_one_entity_no_more_quotas_are_compared_than_there_can_be() -> None:
    """Keys that none has were compared each with all others, when they were to be taken away: 60,000 in a request."""
    harness = ControllerHarness(1)
    assert alter(harness, JOE, *((f"key-{number}", None) for number in range(100))) == ""
    why = alter(harness, JOE, *((f"key-{number}", None) for number in range(101)))
    assert why == "An entity has more than 100 quotas in the request."


def test_very_many_entities_are_counted_in_parts() -> None:
    view = DecisionContext(Image(), SoftState(Settings()), Facts(now_ms=0, next_offset=0))
    many = range(LOOKED_AT * view.settings.partitions_at_once)
    changes = tuple(QuotaChange(entity=(("user", str(number)),), quotas=((RATE, 1),)) for number in many)
    assert next(alter_client_quotas(view, AlterClientQuotas(changes=changes))) == [], "nothing is decided yet"


def test_quotas_that_stand_in_znodes_already_are_adopted() -> None:
    harness = ControllerHarness(1)
    record = quota_record(entity(JOE), RATE, 5.0)
    harness.submit(AdoptConfigs(records=(record,)))
    assert [one for one in harness.records if isinstance(one, ClientQuotaRecord)] == [record]
    assert quota(harness.image, JOE, RATE) == 5
