"""Records golden frames: what real clients and a real Apache Kafka broker say to each other, taken off the wire.

A proxy stands between the peer (which advertises the proxy's port) and Kafka's Java tools, librdkafka, kafka-python and
aiokafka. One exchange per client, api and version is kept in frames.json, with ids and names as they came.
Run it again (`python tests/golden/record.py`, needs `make jars`) when the peer or a client gets a new version.
Read next: tests/packages/wire/test_golden.py, which holds moldau.wire against these bytes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "live"))

from kafka_peer import KafkaPeer, free_port, java_tool  # noqa: E402

WANTED = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 19, 20, 22, 32, 60}
LARGEST = 2_500
TOPIC, GROUP = "golden-topic", "golden-group"


class Tap(threading.Thread):
    """Forwards connections from its port to the broker's and keeps what fits the rules above."""

    def __init__(self, port: int, broker_port: int) -> None:
        super().__init__(daemon=True)
        self.broker_port = broker_port
        self.client = ""
        self.kept: dict[tuple[str, int, int], tuple[bytes, bytes]] = {}
        self.server = socket.create_server(("127.0.0.1", port))

    def run(self) -> None:
        while True:
            near, _ = self.server.accept()
            far = socket.create_connection(("127.0.0.1", self.broker_port))
            asked: dict[int, bytes] = {}
            heard = self._response(self.client, asked)
            for source, target, note in ((near, far, self._request(asked)), (far, near, heard)):
                threading.Thread(target=_forward, args=(source, target, note), daemon=True).start()

    def _request(self, asked: dict[int, bytes]) -> Callable[[bytes], None]:
        def note(frame: bytes) -> None:
            asked[int.from_bytes(frame[4:8], "big")] = frame

        return note

    def _response(self, client: str, asked: dict[int, bytes]) -> Callable[[bytes], None]:
        def note(frame: bytes) -> None:
            request = asked.pop(int.from_bytes(frame[:4], "big"), None)
            if request is None or len(request) > LARGEST or len(frame) > LARGEST:
                return
            key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
            kept = self.kept.get((client, key, version))
            # of several, the one that says most: an empty fetch shows little
            if key in WANTED and (kept is None or sum(map(len, kept)) < len(request) + len(frame)):
                self.kept[client, key, version] = request, frame

        return note


def _forward(source: socket.socket, target: socket.socket, note: Callable[[bytes], None]) -> None:
    with closing(source), closing(target):
        stream = source.makefile("rb")
        while len(head := stream.read(4)) == 4:
            frame = stream.read(int.from_bytes(head, "big"))
            note(frame)
            try:
                target.sendall(head + frame)
            except OSError:
                return


def java(address: str) -> None:
    there = ("--bootstrap-server", address)
    java_tool(
        "kafka-topics", *there, "--create", "--topic", TOPIC, "--partitions", 2, "--config", "retention.ms=86400000"
    )
    java_tool("kafka-topics", *there, "--describe", "--topic", TOPIC)
    java_tool("kafka-console-producer", *there, "--topic", TOPIC, stdin="one\ntwo\nthree\n")
    java_tool(
        "kafka-console-consumer", *there, "--topic", TOPIC, "--group", GROUP, "--from-beginning", "--max-messages", 3,
        "--timeout-ms", 20_000, "--consumer-property", "auto.commit.interval.ms=100",
    )  # fmt: skip
    java_tool("kafka-consumer-groups", *there, "--describe", "--group", GROUP)
    java_tool("kafka-get-offsets", *there, "--topic", TOPIC)
    java_tool("kafka-topics", *there, "--create", "--topic", "golden-gone")
    java_tool("kafka-topics", *there, "--delete", "--topic", "golden-gone")


def librdkafka(address: str) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    producer.produce(TOPIC, b"value", b"key", headers={"h": b"x", "nil": None})
    producer.flush(20)
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": GROUP + "-rdk", "auto.offset.reset": "earliest",
         "fetch.wait.max.ms": 50}
    )  # fmt: skip
    consumer.subscribe([TOPIC])
    while consumer.poll(20) is None:
        continue
    consumer.commit(asynchronous=False)
    consumer.close()


def kafka_python(address: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=address, client_id="kafka-python")
    producer.send(TOPIC, b"value", b"key", headers=[("h", b"x")]).get(20)
    producer.close()
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=address, group_id=GROUP + "-kpy", auto_offset_reset="earliest", fetch_max_wait_ms=50
    )
    next(consumer)
    consumer.commit()
    consumer.close()


def aiokafka(address: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def talk() -> None:
        async with AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"value", b"key", headers=[("h", b"x")])
        async with AIOKafkaConsumer(
            TOPIC, bootstrap_servers=address, group_id=GROUP + "-aio", auto_offset_reset="earliest",
            fetch_max_wait_ms=50, heartbeat_interval_ms=100,
        ) as consumer:  # fmt: skip
            await consumer.getone()
            await asyncio.sleep(0.5)
            await consumer.commit()

    asyncio.run(talk())


def main() -> None:
    port = free_port()
    with KafkaPeer(1, {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as peer:
        tap = Tap(port, peer.ports[1][0])
        tap.start()
        for name, talk in (
            ("java", java),
            ("librdkafka", librdkafka),
            ("kafka-python", kafka_python),
            ("aiokafka", aiokafka),
        ):
            tap.client = name
            talk(f"127.0.0.1:{port}")
    frames = [
        {"client": client, "key": key, "version": version, "request": request.hex(), "response": response.hex()}
        for (client, key, version), (request, response) in sorted(
            tap.kept.items(), key=lambda kept: kept[0][1:] + kept[0][:1]
        )
    ]
    lines = ",\n".join(json.dumps(frame) for frame in frames)
    (HERE / "frames.json").write_text(f"[\n{lines}\n]\n")
    print(len(frames), "exchanges kept")


if __name__ == "__main__":
    main()
