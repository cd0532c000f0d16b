"""The migration drill, short, under load: to the quorum, back, there again, finished; a controller killed each time."""

from __future__ import annotations

from pathlib import Path

from moldau import Cluster
from moldau.cluster.migration.drill import SETTINGS, Drill, assert_done


def test_a_cluster_migrates_goes_back_and_migrates_again_under_load_and_loses_nothing(tmp_path: Path) -> None:
    with Cluster(3, plane="zookeeper", data=tmp_path / "cluster", config=SETTINGS) as cluster:
        Drill(cluster, seed=7, brief=True).run()
        assert_done(cluster)
