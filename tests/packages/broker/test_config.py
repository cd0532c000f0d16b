"""server.properties as people have it: listeners by name and protocol, what is told of them, what cannot be served."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.config.node_config import NodeConfig
from moldau.broker.config.warnings_at_start import warn_of_settings
from moldau.model.config_key import ConfigError
from moldau.model.properties import read_properties

FILES = Path(__file__).resolve().parents[2] / "golden" / "server_properties"
SERVED = {
    "apache-docker": ["PLAINTEXT_HOST://localhost:39092", "PLAINTEXT://kafka-2:19092", "CONTROLLER://kafka-2:29093"],
    "bitnami": ["PLAINTEXT://kafka:9092", "EXTERNAL://localhost:9094", "CONTROLLER://kafka:9093"],
    "confluent": ["PLAINTEXT://broker:29092", "PLAINTEXT_HOST://localhost:9092", "CONTROLLER://broker:29093"],
    "debezium": ["PLAINTEXT://172.17.0.2:9092", "CONTROLLER://172.17.0.2:9093"],
    "kafka-3.9-combined": ["PLAINTEXT://localhost:9092", "CONTROLLER://localhost:9093"],
    "kafka-3.9-zookeeper": ["PLAINTEXT://localhost:9092"],
    "kafka-4.3-broker": ["PLAINTEXT://localhost:9092"],
    "kafka-4.3-combined": ["PLAINTEXT://localhost:9092", "CONTROLLER://localhost:9093"],
    "kafka-4.3-controller": ["CONTROLLER://localhost:9093"],
}
"""File -> what others are told of the node that it starts; the same as Apache Kafka 4.3.1 tells of it."""


def config(**changes: str | None) -> NodeConfig:
    """A broker's settings with some changed, or left out (None); underscores stand for dots."""
    settings: dict[str, str | None] = {
        "node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "100@localhost:1", "listeners": "PLAINTEXT://127.0.0.1:9092",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }  # fmt: skip
    return NodeConfig({k: v for k, v in settings.items() if v is not None}, lambda: "host.example")


def shown(config: NodeConfig) -> list[str]:
    return [f"{one.name}://{one.host}:{one.port}" for one in config.advertised]


def of_file(name: str) -> NodeConfig:
    return NodeConfig(read_properties((FILES / f"{name}.properties").read_text()), lambda: "host.example")


# ---- files that people start from ------------------------------------------------------------------------------------


def test_every_file_is_looked_at() -> None:
    assert {path.stem for path in FILES.glob("*.properties")} == {*SERVED, "strimzi"}


@pytest.mark.parametrize("name", SERVED)
def test_a_file_that_starts_kafka_starts_a_node_and_tells_the_same_addresses(name: str) -> None:
    assert shown(of_file(name)) == SERVED[name]


def test_a_file_with_tls_between_brokers_is_refused_with_the_listener_and_the_reason() -> None:
    text = (FILES / "strimzi.properties").read_text()
    with pytest.raises(ConfigError, match=r"broker\.rack: config\.providers are not run"):
        of_file("strimzi")

    written_out = read_properties(text.replace("${strimzienv:STRIMZI_RACK_ID}", "zone-1"))
    with pytest.raises(ConfigError, match=r"CONTROLPLANE-9090 must be PLAINTEXT, the only protocol this version"):
        NodeConfig(written_out)

    in_the_clear = {**written_out, "listener.security.protocol.map": written_out[
        "listener.security.protocol.map"].replace("SSL", "PLAINTEXT")}  # fmt: skip
    assert shown(NodeConfig(in_the_clear)) == ["REPLICATION-9091://pod.svc:9091", "PLAIN-9092://pod.svc:9092"]


def test_what_has_no_effect_and_what_nobody_knows_is_named() -> None:
    found = of_file("bitnami")
    assert found.without_effect == ["num.io.threads", "num.network.threads", "sasl.enabled.mechanisms"]
    assert found.unknown == ["max.partition.fetch.bytes"]
    assert (
        "listener.name.controlplane-9090.ssl.keystore.type"
        in config(**{"listener.name.controlplane-9090.ssl.keystore.type": "PEM"}).without_effect
    )


# ---- listeners -------------------------------------------------------------------------------------------------------


def test_listeners_have_any_names_that_the_map_gives_a_protocol() -> None:
    found = config(
        listeners="internal://127.0.0.1:9092, EXTERNAL://127.0.0.1:9094",
        listener_security_protocol_map=" INTERNAL:PLAINTEXT , external:plaintext,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="internal",
    )
    assert [(one.name, one.protocol) for one in found.listeners] == [
        ("INTERNAL", "PLAINTEXT"), ("EXTERNAL", "PLAINTEXT"),
    ]  # fmt: skip
    assert found.inter_broker_listener == "INTERNAL"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"listener_security_protocol_map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT"}, "PLAINTEXT must be PLAINTEXT"),
        ({"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"}, "listener CONTROLLER must be"),
        ({"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT"}, "does not name it"),
        ({"listener_security_protocol_map": "CONTROLLER:PLAINTEXT"}, "does not name it"),
        ({"listener_security_protocol_map": ""}, "does not name it"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "PLAINTEXT:PLAIN,CONTROLLER:PLAINTEXT"}, "NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,plaintext:SSL"}, "another protocol"),
        ({"listeners": "SSL://127.0.0.1:9092", "security_inter_broker_protocol": "SSL"}, "does not name it"),
        ({"listeners": "SSL://127.0.0.1:9092", "controller_listener_names": "PLAINTEXT"}, "SSL must be PLAINTEXT"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:9092", "controller_listener_names": "PLAINTEXT"}, "TLS and SASL"),
        ({"security_inter_broker_protocol": "SASL_SSL"}, "only protocol this version serves"),
        ({"security_inter_broker_protocol": "PLAINTEXT", "inter_broker_listener_name": "PLAINTEXT"}, "only one of"),
        ({"inter_broker_listener_name": "INSIDE"}, "do not name it; one of PLAINTEXT is expected"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to it"),
        ({"listeners": "PLAINTEXT://[::]:9092"}, "clients cannot connect to it"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to it"),
        ({"advertised_listeners": "OTHER://here:9092"}, "does not name it"),
    ],
)  # fmt: skip
def test_a_listener_that_cannot_be_served_as_it_says_is_refused(changes: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        config(**changes)


@pytest.mark.parametrize(
    ("listeners", "advertised", "told"),
    [
        ("PLAINTEXT://:9092", None, ["PLAINTEXT://localhost:9092"]),
        ("PLAINTEXT://:9092", "PLAINTEXT://:9099", ["PLAINTEXT://localhost:9099"]),
        ("PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://:9092", ["PLAINTEXT://host.example:9092"]),
        ("PLAINTEXT://[::]:9092", "PLAINTEXT://:9092", ["PLAINTEXT://host.example:9092"]),
        ("PLAINTEXT://10.0.0.1:9092", "PLAINTEXT://:9092", ["PLAINTEXT://10.0.0.1:9092"]),
        ("PLAINTEXT://10.0.0.1:9092", None, ["PLAINTEXT://10.0.0.1:9092"]),
    ],
)
def test_an_address_without_a_host_is_told_with_a_name_under_which_it_is_reached(
    listeners: str, advertised: str | None, told: list[str]
) -> None:
    assert shown(config(listeners=listeners, advertised_listeners=advertised)) == told


def test_a_controller_on_all_interfaces_is_told_as_the_voters_know_it_or_with_the_hosts_name() -> None:
    everywhere = {"process_roles": "controller", "listeners": "CONTROLLER://0.0.0.0:9093"}
    assert shown(config(**everywhere, controller_quorum_voters="1@c:9093")) == ["CONTROLLER://c:9093"]
    dynamic = config(**everywhere, controller_quorum_voters=None, controller_quorum_bootstrap_servers="c:9093")
    assert shown(dynamic) == ["CONTROLLER://host.example:9093"]


def test_a_broker_that_the_voters_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"node\.id 1 is among the voters"):
        config(controller_quorum_voters="1@localhost:1")


def test_a_role_that_is_named_twice_counts_once() -> None:
    assert config(process_roles="broker,broker")["process.roles"] == ("broker",)


@pytest.mark.parametrize("text", ["", " ", ","])
def test_folders_that_are_given_empty_are_not_taken_for_the_default(text: str) -> None:
    """Data would go where nobody wrote, and be gone with /tmp."""
    with pytest.raises(ConfigError, match=r"for configuration log\.dirs: a list of folders is expected"):
        config(log_dirs=text)
    with pytest.raises(ConfigError, match=r"for configuration log\.dirs: a list of folders is expected"):
        config(log_dirs=text, log_dir="/data")


def test_a_listener_that_advertised_listeners_leaves_out_is_told_nobody() -> None:
    found = config(
        listeners="PLAINTEXT://127.0.0.1:9092,HIDDEN://0.0.0.0:9094",
        advertised_listeners="PLAINTEXT://here:9092",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,HIDDEN:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    assert shown(found) == ["PLAINTEXT://here:9092"]


def test_loopback_under_another_machines_name_is_pointed_out() -> None:
    told = config(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://broker.example:9092").unreachable()
    assert [(one.name, where.host) for one, where in told] == [("PLAINTEXT", "broker.example")]
    assert not config(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://localhost:9092").unreachable()
    assert not config(listeners="PLAINTEXT://0.0.0.0:9092", advertised_listeners="PLAINTEXT://b:9092").unreachable()


# ---- what cannot be served -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("alter.config.policy.class.name", "com.example.Policy"),
        ("client.quota.callback.class", "com.example.Quotas"),
        ("remote.log.storage.system.enable", "true"),
        ("zookeeper.set.acl", "true"),
        ("zookeeper.ssl.client.enable", "true"),
    ],
)
def test_what_would_be_unsafe_to_leave_out_is_refused_with_the_reason(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {text} for configuration {key}: .*remove the setting"):
        config(**{key: text})
    for off in ["false"] if text == "true" else ["", "  "]:
        config(**{key: off})


def on_zookeeper(protocol_version: str) -> NodeConfig:
    return config(
        process_roles=None, node_id=None, broker_id="1", controller_listener_names=None, controller_quorum_voters=None,
        zookeeper_connect="localhost:2181", inter_broker_protocol_version=protocol_version,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["2.8-IV0", "2.7", "2.7-IV2", "2.0-IV1", "1.1", "0.11.0-IV2", "0.8.2.0"])
def test_a_cluster_on_zookeeper_whose_topics_have_no_ids_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {text} .*protocol.version: below 2.8-IV1 .*raise"):
        on_zookeeper(text)
    config(inter_broker_protocol_version=text)  # KRaft mode knows nothing of it


@pytest.mark.parametrize("text", ["2.8", "2.8-IV1", "3.0", "3.9-IV0", "newest", ""])
def test_a_cluster_on_zookeeper_whose_topics_have_ids_is_not(text: str) -> None:
    on_zookeeper(text)


@given(text=st.text(max_size=40), digits=st.integers(1, 6000))
def test_addresses_are_read_or_refused_whatever_they_are(text: str, digits: int) -> None:
    long = "9" * digits
    for key, value in (
        ("listeners", text), ("listeners", f"PLAINTEXT://h:{long}"), ("advertised.listeners", text),
        ("listener.security.protocol.map", text), ("controller.quorum.voters", f"{long}@h:{long}"),
        ("controller.quorum.voters", text), ("controller.quorum.bootstrap.servers", f"h:{long}"),
        ("http.listener", f"h:{long}"), ("http.listener", text), ("controller.listener.names", text),
        ("inter.broker.listener.name", text), ("listeners", "PLAINTEXT://h:\N{ARABIC-INDIC DIGIT ONE}"),
    ):  # fmt: skip
        with suppress(ConfigError):
            config(**{key: value})


# ---- times that go together ------------------------------------------------------------------------------------------


def test_a_lag_shorter_than_a_followers_fetch_waits_is_refused_as_by_apache_kafka() -> None:
    for lag in ("499", "0", "-1"):
        with pytest.raises(ConfigError, match=rf"Invalid value {lag} .*lag\.time\.max\.ms: at least .* \(500\)"):
            config(replica_lag_time_max_ms=lag)
    config(replica_lag_time_max_ms="0", replica_fetch_wait_max_ms="0")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"group_min_session_timeout_ms": "1800001"}, r"min\.session\.timeout\.ms: .* at most .* \(1800000\)"),
        ({"group_min_session_timeout_ms": "0"}, r"Invalid value 0 .*min\.session\.timeout\.ms: more than 0"),
        ({"group_initial_rebalance_delay_ms": "-1"}, r"Invalid value -1 .*rebalance\.delay\.ms: at least 0"),
    ],
)
def test_times_of_groups_that_no_coordinator_can_keep_are_refused_at_the_start(
    changes: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"broker_heartbeat_interval_ms": "4500"}, []),
        ({"broker_heartbeat_interval_ms": "4501"}, ["more than half of broker.session.timeout.ms=9000"]),
        ({"broker_session_timeout_ms": "100"}, ["more than half of broker.session.timeout.ms=100"]),
        ({"broker_heartbeat_interval_ms": "0"}, ["broker.heartbeat.interval.ms=0 keeps a processor busy"]),
        ({"broker_heartbeat_interval_ms": "-5", "broker_session_timeout_ms": "-20"}, ["more than half", "keeps a"]),
    ],
)
def test_times_of_heartbeats_that_do_nobody_good_are_named_at_the_start(
    changes: dict[str, str], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A session of 100 ms and an interval of 0 ms were taken without a word, and cost 25 to 40 % of a processor."""
    warn_of_settings(config(**changes))
    assert len(caplog.messages) == len(told)
    assert all(part in message for part, message in zip(told, caplog.messages, strict=True))


def test_a_session_with_zookeeper_for_which_there_is_no_time_is_named_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    on_zookeeper = {"process_roles": None, "controller_listener_names": None, "controller_quorum_voters": None}
    settings = {"zookeeper_connect": "localhost:2181", "broker_heartbeat_interval_ms": "0", **on_zookeeper}
    warn_of_settings(config(**settings))
    assert not caplog.messages, "nobody sends heartbeats there"
    warn_of_settings(config(zookeeper_session_timeout_ms="999", **settings))
    [message] = caplog.messages
    assert message.startswith("zookeeper.session.timeout.ms=999 leaves a connection no time")
