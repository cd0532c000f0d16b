"""`moldau adopt check` on a cluster of Apache Kafka, and the way there and back by the commands of docs/adopt.md.

`moldau broker roll` of that page, which needs three nodes, is run by test_mixed_kraft.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_peer import java_tool, wait_until
from mixed import KAFKA, MOLDAU, MixedPeer, values_of
from tests.packages.admin.test_examples import words_of

from moldau.admin.adopt_checks import INSTEAD, STATE
from moldau.admin.cli import cli

PEER = {f"transaction.state.log.{key}": 1 for key in ("num.partitions", "replication.factor", "min.isr")}


def shown(place: str, *command: str) -> list[str]:
    """The words of the last line that begins so which a page or a help text shows."""
    return words_of(place, *command)[-1]


def told(words: list[str], **instead: object) -> list[str]:
    """The words with this machine's addresses and files for those that are shown."""
    here = {"kafka-1:9092": instead.get("bootstrap"), "server.properties": instead.get("file")}
    return [str(here.get(word) or word) for word in words]


class AsThePageSays(MixedPeer):
    """Moldau runs a node by the command of docs/adopt.md."""

    def node_command(self, node_id: int) -> list[str]:
        if self.programs[node_id] != MOLDAU:
            return super().node_command(node_id)
        words = told(shown("adopt.md", "node"), file=self.config_file(node_id))
        return [sys.executable, "-m", "moldau", *words]


def check(bootstrap: str) -> tuple[int, dict[str, str]]:
    """The exit code, and how bad each thing is that was found."""
    run = CliRunner().invoke(cli, told(shown("moldau adopt check --help", "adopt", "check"), bootstrap=bootstrap))
    assert run.exit_code in (0, 4), run.output
    return run.exit_code, {one["about"]: one["severity"] for one in json.loads(run.output)}


def test_a_kafka_cluster_is_checked_and_goes_to_moldau_and_back_on_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_pause(_: float) -> None:
        """One look is enough; how Ctrl-C ends one, test_watch.py tells."""
        raise SystemExit(0)

    with AsThePageSays({1: KAFKA}, PEER | {"offsets.topic.num.partitions": 1, "num.io.threads": 3}, tmp_path) as peer:
        where = peer.bootstrap_servers
        code, found = check(where)
        assert code == 0, found
        assert found["group.version"] == found["brokers 1"] == "note"
        file = peer.config_file(1)
        looked = CliRunner().invoke(cli, told(shown("adopt.md", "adopt", "check"), bootstrap=where))
        assert (looked.exit_code, "brokers 1" in looked.output) == (0, True), looked.output
        looked = CliRunner().invoke(cli, told(shown("adopt.md", "doctor"), file=file))
        assert looked.exit_code == 0, looked.output
        looked = CliRunner().invoke(cli, told(shown("moldau doctor --help", "doctor", "server.properties"), file=file))
        assert {one["severity"] for one in json.loads(looked.output)} <= {"note"}, looked.output
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(120)
        producer = Producer({"bootstrap.servers": where, "enable.idempotence": True})
        for number in range(100):
            producer.produce("orders", b"%d" % number, partition=number % 2)
        assert producer.flush(120) == 0
        for program in (MOLDAU, KAFKA):
            peer.change(1, program)
            peer.wait_ready()
            assert sorted(map(int, values_of(where, "orders", 2))) == list(range(100))
            with monkeypatch.context() as patch:
                patch.setattr("moldau.admin.output.time.sleep", no_pause)
                watched = CliRunner().invoke(cli, told(shown("adopt.md", "topic", "describe"), bootstrap=where))
            assert watched.exit_code == 0, watched.output

        in_transactions = Producer({"bootstrap.servers": where, "transactional.id": "bills"})
        in_transactions.init_transactions(120)
        java_tool("kafka-features", "--bootstrap-server", where, "upgrade", "--feature", "group.version=1")
        member = Consumer({"bootstrap.servers": where, "group.id": "newcomers", "group.protocol": "consumer"})
        try:
            member.subscribe(["orders"])
            wait_until(lambda: member.poll(0.2) is not None or bool(member.assignment()), "the group's member")
            code, found = check(where)
        finally:
            member.close()
        assert code == 4
        assert found["groups newcomers"] == found["bills"] == "warning"


def test_each_kind_of_group_is_told_what_takes_its_place() -> None:
    """Share groups were told of group.protocol=classic, which their members do not have."""
    assert "group.protocol" in INSTEAD["group.version"]
    assert "group.protocol" in INSTEAD["streams.version"]
    assert "group.protocol" not in INSTEAD["share.version"]


def test_transactions_are_looked_at_when_a_broker_of_moldau_is_there_already(tmp_path: Path) -> None:
    """One that serves no ListTransactions hid those of the others, and nothing was in the way."""
    with MixedPeer({1: KAFKA, 2: MOLDAU}, PEER | {"transaction.state.log.replication.factor": 2}, tmp_path) as peer:
        where = peer.bootstrap_servers
        assert check(where)[0] == 0
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([NewTopic(STATE, 1, config={}, replica_assignment=[[1, 2]])])[STATE].result(120)
        Producer({"bootstrap.servers": where, "transactional.id": "bills"}).init_transactions(120)
        code, found = check(where)
        assert (code, found[STATE], found["bills"]) == (4, "warning", "warning")
