"""Moldau's kafka-consumer-groups.sh says what Apache Kafka 4.3.1's says, of the same groups."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import classic_cases
import pytest
from classic import Both, lines
from confluent_kafka import Consumer
from foreign import create_topic
from kafka_peer import wait_until

from moldau.client import groups
from moldau.client.groups import Committed
from moldau.client.sync import Cluster
from moldau.model import TopicPartition
from moldau.wire.batch import build

QUIET_GROUPS = ("calm", "j-calm", "m-calm", "j-spare", "m-spare", "a-group-with-a-name-that-is-wider-than-its-column")
"""No two fall into one place of a table of Java's, where the order would be that of the answers."""

PLANS = {
    "negative": "read,0,-2\n",
    "badname": "#read,0,2\n",
    "good": "read,0,4\nread,2,8\n",
    "group": 'j-calm,read,0,4\nm-calm,read,0,4\n"j-calm",other,2,900\nm-calm,other,2,900\n',
    "many": "read,0,4,5,6\n",
    "word": "word\n",
    "nonumber": "read,x,4\n",
    "half": "read,0,4\nrea",
}

ODD_PLANS = (
    "read,0,4,\n",
    "read,0,4,,\n",
    '"read,0,4\n',
    'read,"0,4\n',
    '"read",0,4\n',
    '"read"x,0,4\n',
    'read,0,4"x"\n',
    "read,99999999999,4\n",
    "read,0,99999999999999999999\n",
    '"topic","partition","offset"\nread,0,4\n',
    "read,0,4.5\n",
    "read, 0, 4\n",
    "read,0,4\r\nread,2,5\r\n",
    "read,0,4\n\nread,2,5\n",
    "read,,4\n",
    "read,0,\n",
    ",0,4\n",
    "read,0,4\nread,0,5\n",
    "read,0,+4\n",
    "read,0,null\n",
    "read,0,00004\n",
    "read,2147483647,4\n",
    "read,2147483648,4\n",
    "read,0,9223372036854775807\n",
    "read,0,9223372036854775808\n",
    "read,0,-9223372036854775809\n",
    "read,0,4,,x\n",
    "read,0,4, \n",
    "read,0,4,,,\n",
    '"read" ,0,4\n',
    ' "read",0,4\n',
    "read,0, 99999999999999999999 \n",
    "read, 99999999999,4\n",
    'read,0,4,""\n',
    '"read",0,-\n',
    "read,0,--4\n",
    'read,"99999999999",4\n',
    'read,0,"99999999999999999999"\n',
    'read,0,"4"x\n',
    "read,9999999999,4\n",
    "read,0,+99999999999999999999\n",
    "read,0,-5\n",
    "read,0000000000000000000000,4\n",
    '"read",0,"99999999999999999999"\n',
    "read,0,4, x \n",
    '"read"\t,0,4\n',
    'x,y,"z\n',
    'read,0,"4" \n',
    'read,0,"9999999999999999999999" \n',
    'read,0,4,"a\n',
    'read,0,4,,"a\n',
    'read,0," null "\n',
    '"re,ad",0,4\n',
)
"""What is read of each is what Jackson reads: quotes, blanks, commas at the end, numbers that are too big."""


@pytest.fixture
def committed(bootstrap_servers: str) -> None:
    """Two topics of three partitions with ten records each, and groups that committed something and are empty."""
    for topic in ("read", "other"):
        create_topic(bootstrap_servers, topic, 3, 2, retention_ms="-1")
    with Cluster(bootstrap_servers) as cluster:

        def no_others() -> bool:
            others = [found.group_id for found in cluster.run(groups.list_groups(cluster.client))]
            cluster.run(groups.delete_groups(cluster.client, others))
            return not others

        # They have names by chance, and two in one place of Java's table have no order. Members may have to expire;
        # a group that cannot be deleted stays.
        with contextlib.suppress(TimeoutError):
            wait_until(no_others, "the groups of other tests are gone", 50)
        for topic in ("read", "other"):
            for number in range(3):
                records = [(1_700_000_000_000 + n, b"k%d" % n, b"value %d" % n, ()) for n in range(10)]
                cluster.produce(TopicPartition(topic, number), build(records))
        positions = {
            TopicPartition("read", 0): Committed(3, 0),
            TopicPartition("read", 2): Committed(7),
            TopicPartition("other", 1): Committed(5),
        }
        for name in QUIET_GROUPS:
            cluster.run(groups.commit(cluster.client, name, positions))


@pytest.fixture
def members(bootstrap_servers: str, committed: None) -> Iterator[None]:
    """Two groups that are stable as long as this lasts: one of a dynamic and a static member, one of a single one."""
    del committed
    common = {"bootstrap.servers": bootstrap_servers, "auto.offset.reset": "earliest", "enable.auto.commit": False}

    def member(group: str, *topics: str, **others: str) -> Consumer:
        named = {key.replace("_", "."): text for key, text in others.items()}
        consumer = Consumer({**common, "group.id": group, **named})
        consumer.subscribe(list(topics))
        return consumer

    consumers = [
        member("live", "read", client_id="one"),
        member("live", "read", client_id="two", group_instance_id="static-2"),
        member("live-two", "read", "other", client_id="three"),
    ]
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            for consumer in consumers:
                record = consumer.poll(0.05)
                if record is not None and record.error() is None and record.offset() == 3:
                    consumer.commit(message=record, asynchronous=False)
        for consumer in consumers:
            consumer.close()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        with Cluster(bootstrap_servers) as cluster:

            def all_read() -> bool:
                found = [cluster.run(groups.committed(cluster.client, name))[1] for name in ("live", "live-two")]
                return [len(one) for one in found] == [3, 6]

            wait_until(all_read, "the members have read and committed")
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.usefixtures("members", "silent")
def test_consumer_groups(both: Both) -> None:
    for name, text in PLANS.items():
        with open(f"{both.names['json']}/{name}.csv", "w") as file:
            file.write(text)
    both.run(lines(classic_cases.GROUPS))
    both.check()


@pytest.mark.usefixtures("committed")
def test_odd_plans_of_new_offsets(both: Both) -> None:
    for number, text in enumerate(ODD_PLANS):
        with open(f"{both.names['json']}/odd-{number}.csv", "w", newline="") as file:
            file.write(text)
    line = (
        "kafka-consumer-groups.sh --bootstrap-server {{b}} --reset-offsets --dry-run --group {} --from-file {{json}}/{}"
    )
    both.run([line.format("calm", f"odd-{number}.csv") for number in range(len(ODD_PLANS))])
    both.run([line.format("j-calm --group m-calm", f"odd-{number}.csv") for number in range(8)])
    both.masks |= {
        r"Spec@[0-9a-f]+": "Spec@(address)",
        r"(?m)^Caused by: \S+\.DisconnectException: .*\n": "",  # what the client did when its time ended
    }
    for name, text in {"nopart": "read,7,4\n", "negative": "read,-1,4\n"}.items():
        with open(f"{both.names['json']}/{name}.csv", "w") as file:
            file.write(text)
    both.run(lines(classic_cases.GROUPS_RESET))
    both.check()
