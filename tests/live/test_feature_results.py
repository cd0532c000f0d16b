"""UpdateFeatures in the versions whose answers tell of each feature by itself, at each broker of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.client.client import ForNode
from moldau.client.features import describe_features
from moldau.client.sync import Cluster
from moldau.model import Code
from moldau.wire.messages.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

pytestmark = pytest.mark.of_quorum("ZooKeeper mode has no levels of features to set")
LEVEL = "metadata.version"
UNKNOWN = "no.such.feature"


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers) as client:
        yield client


def ask(cluster: Cluster, broker: int, version: int, feature: str, level: int) -> UpdateFeaturesResponse:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level)
    request = UpdateFeaturesRequest(feature_updates=[update])
    return cluster.run(
        cluster.client.ask(request, ForNode(broker), codes=lambda response: (), lowest=version, highest=version)
    )


def present(cluster: Cluster, broker: int) -> int:
    """The level of the metadata that the cluster has already."""
    return cluster.run(describe_features(cluster.client, broker)).in_force[LEVEL]


@pytest.mark.parametrize("version", [0, 1])
def test_every_broker_tells_of_each_feature_that_was_set(cluster: Cluster, version: int) -> None:
    for broker in cluster.brokers():
        answer = ask(cluster, broker, version, LEVEL, present(cluster, broker))
        assert answer.error_code == Code.NONE, answer
        assert [(one.feature, one.error_code) for one in answer.results] == [(LEVEL, Code.NONE)], f"broker {broker}"


@pytest.mark.parametrize("version", [0, 1])
def test_every_broker_refuses_a_feature_that_nobody_knows_as_a_whole(cluster: Cluster, version: int) -> None:
    answers = [ask(cluster, broker, version, UNKNOWN, 1) for broker in cluster.brokers()]
    assert {answer.error_code for answer in answers} == {Code.INVALID_UPDATE_VERSION}
    assert [answer.results for answer in answers] == [[]] * len(answers)
