"""kafka-cluster.sh: the id of a cluster and its brokers; makes the cluster forget a broker that is gone."""

from __future__ import annotations

from moldau.admin.classic.argparse4j import INTEGER, Words, run_tool
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.java import JavaError, illegal_argument
from moldau.admin.classic.kafka_errors import PACKAGE, kafka_error
from moldau.admin.classic.run import tell
from moldau.admin.classic.session import ToolSession, executed, read_config, without_bootstrap
from moldau.client import admin
from moldau.model import Code
from moldau.wire.messages.k60_describe_cluster import DescribeClusterResponse

_CONFIG = (
    "(DEPRECATED) A property file containing configurations for the Admin client. This option will be removed in a "
    "future version. Use --command-config instead."
)


DEPRECATED = (
    "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
)


def _command(name: str, about: str, *others: Argument) -> Parser:
    places = (
        Argument(
            ("--bootstrap-server", "-b"),
            "A list of host/port pairs to use for establishing the connection to the Kafka cluster.",
            mutex="place",
        ),
        Argument(
            ("--bootstrap-controller", "-C"),
            "A list of host/port pairs to use for establishing the connection to the KRaft controllers.",
            mutex="place",
        ),
        Argument(("--config",), _CONFIG),
        Argument(("--command-config", "-c"), "Config properties file for the Admin client."),
    )
    arguments = (*places, *others)
    return Parser(name, arguments=arguments, help=about, shows_defaults=False, required_mutexes=("place",))


PARSER = Parser(
    "kafka-cluster",
    "The Kafka cluster tool.",
    commands=(
        _command("cluster-id", "Get information about the ID of a cluster."),
        _command(
            "unregister",
            "Unregister a broker.",
            Argument(("--id", "-i"), "The ID of the broker to unregister.", kind=INTEGER, required=True),
        ),
        _command(
            "list-endpoints",
            "List endpoints",
            Argument(
                ("--include-fenced-brokers",),
                "Whether to include fenced brokers when listing broker endpoints",
                takes=None,
            ),
        ),
    ),
    shows_defaults=False,
)


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    return run_tool(PARSER, arguments, _run, helped=1)  # help is taken for a mistake there


def _run(words: Words) -> int:
    try:
        _work(words)
    except JavaError as error:
        return tell(error)
    return 0


def _work(words: Words) -> None:
    path = words.value("config")
    if path is not None:
        if words.has("command-config"):
            why = "--config and --command-config cannot be specified together."
            raise JavaError("net.sourceforge.argparse4j.inf.ArgumentParserException", why)
        print(DEPRECATED)
    config = without_bootstrap(read_config(words.value("command-config") if path is None else path))
    places = words.value("bootstrap-server"), words.value("bootstrap-controller")
    with ToolSession(config, places[0], controllers=places[1]) as session:
        if words.command == "cluster-id":
            print(f"Cluster ID: {_described(session, fenced=False).cluster_id}")
        elif words.command == "unregister":
            _unregister(session, words.integer("id"))
        else:
            _list(session, words)


def _described(session: ToolSession, *, fenced: bool) -> DescribeClusterResponse:
    try:
        found = session.ask("listNodes", admin.describe_cluster, fenced=fenced)
        if found.error_code != Code.NONE:
            raise kafka_error(Code(found.error_code), found.error_message)
    except JavaError as error:
        raise executed(error) from None
    return found


def _unregister(session: ToolSession, broker: int) -> None:
    try:
        outcome = session.ask("unregisterBroker", admin.unregister_broker, broker)
        if not outcome.ok:
            raise kafka_error(outcome.code, outcome.message)
    except JavaError as error:
        if error.kind != f"{PACKAGE}UnsupportedVersionException":
            raise executed(error) from None
        print("The target cluster does not support the broker unregistration API.")
        return
    print(f"Broker {broker} is no longer registered.")


def _list(session: ToolSession, words: Words) -> None:
    controllers = words.has("bootstrap-controller")
    if controllers and words.has("include-fenced-brokers"):
        raise illegal_argument("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    try:
        found = _described(session, fenced=words.has("include-fenced-brokers"))
    except JavaError as error:
        if error.cause is None or error.cause.kind != f"{PACKAGE}UnsupportedVersionException":
            raise
        print(error.cause.said)
        return
    nodes = sorted(found.brokers, key=lambda node: node.broker_id)
    hosts = max([len(node.host) for node in nodes] + [0])
    racks = max([len(node.rack or "null") for node in nodes] + [10])
    kind = "controller" if controllers else "broker"
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (str(n.broker_id), n.host, str(n.port), n.rack or "null", "fenced" if n.is_fenced else "unfenced", kind)
        for n in nodes
    ]
    for id, host, port, rack, state, kind in rows:
        shown = "" if controllers else f"{state:10} "  # of a controller nobody says whether it is fenced
        print(f"{id:10} {host:{hosts}} {port:10} {rack:{racks}} {shown}{kind:15}")
