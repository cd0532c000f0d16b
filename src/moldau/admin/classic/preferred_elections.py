"""kafka-preferred-replica-election.sh of Apache Kafka 2.8.2, with --zookeeper: asks the controller by a znode.

kafka-leader-election.sh has taken its place where brokers are asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moldau.admin.classic.elections import partition_of
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import parse, read_file
from moldau.admin.classic.options import Given, Option
from moldau.admin.classic.run import help_or_version, print_usage
from moldau.admin.classic.scala_sets import scala_set
from moldau.admin.classic.zookeeper_session import ADMIN_FAILED, ADMIN_OPERATION, in_zookeeper
from moldau.ports.zookeeper import NodeExists, NoNode, ZooKeeper
from moldau.terms import TopicPartition
from moldau.zookeeper import paths
from moldau.zookeeper.notes import parse_preferred_election, preferred_election_json

OPTIONS = (
    Option(
        "admin.config",
        "Admin client config properties file to pass to the admin client when --bootstrap-server is given.",
        takes="config file",
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


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    print("This tool is deprecated. Please use kafka-leader-election tool. Tracking issue: KAFKA-8405")
    given = Given(OPTIONS, arguments)
    help_or_version(given, ABOUT)
    if given.has("bootstrap-server") == given.has("zookeeper"):
        return print_usage(given.options, "Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided")
    path = given.value("path-to-json-file")
    wanted = None if path is None else _read(path)
    if given.has("bootstrap-server"):
        what = "kafka-preferred-replica-election.sh asks ZooKeeper only: use kafka-leader-election.sh"
        raise JavaError("java.lang.UnsupportedOperationException", what)
    print("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
    print("Use --bootstrap-server instead to specify a broker to connect to.")

    async def work(zk: ZooKeeper) -> int:
        try:
            await _elect(zk, wanted)
        except JavaError as error:
            raise JavaError(ADMIN_FAILED, "Admin command failed", error) from None
        return 0

    return in_zookeeper(given.text("zookeeper"), work)


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
    there = [one for topic in topics for one in await _partitions(zk, topic)]
    chosen = there if wanted is None else [one for one in wanted if one in there]
    try:
        await zk.create(paths.PREFERRED_ELECTION, preferred_election_json(chosen))
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
