"""kafka-preferred-replica-election.sh of Apache Kafka 2.8.2: asks the controller by a znode, or a broker.

kafka-leader-election.sh has taken its place where brokers are asked.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

from moldau.admin.classic.elections import partition_of
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import parse, read_file
from moldau.admin.classic.java_order import partition_hash
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version, print_usage
from moldau.admin.classic.scala_sets import scala_set, table_order
from moldau.admin.classic.session import ToolSession, executed, read_config
from moldau.admin.classic.zookeeper_session import ADMIN_FAILED, ADMIN_OPERATION, fitting, in_zookeeper
from moldau.client import admin
from moldau.client.admin import ElectionType
from moldau.model import Code, TopicPartition
from moldau.ports.zookeeper import NodeExists, NoNode, ZooKeeper
from moldau.zookeeper import paths
from moldau.zookeeper.notes import parse_preferred_election, preferred_election_json

READS_AT_ONCE = 200
"""How many znodes are asked for at once: one after the other, 30,000 topics took 17 s."""
OPTIONS = (
    Option(
        "admin.config",
        "Admin client config properties file to pass to the admin client when --bootstrap-server is given.",
        takes="config file",
        available_if=("bootstrap-server",),
    ),
    Option(
        "bootstrap-server",
        "A hostname and port for the broker to connect to, in the form host:port. Multiple comma-separated URLs can "
        "be given. REQUIRED unless --zookeeper is given.",
        takes="host:port",
    ),
    Option(
        "path-to-json-file",
        "The JSON file with the list of partitions for which preferred replica leader election should be done, in "
        'the following format - \n{"partitions":\n\t[{"topic": "foo", "partition": 1},\n\t {"topic": "foobar", '
        '"partition": 2}]\n}\nDefaults to all existing partitions',
        takes="list of partitions for which preferred replica leader election needs to be triggered",
    ),
    Option(
        "zookeeper",
        "DEPRECATED. The connection string for the zookeeper connection in the form host:port. Multiple URLS can be "
        "given to allow fail-over. Replaced by --bootstrap-server, REQUIRED unless --bootstrap-server is given.",
        takes="urls",
    ),
)
ABOUT = (
    "This tool helps to causes leadership for each partition to be transferred back to the 'preferred replica', it can "
    "be used to balance leadership among the servers."
)
TIMEOUT_MS = 30_000


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    print("This tool is deprecated. Please use kafka-leader-election tool. Tracking issue: KAFKA-8405")
    given = GivenOptions(OPTIONS, arguments)
    help_or_version(given, ABOUT)
    if given.has("bootstrap-server") == given.has("zookeeper"):
        return print_usage(given.options, "Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided")
    path = given.value("path-to-json-file")
    wanted = None if path is None else _read(path)
    if given.has("bootstrap-server"):
        _ask_brokers(given, wanted)
        return 0
    print("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
    print("Use --bootstrap-server instead to specify a broker to connect to.")

    async def work(zk: ZooKeeper) -> int:
        try:
            await _elect(zk, wanted)
        except JavaError as error:
            raise JavaError(ADMIN_FAILED, "Admin command failed", error) from None
        return 0

    return in_zookeeper(given.text("zookeeper"), work)


def _ask_brokers(given: GivenOptions, wanted: Sequence[TopicPartition] | None) -> None:
    times = {"request.timeout.ms": str(TIMEOUT_MS), "default.api.timeout.ms": str(2 * TIMEOUT_MS)}
    config = {**read_config(given.value("admin.config")), **times}
    with ToolSession(config, given.text("bootstrap-server")) as session:
        try:
            code, outcomes = session.ask("electLeaders", admin.elect_leaders, wanted, ElectionType.PREFERRED)
        except JavaError as error:
            if error.kind.endswith(".TimeoutException"):
                raise _failed("Timeout waiting for election results", error) from None
            raise executed(error) from None
    if code is Code.REQUEST_TIMED_OUT:
        raise _failed("Timeout waiting for election results", kafka_error(code))
    if code is Code.CLUSTER_AUTHORIZATION_FAILED:
        raise _failed("Not authorized to perform leader election", kafka_error(code))
    if code is not Code.NONE:
        raise executed(kafka_error(code))
    order = table_order(outcomes, partition_hash)
    done = ", ".join(str(one) for one in order if outcomes[one].ok)
    failed = [one for one in order if outcomes[one].code not in (Code.NONE, Code.ELECTION_NOT_NEEDED)]
    if done:
        print(f"Successfully completed preferred leader election for partitions {done}")
    if any(one.code is Code.ELECTION_NOT_NEEDED for one in outcomes.values()):
        print(f"Preferred replica already elected for partitions {done}")  # those of the line above, in Kafka too
    causes = {one: kafka_error(outcomes[one].code, outcomes[one].message) for one in failed}
    for one, why in causes.items():
        print(f"Error completing preferred leader election for partition: {one}: {why}")
    if causes:
        what = f"{len(causes)} preferred replica(s) could not be elected"
        raise JavaError(ADMIN_FAILED, what, suppressed=list(causes.values()))


def _failed(message: str, cause: JavaError) -> JavaError:
    print(message)
    return JavaError(ADMIN_FAILED, message, cause)


def _read(path: str) -> list[TopicPartition]:
    found = parse(read_file(path))
    listed = None if found is None else found.get("partitions")
    if listed is None:
        raise JavaError(ADMIN_OPERATION, "Preferred replica election data is empty")
    partitions = [partition_of(one) for one in listed.items()]
    twice = [one for one, count in Counter(partitions).items() if count > 1]
    if twice:
        shown = ",".join(map(str, twice))
        raise JavaError(ADMIN_OPERATION, f"Preferred replica election data contains duplicate partitions: {shown}")
    return partitions


async def _elect(zk: ZooKeeper, wanted: Sequence[TopicPartition] | None) -> None:
    topics = await zk.children(paths.TOPICS) if wanted is None else list(dict.fromkeys(one.topic for one in wanted))
    there: dict[TopicPartition, None] = {}
    for first in range(0, len(topics), READS_AT_ONCE):
        some = topics[first : first + READS_AT_ONCE]
        found = await asyncio.gather(*(_partitions(zk, topic) for topic in some))
        there.update(dict.fromkeys(itertools.chain.from_iterable(found)))
    chosen = list(there) if wanted is None else [one for one in wanted if one in there]
    try:
        await zk.create(paths.PREFERRED_ELECTION, fitting(preferred_election_json(chosen)))
    except NodeExists:
        under_way = parse_preferred_election((await zk.get(paths.PREFERRED_ELECTION))[0])
        what = f"in progress for {','.join(map(str, under_way))}. Aborting operation"
        raise JavaError(ADMIN_OPERATION, f"Preferred replica leader election currently {what}") from None
    name, order = scala_set(chosen, of=chosen if wanted is None else wanted)
    print(f"Created preferred replica election path with {','.join(map(str, order))}")
    print(f"Successfully started preferred replica election for partitions {name}({', '.join(map(str, order))})")
    for one in scala_set([one for one in wanted or () if one not in there], of=wanted or ())[1]:
        print(f"Skipping preferred replica leader election for partition {one} since it doesn't exist.")


async def _partitions(zk: ZooKeeper, topic: str) -> list[TopicPartition]:
    try:
        names = await zk.children(paths.partitions(topic))
    except NoNode:
        return []
    return [TopicPartition(topic, int(name)) for name in names]
