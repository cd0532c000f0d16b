"""What a replica of the metadata log and its peers agree on, and what it says of those that do not.

A start needs no more of its peers: what translates requests (``requests.py``) and responses (``answers.py``), with
their messages, is loaded with the first of them, which a single node never has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from moldau.model import Code
from moldau.model.protocol import Protocol

TOPIC_ID = bytes(15) + b"\x01"
"""The fixed id of the metadata topic (KIP-516)."""
EPOCH_MAX = 0x7FFFFFFF - (1 << 20)
"""The last epoch that is believed: a million elections before the numbers end, which honest voters never reach."""
Endpoints = list[tuple[str, str, int]]
P_co = TypeVar("P_co", covariant=True)


class NotForUs(Exception):
    """A request for another cluster, topic or partition; ``code`` is the whole answer."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


class Unusable(Exception):
    """A response that says nothing we can use: refused as a whole, or its bytes are damaged."""


class Stranger(Unusable):
    """The peer belongs to another cluster."""


class WrongCluster(Exception):
    """Most voters belong to another cluster than this node's folders do; the text says how to mend it."""


class HasPartitions(Protocol[P_co]):
    """A topic in a request or response of the quorum."""

    @property
    def partitions(self) -> Sequence[P_co]: ...


def only_partition(topics: Sequence[HasPartitions[P_co]]) -> P_co | None:
    """The partition of a request or response that names exactly one; None when it names others."""
    return topics[0].partitions[0] if len(topics) == 1 and len(topics[0].partitions) == 1 else None
