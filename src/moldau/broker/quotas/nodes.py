"""Client ids of nodes: their own, and those under which they pass on what clients ask.

In ZooKeeper mode what a broker passes on shows that it is passed on; a controller finds the client's own id in it.
"""

from __future__ import annotations

import re

_NODE = re.compile(r"node-\d+(:.*)?", re.DOTALL)


def is_node(client_id: str | None) -> bool:
    """Whether a request has a node's client id. Nobody keeps a client from taking such a name; who may be whom is for
    authentication to say."""
    return _NODE.fullmatch(client_id or "") is not None


def passed_on_as(node_id: int, client_id: str | None) -> str:
    """The client id of what a broker passes on for a client in ZooKeeper mode."""
    return f"node-{node_id}:{client_id or ''}"


def client_of(client_id: str | None) -> str | None:
    """The id of the client for whom a request was passed on, or who asks itself; None when a node asks for itself."""
    if client_id is None or not is_node(client_id):
        return client_id
    _, colon, client = client_id.partition(":")
    return client if colon else None
