"""kafka-broker-api-versions.sh: which versions of which requests each broker serves."""

from __future__ import annotations

from moldau.admin.classic.client_keys import split_list
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.java_order import hash_order, string_hash
from moldau.admin.classic.known_apis import KNOWN
from moldau.admin.classic.options import GivenOptions, Option
from moldau.admin.classic.run import help_or_version, tell
from moldau.admin.classic.session import ToolSession, empty_servers, read_config
from moldau.client.client import Client, ForNode
from moldau.client.view import Broker
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse

OPTIONS = (
    Option("bootstrap-server", "REQUIRED: The server to connect to.", takes="server(s) to use for bootstrapping"),
    Option(
        "command-config",
        "A property file containing configs to be passed to Admin Client.",
        takes="command config property file",
    ),
)

ABOUT = "This tool helps to retrieve broker version information."

UNKNOWN_NODE = "rack: null isFenced: false)"


def main(arguments: list[str]) -> int:
    """Run the tool; the exit status."""
    try:
        given = GivenOptions(OPTIONS, arguments)
        help_or_version(given, ABOUT)
        given.require("bootstrap-server")
        config = read_config(given.value("command-config"))
        servers = given.text("bootstrap-server")
        if not split_list("bootstrap.servers", servers):
            raise empty_servers()
        with ToolSession(config, servers, client="LegacyAdmin") as session:
            _print(session, servers)
    except JavaError as error:
        return tell(error)
    return 0


def _print(session: ToolSession, servers: str) -> None:
    try:
        session.know("METADATA", None)
    except JavaError:
        tried = [f"{one.strip()} (id: {-at} {UNKNOWN_NODE}" for at, one in enumerate(servers.split(","), 1)]
        text = f"Request METADATA failed on brokers [{', '.join(tried)}]"
        raise JavaError("java.lang.RuntimeException", text) from None
    brokers = session.cluster.client.view.brokers
    for id in hash_order(sorted(brokers), lambda id: _hash(brokers[id])):
        broker = brokers[id]
        name = f"{broker.host}:{broker.port} (id: {id} rack: {broker.rack or 'null'} isFenced: false)"
        try:
            served = session.ask("ApiVersions", _versions, id)
        except JavaError as error:
            print(f"{name} -> ERROR: {error}")
            continue
        print(f"{name} -> (\n\t{_text(served)}\n)")


async def _versions(client: Client, node_id: int) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="moldau", client_software_version="0.1")
    response: ApiVersionsResponse = await client.ask(request, ForNode(node_id))
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


def _text(served: dict[int, tuple[int, int]]) -> str:
    lines = []
    for key in sorted({*served, *(key for key, api in KNOWN.items() if api.of_clients)}):
        api = KNOWN.get(key)
        name = "UNKNOWN" if api is None else api.name
        if key not in served:
            lines.append(f"{name}({key}): UNSUPPORTED")
            continue
        low, high = served[key]
        text = f"{name}({key}): {low if low == high else f'{low} to {high}'}"
        if api is not None:
            usable = min(high, api.latest)
            if api.latest < low:
                text += " [unusable: node too new]"
            elif high < api.oldest:
                text += " [unusable: node too old]"
            else:
                text += f" [usable: {usable}]"
        lines.append(text)
    return ",\n\t".join(lines)


def _hash(broker: Broker) -> int:
    """Node.hashCode of Kafka's client."""
    found = 31 + string_hash(broker.host)
    for part in (broker.node_id, broker.port, string_hash(broker.rack or ""), 1237):
        found = found * 31 + part & 0xFFFFFFFF
    return found
