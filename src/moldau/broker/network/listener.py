"""One listener of a node: makes a connection for each client that connects.

Made by ``node.py``. Which request goes to which handler is the ``dispatch`` that it is given, which ``broker/api``
makes. What its connections share is ``listener_state.py``.
"""

from __future__ import annotations

from moldau.broker.network.connection import Connection
from moldau.broker.network.listener_state import ListenerState


class SocketListener(ListenerState):
    """A listener, as the network is given it."""

    def accept(self) -> Connection:
        return Connection(self)
