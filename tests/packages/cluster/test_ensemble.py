"""An embedded ZooKeeper that cannot start says what is missing and what to do."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from moldau.cluster.ensemble import LocalEnsemble, NoEnsemble


def test_without_java_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NoEnsemble, match="needs Java: apt-get install"):
        LocalEnsemble(tmp_path / "zk").start()


def test_without_pyspark_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoEnsemble, match="pip install"):
        LocalEnsemble(tmp_path / "zk").start()


def test_a_server_that_stops_as_it_starts_shows_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho no more memory\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "zookeeper-3.9.5.jar").touch()
    (tmp_path / "pyspark" / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location(
        "pyspark", tmp_path / "pyspark" / "__init__.py", submodule_search_locations=[str(tmp_path / "pyspark")]
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(NoEnsemble, match="no more memory"):
        LocalEnsemble(tmp_path / "zk").start()


def test_three_servers_are_laid_out_on_ports_of_their_own(tmp_path: Path) -> None:
    ensemble = LocalEnsemble(tmp_path, servers=3)
    ports = [port for s in ensemble.servers for port in (s.port, s.quorum_port, s.election_port)]
    assert len(set(ports)) == 9
    assert ensemble.connect.count(",") == 2
    assert ensemble.leader() is None


def test_servers_are_given_the_flags_of_zookeepers_own_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\necho "$@"\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SERVER_JVMFLAGS", "-Done=1 '-Dtwo=a word'")
    ensemble = LocalEnsemble(tmp_path / "ensemble")
    with pytest.raises(NoEnsemble, match="stopped as it started"):
        ensemble.start()
    assert " -Done=1 -Dtwo=a word -cp " in ensemble.servers[0].log.read_text()
