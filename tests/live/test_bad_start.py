"""Nodes that are told nonsense, or find their place taken: a clear answer in one line, and nobody else is harmed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from foreign import read_confluent
from kafka_peer import wait_until
from one_node import CLUSTER_ID, OneNode

import moldau
from moldau.broker.config.storage_format import METADATA_FOLDER
from moldau.cluster.cluster import ClusterError

Make = Callable[..., OneNode]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Make]:
    """Makes nodes, each with a folder of its own, and ends them."""
    made: list[OneNode] = []

    def make(more: dict[str, object] | None = None) -> OneNode:
        made.append(OneNode(tmp_path / f"node-{len(made)}", more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[moldau.Cluster]:
    """Four brokers, the last of them no controller; shared, because nobody may hurt it.

    A broker that a busy machine keeps from its heartbeats loses its place to another one of its number, as it should.
    """
    with moldau.Cluster(brokers=4, config={"broker.session.timeout.ms": "60000"}) as cluster:
        yield cluster


def write_and_read(bootstrap: str, topic: str) -> None:
    """A round trip: whoever it passes through is unharmed."""
    producer = Producer({"bootstrap.servers": bootstrap})
    errors: list[object] = []
    producer.produce(topic, b"still here", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(120) == 0
    assert errors == [None]
    assert read_confluent(bootstrap, topic, 1)[0][1] == b"still here"


# ---- configuration ---------------------------------------------------------------------------------------------------


def test_an_unknown_key_is_named_in_a_warning_and_the_node_serves(node: Make) -> None:
    one = node({"log.retention.hour": 3, "some.plugin.url": "http://here"}).format().start()

    for key in ("log.retention.hour", "some.plugin.url"):
        assert any("WARN" in line and key in line for line in one.text.splitlines()), one.text
    write_and_read(one.bootstrap, "unharmed")
    assert one.stop() == 0


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("num.partitions", "many", "a whole number"),
        ("num.partitions", "0", "at least 1"),
        ("log.segment.bytes", "13", "at least 1048576"),
        ("log.segment.bytes", "99999999999", ""),
        ("process.roles", "brokers", "broker"),
        ("compression.type", "rar", "zstd"),
        ("auto.create.topics.enable", "perhaps", "true"),
        ("listeners", "nonsense", "NAME://host:port"),
        ("listeners", "PLAINTEXT://127.0.0.1:70000", "NAME://host:port"),
        ("controller.quorum.voters", "localhost:9093", "id@host:port"),
        ("node.id", "-5", "at least 0"),
        ("node.id", "first", "a whole number"),
        ("log.message.timestamp.type", "Yesterday", "CreateTime"),
    ],
)
def test_a_bad_value_stops_the_start_with_key_value_and_what_is_allowed(
    node: Make, key: str, value: str, allowed: str
) -> None:
    one = node({key: value})

    code, text = one.fail()

    assert code == 1
    assert len(text.strip().splitlines()) == 1, text
    for word in (str(one.file), key, value, allowed):
        assert word in text
    assert not one.data.exists(), "a start that was refused made folders"


@pytest.mark.parametrize("key", ["node.id", "process.roles", "controller.listener.names", "controller.quorum.voters"])
def test_a_missing_key_is_named(node: Make, key: str) -> None:
    one = node()
    one.file.write_text("".join(f"{name}={value}\n" for name, value in one.settings.items() if name != key))

    code, text = one.fail()

    assert code == 1
    assert key in text


def test_a_properties_file_that_is_not_there_is_named(node: Make, tmp_path: Path) -> None:
    one = node()
    one.file = tmp_path / "nowhere.properties"

    code, text = one.fail()

    assert code == 1
    assert "nowhere.properties" in text


# ---- folders ---------------------------------------------------------------------------------------------------------


def test_an_unformatted_folder_is_refused_with_the_command_that_formats_it(node: Make) -> None:
    one = node()

    code, text = one.fail()

    assert code == 1
    assert str(one.data) in text
    assert "moldau storage format" in text


def test_a_folder_of_another_node_is_refused(node: Make) -> None:
    one = node().format()
    meta = one.data / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))

    code, text = one.fail()

    assert code == 1
    assert "7" in text
    assert "node.id" in text


def test_folders_of_two_clusters_are_refused(node: Make, tmp_path: Path) -> None:
    one = node({"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}).format()
    meta = tmp_path / "b" / "meta.properties"
    meta.write_text(meta.read_text().replace(CLUSTER_ID, "c29tZS1vdGhlci1jbHVzdA"))

    code, text = one.fail()

    assert code == 1
    assert CLUSTER_ID in text
    assert "c29tZS1vdGhlci1jbHVzdA" in text


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_controller_does_not_begin_a_cluster_over_logs_of_a_broker_in_zookeeper_mode(
    node: Make, tmp_path: Path, elsewhere: bool
) -> None:
    """It elected itself without any topic, and the first that a client had made took the place of one with records."""
    where = {"log.dirs": str(tmp_path / "a")} | ({"metadata.log.dir": str(tmp_path / "meta")} if elsewhere else {})
    one = node(where).format()
    meta = tmp_path / "a" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id", "broker.id").replace("version=1", "version=0"))

    code, text = one.fail()

    assert code == 1
    assert "is of a broker in ZooKeeper mode" in text
    assert "moldau migrate" in text
    assert not list(tmp_path.glob("*/__cluster_metadata-0"))


@pytest.mark.parametrize("has_one_too", [False, True])
def test_a_metadata_log_in_another_log_directory_is_named_and_no_second_one_is_begun(
    node: Make, tmp_path: Path, has_one_too: bool
) -> None:
    """The order of log.dirs was changed: a node began an empty metadata log, and a majority of such lost all topics."""
    first, second = tmp_path / "a", tmp_path / "b"
    one = node({"log.dirs": f"{first},{second}"}).format().start()
    assert one.stop() == 0
    if has_one_too:
        (second / METADATA_FOLDER).mkdir()
    one.file.write_text(one.file.read_text().replace(f"{first},{second}", f"{second},{first}"))
    before = sorted(tmp_path.glob("[ab]/**/*"))

    code, text = one.fail()

    assert code == 1
    for word in (f"{first}/{METADATA_FOLDER}", str(second), f"metadata.log.dir={first}"):
        assert word in text
    assert sorted(tmp_path.glob("[ab]/**/*")) == before
    if not has_one_too:
        one.file.write_text(f"{one.file.read_text()}\nmetadata.log.dir={first}\n")
        one.start()


@pytest.mark.parametrize("damage", ["garbage", "empty"])
def test_a_damaged_meta_properties_is_named(node: Make, damage: str) -> None:
    one = node().format()
    (one.data / "meta.properties").write_bytes(b"\x00\xff\x00" if damage == "garbage" else b"")

    code, text = one.fail()

    assert code == 1
    assert "meta.properties" in text


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x07garbage\xff"], ids=["empty", "no fields", "garbage"])
def test_a_damaged_quorum_state_is_named(node: Make, damage: bytes) -> None:
    one = node().format()
    metadata = one.data / METADATA_FOLDER
    metadata.mkdir(exist_ok=True)
    (metadata / "quorum-state").write_bytes(damage)

    assert "quorum-state" in one.fail().text


def test_a_properties_file_may_begin_with_a_byte_order_mark(node: Make) -> None:
    one = node()
    one.file.write_bytes(b"\xef\xbb\xbf" + one.file.read_bytes())
    one.format().start()


def test_a_data_folder_that_cannot_be_written_is_named(node: Make) -> None:
    """Root is not stopped by permissions: it gives up that power first."""
    one = node().format()
    for path in (one.data, *one.data.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)

    code, text = one.fail(*(("setpriv", "--bounding-set", "-dac_override") if os.geteuid() == 0 else ()))

    assert code == 1
    assert str(one.data) in text
    assert "denied" in text.lower()


def test_a_node_that_waits_for_its_quorum_can_be_told_to_stop(node: Make) -> None:
    one = node()
    voters = f"{one.settings['controller.quorum.voters']},2@127.0.0.1:9,3@127.0.0.1:9"
    one.file.write_text(one.file.read_text().replace(str(one.settings["controller.quorum.voters"]), voters))
    one.format().launch()
    wait_until(lambda: "starts as" in one.text, "it takes part in the quorum")

    assert one.stop() == 0


# ---- places that are taken -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_a_taken_port_is_named_with_its_listener(node: Make, listener: str) -> None:
    first, second = node().format().start(), node()
    port = first.port if listener == "PLAINTEXT" else first.controller_port
    mine = second.port if listener == "PLAINTEXT" else second.controller_port
    second.file.write_text(second.file.read_text().replace(f":{mine}", f":{port}"))
    second.format()

    code, text = second.fail()

    assert code == 1
    for word in (str(port), listener, "in use"):
        assert word in text
    assert first.is_alive
    write_and_read(first.bootstrap, "unharmed")


def test_a_second_process_on_the_same_folder_is_refused(node: Make) -> None:
    first, second = node().format().start(), node()
    text = second.file.read_text().replace(str(second.data), str(first.data))
    second.file.write_text(text)

    code, said = second.fail()

    assert code == 1
    assert str(first.data) in said
    assert "in use by another process" in said
    assert first.is_alive
    write_and_read(first.bootstrap, "unharmed")


def impostor(node: Make, cluster: moldau.Cluster, cluster_id: str) -> OneNode:
    """A broker that says it is number 4, of the given cluster, with a folder and a port of its own."""
    voters = ",".join(f"{one.id}@127.0.0.1:{one.controller_port}" for one in cluster.spec.nodes if one.controller_port)
    one = node({"process.roles": "broker", "node.id": 4, "controller.quorum.voters": voters})
    one.file.write_text(one.file.read_text().replace(f",CONTROLLER://127.0.0.1:{one.controller_port}", ""))
    return one.format(cluster_id)


def test_a_second_node_with_the_id_of_a_living_one_is_refused_and_the_first_lives_on(
    node: Make, cluster: moldau.Cluster
) -> None:
    before = cluster.pid(4)
    cluster.create_topic("of-the-first", partitions=4, replication_factor=1)
    second = impostor(node, cluster, cluster.cluster_id)

    code, text = second.fail()

    assert code == 1
    assert "another live broker is registered under node.id 4" in text
    assert cluster.pid(4) == before
    cluster.wait_until(lambda: set(cluster.client().brokers()) == {1, 2, 3, 4}, "all live")
    assert cluster.client().brokers()[4].port == cluster.node(4).port
    write_and_read(cluster.bootstrap_servers, "of-the-first")


def test_a_node_of_another_cluster_is_refused(node: Make, cluster: moldau.Cluster) -> None:
    cluster.terminate(4)  # its number is free
    stranger = impostor(node, cluster, CLUSTER_ID)
    try:
        code, text = stranger.fail()
    finally:
        cluster.restart(4)

    assert code == 1
    assert "cluster" in text.lower()
    assert CLUSTER_ID in text
    cluster.wait_until(lambda: set(cluster.client().brokers()) == {1, 2, 3, 4}, "all live")
    assert (
        not (stranger.data / METADATA_FOLDER / "00000000000000000000.log").exists()
        or not (stranger.data / METADATA_FOLDER / "00000000000000000000.log").stat().st_size
    ), "it took the other cluster's metadata"


def test_a_controller_of_another_cluster_stops_and_the_quorum_of_the_others_does_not_care(tmp_path: Path) -> None:
    cluster = moldau.Cluster(brokers=3, data=tmp_path)
    meta = Path(cluster.node(3).folder) / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace(cluster.cluster_id, CLUSTER_ID))
    try:
        with pytest.raises(ClusterError, match="belong to another cluster"):
            cluster.start()
        cluster.wait_for_brokers([1, 2])
        cluster.create_topic("of-two", partitions=2, replication_factor=2)
        write_and_read(cluster.bootstrap_servers, "of-two")
        assert cluster.alive() == [1, 2]
    finally:
        cluster.close()
