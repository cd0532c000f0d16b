"""Where tools connect to that ask brokers or controllers."""

from __future__ import annotations

from moldau.admin.classic.argparse4j_parsers import Argument


def places(controllers: str) -> tuple[Argument, Argument]:
    """The options that name brokers or ``controllers``, of which one is given; Kafka's tools word the second apart."""
    asks = "A comma-separated list of host:port pairs to use for establishing the connection to the "
    return (
        Argument(("--bootstrap-server",), f"{asks}Kafka cluster.", mutex="place"),
        Argument(("--bootstrap-controller",), f"{asks}{controllers}.", mutex="place"),
    )
