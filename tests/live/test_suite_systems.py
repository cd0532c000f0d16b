"""The clusters that other projects' suites are played against, as they tell of brokers that are gone."""

from __future__ import annotations

import os
import signal

import pytest
from tests.suites.systems import BrokerEnded, OwnCluster, demand_all


def test_a_broker_that_was_stopped_has_not_ended_by_itself_and_one_that_was_killed_has() -> None:
    cluster = OwnCluster(brokers=1)
    with cluster:
        demand_all(cluster)
        cluster.terminate(1)
        demand_all(cluster)
        cluster.restart(1)
        demand_all(cluster)
        os.kill(cluster.pid(1), signal.SIGKILL)
        cluster.wait_until(lambda: not cluster.alive(), "the broker is gone")
        with pytest.raises(BrokerEnded, match="broker 1 ended by itself, with exit code -9"):
            demand_all(cluster)
