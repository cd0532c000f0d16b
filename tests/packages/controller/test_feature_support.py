"""A refusal on account of feature levels names the feature, its level and what is supported."""

from __future__ import annotations

import pytest

from moldau.controller.feature_support import UnsupportedLevel, demand_to_lead, newer_than_supported, unsupported
from moldau.controller.features import SUPPORTED


def test_every_supported_level_is_readable_and_the_next_is_not() -> None:
    for feature in SUPPORTED:
        assert newer_than_supported(feature.name, feature.high) is None
        why = newer_than_supported(feature.name, feature.high + 1)
        assert why is not None
        assert f"level {feature.high + 1} of {feature.name}" in why


def test_a_refused_broker_names_each_level_in_the_way() -> None:
    levels = {"metadata.version": 1000, "eligible.leader.replicas.version": 1, "another.version": 2}
    first, second = unsupported(levels)
    assert first == "the cluster is at level 2 of another.version, this version of Moldau supports 0 to 0"
    assert second.startswith("the cluster is at level 1000 of metadata.version")


def test_a_broker_that_has_read_no_levels_yet_names_what_it_supports() -> None:
    (told,) = unsupported({})
    assert "this version of Moldau supports" in told
    assert "eligible.leader.replicas.version 0 to 1" in told


def test_no_controller_leads_where_it_would_have_to_write_older_records_than_it_can() -> None:
    """A quorum of Kafka 3.8 at level 20: its brokers could not read what a controller of ours writes."""
    demand_to_lead({})
    demand_to_lead({"metadata.version": 21})
    with pytest.raises(UnsupportedLevel, match="level 20 of metadata.version.*supports 21 to"):
        demand_to_lead({"metadata.version": 20})
