"""One partition that has no leader keeps nobody from reading the others, and is named in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from moldau import Cluster
from moldau.admin import consume as command
from moldau.client.admin import NewTopic, create_topics


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A topic with a partition on each of three brokers, one of which is dead."""
    with Cluster(3, data=tmp_path_factory.mktemp("leaderless") / "cluster") as cluster:
        client = cluster.client()
        topic = NewTopic(name="one", assignment={0: (1,), 1: (2,), 2: (3,)})
        assert client.run(create_topics(client.client, [topic]))["one"].code == 0
        cluster.wait_until_in_sync()
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(30):
            producer.produce("one", b"%d" % number, partition=number % 3)
        assert producer.flush(120) == 0
        cluster.kill(2)
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("group", [(), ("--group", "readers")], ids=["alone", "in a group"])
def test_what_has_a_leader_is_read_and_what_has_none_is_named(
    servers: str, group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LEADERLESS_S", 3.0)
    said = CliRunner().invoke(command.consume, ["one", "--bootstrap-server", servers, *group])
    assert said.exit_code == 1, said.output
    assert sorted(map(int, said.stdout.split())) == [n for n in range(30) if n % 3 != 1]
    assert "moldau: one-1: no leader answers, so not read to the end that it has" in said.stderr
