"""A cluster's folder: what its nodes' files say, that ports can change, and that what fails leaves nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from moldau.cluster.cluster import Cluster, ClusterError, NoSuchNode
from moldau.cluster.nodes import HOST, free_ports, setting
from moldau.model.config_key import ConfigError


@pytest.mark.parametrize(("brokers", "copies"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_topics_that_are_made_without_being_asked_for_have_as_many_copies_as_are_sensible(
    brokers: int, copies: str, tmp_path: Path
) -> None:
    for node in Cluster(brokers, data=tmp_path).spec.nodes:
        assert setting(node, "default.replication.factor") == copies
        assert setting(node, "offsets.topic.replication.factor") == copies


def test_what_the_user_says_goes_before_it(tmp_path: Path) -> None:
    cluster = Cluster(3, data=tmp_path, config={"default.replication.factor": "1"})
    assert {setting(node, "default.replication.factor") for node in cluster.spec.nodes} == {"1"}


def test_a_cluster_that_does_not_run_takes_other_ports(tmp_path: Path) -> None:
    cluster = Cluster(2, data=tmp_path, port=29092)
    controllers = [node.controller_port for node in cluster.spec.nodes]
    cluster.move(39092)
    again = Cluster(data=tmp_path)
    assert again.bootstrap_servers == f"{HOST}:39092,{HOST}:39093"
    for node, port, controller in zip(again.spec.nodes, (39092, 39093), controllers, strict=True):
        assert setting(node, "listeners") == f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}"


def test_each_node_has_pages_of_its_own(tmp_path: Path) -> None:
    fixed = Cluster(3, data=tmp_path / "fixed", config={"http.listener": "127.0.0.1:9308"})
    pages = [setting(node, "http.listener") for node in fixed.spec.nodes]
    assert pages == ["127.0.0.1:9308", "127.0.0.1:9309", "127.0.0.1:9310"]
    free = Cluster(3, data=tmp_path / "free", config={"http.listener": "127.0.0.1:0"})
    pages = [setting(node, "http.listener") for node in free.spec.nodes]
    assert len(set(pages)) == 3
    assert "127.0.0.1:0" not in pages, "who looks for a page knows where it is before the node runs"


def test_a_cluster_that_cannot_be_laid_out_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(ConfigError):
        Cluster(config={"log.retention.ms": "x"})
    with pytest.raises(ConfigError):
        Cluster(data=tmp_path / "mine", config={"log.retention.ms": "x"})
    assert not list((tmp_path / "temporary").iterdir())
    assert not list(tmp_path.glob("mine/node-*"))


def test_a_temporary_folder_goes_with_the_process_that_made_it(tmp_path: Path) -> None:
    script = "import moldau; print(moldau.Cluster(1).folder)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_somebody_elses_is_named_before_anything_starts(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    cluster = Cluster(1, data=tmp_path, port=port)
    with socket.create_server((HOST, port)), pytest.raises(ClusterError, match=f"port {port}.*--port"):
        cluster.start()
    assert not cluster.alive()


def test_ports_above_the_last_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="65535"):
        Cluster(3, data=tmp_path, port=65_534)


def test_a_node_that_is_not_there_is_named_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(NoSuchNode) as refused:
        Cluster(2, data=tmp_path).kill(9)
    assert str(refused.value) == "there is no node 9: this cluster has 1, 2"
    assert isinstance(refused.value, KeyError)


def test_another_cluster_at_our_ports_is_never_taken_for_ours(tmp_path: Path) -> None:
    """Its brokers have the same numbers, and our nodes look alive: only the cluster's id tells them apart."""
    with Cluster(1) as theirs:
        ours = Cluster(1, data=tmp_path, port=theirs.spec.nodes[0].port)
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent("input()")], stdin=subprocess.PIPE) as alive:
            ours.spec.nodes[0].pid = alive.pid
            with pytest.raises(ClusterError, match=f"another cluster answers .*{theirs.cluster_id}"):
                ours.wait_for_brokers([1], 20)
            alive.communicate()


@pytest.mark.parametrize("key", ["log.dirs", "node.id", "listeners", "advertised.listeners"])
def test_what_no_two_nodes_may_share_is_not_set_for_all(tmp_path: Path, key: str) -> None:
    """log.dirs ended in a traceback, and an advertised address for all in a minute of silence."""
    with pytest.raises(ValueError, match=f"{key}: what is set here is set for all 2 nodes"):
        Cluster(2, data=tmp_path / "two", config={key: "1"})
    assert not (tmp_path / "two").exists()


def test_one_node_may_have_its_own_directories_and_one_that_nobody_finds_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    cluster = Cluster(1, data=tmp_path / "one", config={"log.dirs": str(mine)})
    assert setting(cluster.spec.nodes[0], "log.dirs") == str(mine)
    with pytest.raises(ValueError, match="is already formatted"):
        Cluster(1, data=tmp_path / "other", config={"log.dirs": str(mine)})
    with pytest.raises(ValueError, match="nobody here finds nosuch.invalid"):
        Cluster(1, data=tmp_path / "third", config={"advertised.listeners": "PLAINTEXT://nosuch.invalid:9092"})
