"""What a node's log says first: enough to know from the file alone what ran."""

from __future__ import annotations

import os
from pathlib import Path

from moldau.admin.banner import banner, ignored, previous_stop
from moldau.broker.config.node_config import NodeConfig, load


def config(folder: Path, **more: str) -> NodeConfig:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "7",
        "controller.quorum.voters": "7@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093",
        "advertised.listeners": "PLAINTEXT://box.example:9092",
        "log.dirs": str(folder),
        **more,
    }
    return load("".join(f"{key}={value}\n" for key, value in lines.items()))


def test_the_banner_names_program_process_node_addresses_and_folders(tmp_path: Path) -> None:
    said = "\n".join(banner(config(tmp_path)))
    for words in (
        "Moldau 0.1.0",
        "node 7 (broker,controller)",
        f"process {os.getpid()}",
        "PLAINTEXT://0.0.0.0:9092",
        "advertised: PLAINTEXT://box.example:9092",
        str(tmp_path),
    ):
        assert words in said


def test_the_banner_shows_what_is_set_otherwise_and_hides_secrets(tmp_path: Path) -> None:
    more = {"num.partitions": "6", "log.retention.hours": "168", "ssl.key.password": "hunter2"}
    said = "\n".join(banner(config(tmp_path, **more)))
    assert "num.partitions=6" in said
    assert "log.retention.hours" not in said, "that is the default"
    assert "hunter2" not in said
    assert "ssl.key.password=[hidden]" in said


def test_the_banner_says_how_the_last_stop_was(tmp_path: Path) -> None:
    assert "no logs" in previous_stop(str(tmp_path))
    (tmp_path / "meta.properties").write_text("")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(b"")
    assert "not clean" in previous_stop(str(tmp_path))
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    assert "the last stop was clean" in previous_stop(str(tmp_path))
    assert "cannot be read" in previous_stop(str(tmp_path / "nowhere"))


def test_variables_that_are_settings_in_images_of_kafka_are_named_with_their_keys_and_those_of_scripts_are_not() -> (
    None
):
    """They were ignored in silence: a node told nobody why it did not listen where it was told to."""
    scripts = dict.fromkeys(("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_HOME", "KAFKA_JMX_PORT"), "1")
    assert ignored(scripts | {"LOG_DIR": "/logs", "NODE_ID": "1", "KAFKA_": ""}) == ""
    images = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://box:9092", "KAFKA_CFG_NODE_ID": "secret"}
    said = ignored(scripts | images)
    assert said.endswith(": KAFKA_ADVERTISED_LISTENERS (advertised.listeners), KAFKA_CFG_NODE_ID (node.id)")
    assert "no effect" in said
    assert "secret" not in said
