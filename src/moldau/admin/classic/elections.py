"""kafka-leader-election.sh: has leaders elected, the preferred ones or any that are left."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_json import Json, parse, read_file
from moldau.admin.classic.java_order import hash_order, partition_hash
from moldau.admin.classic.kafka_errors import kafka_error
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version, tell
from moldau.admin.classic.session import ADMIN_FAILED, ADMIN_OPERATION, ToolSession, executed, read_config
from moldau.client import admin
from moldau.client.admin import ElectionType
from moldau.client.view import Outcome
from moldau.model import Code, TopicPartition

OPTIONS = (
    Option(
        "admin.config",
        "(DEPRECATED) Configuration properties files to pass to the admin client. This option will be "
        "removed in a future version. Use --command-config instead.",
        takes="config file",
    ),
    Option(
        "all-topic-partitions",
        "Perform election on all of the eligible topic partitions based on the type of election (see the "
        "--election-type flag). Not allowed if --topic or --path-to-json-file is specified.",
    ),
    Option(
        "bootstrap-server",
        "A hostname and port for the broker to connect to, in the form host:port. Multiple comma separated "
        "URLs can be given. REQUIRED.",
        takes="host:port",
    ),
    Option("command-config", "Config properties file to pass to the admin client.", takes="Config file"),
    Option(
        "election-type",
        'Type of election to attempt. Possible values are "preferred" for preferred leader election or '
        '"unclean" for unclean leader election. If preferred election is selection, the election is only '
        "performed if the current leader is not the preferred leader for the topic partition. If unclean "
        "election is selected, the election is only performed if there are no leader for the topic "
        "partition. REQUIRED.",
        takes="election type",
        type="[PREFERRED,UNCLEAN]",
    ),
    Option(
        "partition",
        "Partition id for which to perform an election. REQUIRED if --topic is specified.",
        takes="partition id",
        type="Integer",
    ),
    Option(
        "path-to-json-file",
        "The JSON file with the list  of partition for which leader elections should be performed. This is "
        'an example format. \n{"partitions":\n\t[{"topic": "foo", "partition": 1},\n\t {"topic": '
        '"foobar", "partition": 2}]\n}\nNot allowed if --all-topic-partitions or --topic flags are '
        "specified.",
        takes="Path to JSON file",
    ),
    Option(
        "topic",
        "Name of topic for which to perform an election. Not allowed if --path-to-json-file or "
        "--all-topic-partitions is specified.",
        takes="topic name",
    ),
)

ABOUT = (
    "This tool attempts to elect a new leader for a set of topic partitions. "
    "The type of elections supported are preferred replicas and unclean replicas."
)
DEPRECATED = (
    "Option --admin.config has been deprecated and will be removed in a future version. Use --command-config instead."
)
TIMEOUT_MS = 30_000


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        help_or_version(given, ABOUT)
        _validate(given)
        _run(given)
    except JavaError as error:
        return tell(error)
    return 0


def _run(given: GivenOptions) -> None:
    try:
        kind = ElectionType[given.text("election-type").upper()]
    except KeyError:
        text = given.text("election-type")
        why = JavaError("joptsimple.ValueConversionException", f"Value [{text}] is not one of [[PREFERRED,UNCLEAN]]")
        raise given.unreadable("election-type", text, why) from None
    path, topic, number = given.value("path-to-json-file"), given.value("topic"), given.integer("partition")
    partitions: list[TopicPartition] | None = None
    if path is not None:
        partitions = _read(path)
    elif topic is not None and number is not None:
        partitions = [TopicPartition(topic, number)]
    if given.has("admin.config"):
        print(DEPRECATED)
    config = read_config(given.value("admin.config" if given.has("admin.config") else "command-config"))
    config.setdefault("default.api.timeout.ms", str(TIMEOUT_MS))
    config.setdefault("request.timeout.ms", str(TIMEOUT_MS // 2))
    with ToolSession(config, given.text("bootstrap-server")) as session:
        _elect(session, kind, partitions)


def _validate(given: GivenOptions) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if not given.has(name)]
    if missing:
        raise JavaError(ADMIN_FAILED, f"Missing required option(s): {', '.join(missing)}")
    given.exclude("admin.config", ["command-config"])
    ways = ("topic", "all-topic-partitions", "path-to-json-file")
    if sum(map(given.has, ways)) != 1:
        raise JavaError(ADMIN_FAILED, f"One and only one of the following options is required: {', '.join(ways)}")
    if given.has("topic") and not given.has("partition"):
        raise JavaError(ADMIN_FAILED, "Missing required option(s): partition")
    if not given.has("topic") and given.has("partition"):
        raise JavaError(ADMIN_FAILED, "Option partition is only allowed if topic is used")


def _read(path: str) -> list[TopicPartition]:
    try:
        found = parse(read_file(path))
        if found is None:
            raise JavaError(ADMIN_OPERATION, "Replica election data is empty")
        listed = found.get("partitions")
        if listed is None:
            raise JavaError(ADMIN_OPERATION, 'Replica election data is missing "partitions" field')
        partitions = [partition_of(one) for one in listed.items()]
    except JavaError as error:
        if error.kind == ADMIN_OPERATION:
            raise
        raise JavaError("java.lang.RuntimeException", str(error), error) from None
    twice = [p for p in hash_order(partitions, partition_hash) if partitions.count(p) > 1]
    if twice:
        shown = f"[{', '.join(map(str, twice))}]"
        raise JavaError(ADMIN_OPERATION, f"Replica election data contains duplicate partitions: {shown}")
    return partitions


def partition_of(one: Json) -> TopicPartition:
    """The partition that an object of a JSON file names."""
    return TopicPartition(one.field("topic").text(), one.field("partition").integer())


def _elect(session: ToolSession, kind: ElectionType, partitions: Sequence[TopicPartition] | None) -> None:
    try:
        code, outcomes = session.ask("electLeaders", admin.elect_leaders, partitions, kind)
    except JavaError as error:
        if error.kind.endswith(".TimeoutException"):
            raise _failed("Timeout waiting for election results", error) from None
        raise JavaError("java.lang.RuntimeException", str(executed(error)), executed(error)) from None
    if code is Code.REQUEST_TIMED_OUT:
        raise _failed("Timeout waiting for election results", kafka_error(code))
    if code is Code.CLUSTER_AUTHORIZATION_FAILED:
        raise _failed("Not authorized to perform leader election", None)
    if code is not Code.NONE:
        refused = executed(kafka_error(code))
        raise JavaError("java.lang.RuntimeException", str(refused), refused)
    _report(kind, outcomes)


def _report(kind: ElectionType, outcomes: dict[TopicPartition, Outcome]) -> None:
    order = hash_order(outcomes, partition_hash)
    done = [str(p) for p in order if outcomes[p].ok]
    as_before = [str(p) for p in order if outcomes[p].code is Code.ELECTION_NOT_NEEDED]
    failed = [p for p in order if outcomes[p].code not in (Code.NONE, Code.ELECTION_NOT_NEEDED)]
    if done:
        print(f"Successfully completed leader election ({kind.name}) for partitions {', '.join(done)}")
    if as_before:
        print(f"Valid replica already elected for partitions {', '.join(as_before)}")
    for p in failed:
        why = kafka_error(outcomes[p].code, outcomes[p].message)
        print(f"Error completing leader election ({kind.name}) for partition: {p}: {why}")
    if failed:
        suppressed = [kafka_error(outcomes[p].code, outcomes[p].message) for p in failed]
        raise JavaError(ADMIN_FAILED, f"{len(failed)} replica(s) could not be elected", suppressed=suppressed)


def _failed(message: str, cause: JavaError | None) -> JavaError:
    print(message)
    return JavaError(ADMIN_FAILED, message, cause)
