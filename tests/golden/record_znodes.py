"""Records golden znodes: what Apache Kafka 3.9.1 in ZooKeeper mode writes, taken out of a real ZooKeeper.

Two brokers (a rack, two listeners), topics small and wide, a move under way, settings of every kind, SCRAM, quotas, a
block of producer ids, a deletion that must wait. Every znode with its data and version goes into znodes-3.9.json.
Run again with `python tests/golden/record_znodes.py` after the jars are in .jars/kafka-3.9.1:
`mvn -f bench/jars/pom.xml -Dkafka.version=3.9.1 dependency:copy-dependencies -DoutputDirectory=$PWD/.jars/kafka-3.9.1`
Read next: tests/packages/zookeeper/test_golden.py, which holds moldau.zookeeper against these bytes.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from moldau.cluster.ensemble import LocalEnsemble
from moldau.cluster.nodes import free_ports
from moldau.ports.zookeeper import Ensemble
from moldau.zookeeper.session import Session

HERE = Path(__file__).resolve().parent
JARS = HERE.parents[1] / ".jars" / "kafka-3.9.1"
SET = AlterConfigOpType.SET
FLAGS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]


def broker(folder: Path, id: int, connect: str) -> tuple[subprocess.Popen[bytes], int]:
    plain, second = free_ports(2)
    properties = {
        "broker.id": id,
        "zookeeper.connect": connect,
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},INSIDE://127.0.0.1:{second}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": folder / f"broker-{id}",
        "broker.rack": "r1" if id == 1 else "r2",
        "offsets.topic.num.partitions": 2,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 2,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    path = folder / f"server-{id}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    with open(folder / f"broker-{id}.log", "wb") as out:
        return subprocess.Popen(["java", *FLAGS, "kafka.Kafka", str(path)], stdout=out, stderr=out), plain


def tool(name: str, *arguments: str) -> None:
    done = subprocess.run(["java", *FLAGS, name, *arguments], capture_output=True, text=True)
    print(name.rpartition(".")[2], done.returncode, done.stdout.strip()[-150:], done.stderr.strip()[-150:])


def work(bootstrap: str, second: subprocess.Popen[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    while len(admin.list_topics(timeout=30).brokers) < 2:
        time.sleep(0.1)
    topics = [
        NewTopic(
            "orders",
            num_partitions=2,
            replica_assignment=[[1, 2], [2, 1]],
            config={"retention.ms": "86400000", "segment.ms": "1000"},
        ),
        NewTopic("wide", num_partitions=14, replication_factor=1),
        NewTopic("with.dots_and-dashes", num_partitions=1, replica_assignment=[[1]]),
        NewTopic("moving", num_partitions=2, replica_assignment=[[1], [1]]),
        NewTopic("going", num_partitions=1, replica_assignment=[[1, 2]]),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    producer.produce("orders", b"x" * 100, partition=0)
    producer.flush(30)
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    transactional.init_transactions(30)
    for resource, name, key, value in (
        (ConfigResource.Type.BROKER, "1", "log.cleaner.threads", "2"),
        (ConfigResource.Type.TOPIC, "orders", "cleanup.policy", "compact"),
    ):
        changed = ConfigResource(
            resource, name, incremental_configs=[ConfigEntry(key, value, incremental_operation=SET)]
        )
        for future in admin.incremental_alter_configs([changed]).values():
            future.result(30)
    configs = ("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter")
    tool(*configs, "--entity-type", "brokers", "--entity-default", "--add-config", "message.max.bytes=2000000")
    quota = "producer_byte_rate=1024,request_percentage=12.5"
    tool(*configs, "--entity-type", "users", "--entity-name", "CN=Joe, O=ä*", "--add-config", quota)
    tool(*configs, "--entity-type", "users", "--entity-name", "u", "--entity-type", "clients", "--entity-default",
         "--add-config", "consumer_byte_rate=2048")  # fmt: skip
    tool(*configs, "--entity-type", "clients", "--entity-name", "c 1", "--add-config", "controller_mutation_rate=5")
    tool(*configs, "--entity-type", "ips", "--entity-name", "127.0.0.1", "--add-config", "connection_creation_rate=7")
    tool(*configs, "--entity-type", "users", "--entity-name", "alice", "--add-config",
         "SCRAM-SHA-256=[iterations=4096,password=pw]")  # fmt: skip
    second.send_signal(signal.SIGSTOP)  # what is moved to it now cannot finish
    move(bootstrap, "moving", [2, 1])
    second.kill()
    second.wait()
    while 2 in admin.list_topics(timeout=30).brokers:
        time.sleep(0.1)
    admin.delete_topics(["going"])  # waits for broker 2, which is dead


def move(bootstrap: str, topic: str, replicas: list[int]) -> None:
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump(plan, file)
        file.flush()
        name = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        tool(name, "--bootstrap-server", bootstrap, "--execute", "--reassignment-json-file", file.name)


async def dumped(connect: str) -> dict[str, dict[str, object]]:
    zk = Session(Ensemble(connect=connect, session_timeout_ms=6000, connection_timeout_ms=6000))
    await zk.start()
    found = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        waiting += [f"{path.rstrip('/')}/{name}" for name in await zk.children(path)]
        data, stat = await zk.get(path)
        if path != "/":
            found[path] = {"data": data.decode(), "version": stat.version, "ephemeral": stat.ephemeral_owner != 0}
    await zk.stop()
    return dict(sorted(found.items()))


def main() -> None:
    with tempfile.TemporaryDirectory() as name, LocalEnsemble(Path(name)) as ensemble:
        folder, connect = Path(name), ensemble.connect + "/kafka"
        started = []
        before: dict[str, dict[str, object]] = {}
        try:
            for id in (1, 2):  # one after the other, so that 1 is controller
                started.append(broker(folder, id, connect))
                while f"/brokers/ids/{id}" not in before:
                    time.sleep(0.5)
                    before = asyncio.run(dumped(connect))
            (_, port), (second, _) = started
            work(f"127.0.0.1:{port}", second)
            after = asyncio.run(dumped(connect))
            after["/brokers/ids/2"] = before["/brokers/ids/2"]
        except BaseException:
            print(*((folder / f"broker-{n}.log").read_text()[-4000:] for n in (1, 2)), file=sys.stderr)
            raise
        finally:
            for process, _ in started:
                process.kill()
                process.wait()
    (HERE / "znodes-3.9.json").write_text(json.dumps(dict(sorted(after.items())), indent=1, ensure_ascii=False) + "\n")
    print(len(after), "znodes", file=sys.stderr)


if __name__ == "__main__":
    main()
