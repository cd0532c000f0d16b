"""The nodes below a folder: who they are, where their state changes are written, and where their page is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from glob import escape, glob

from moldau.clusterdata.state_changes.sources import UNPACKING, opened
from moldau.model.config_key import ConfigError
from moldau.model.named import NamedTuple
from moldau.model.properties import decode_properties, read_properties
from moldau.publishing.following import HEAD_BYTES, NAME, names_of

DEPTH = 3
"""Folders of nodes are looked for so deep: DATA/node-1/logs is two below DATA."""
PROPERTIES = "server.properties"
LOGS = "logs"


class NodeFolder(NamedTuple):
    """A node's log: ``page`` is the host:port of its metrics, empty where its settings name none."""

    node: int
    folder: str
    page: str


class NoNodes(Exception):
    """What is named holds nothing that could be published; the text names it, and says why."""


def nodes_in(paths: Sequence[str]) -> list[NodeFolder]:
    """The nodes whose logs are in these folders or below, by node id. NoNodes when a folder has none, or two nodes have
    one id. A node that has written nothing yet is known by its settings, a log without settings by its first line."""
    found: dict[int, NodeFolder] = {}
    for path in paths:
        if not os.path.isdir(path):
            why = "is no folder" if os.path.exists(path) else "is not there"
            raise NoNodes(f"{path} {why}; name a folder of a node, or above those of several")
        here = list(_below(path))
        if not here:
            raise NoNodes(f"{path}: neither a {NAME} nor a {PROPERTIES} of a node is in it or below")
        for one in here:
            other = found.setdefault(one.node, one)
            if os.path.realpath(other.folder) != os.path.realpath(one.folder):
                raise NoNodes(
                    f"node {one.node} has two logs, in {other.folder} and in {one.folder}: name the folder of each node"
                )
    return [found[id] for id in sorted(found)]


def pages_of(texts: Iterable[str]) -> dict[int, str]:
    """Pages by node, of ``NODE=HOST:PORT``; ValueError when one is none."""
    found = {}
    for text in texts:
        node, _, page = text.partition("=")
        host, colon, port = page.rpartition(":")
        if not (node.isascii() and node.isdigit() and host and colon and port.isascii() and port.isdigit()):
            raise ValueError(f"{text!r}: NODE=HOST:PORT is expected, as 1=127.0.0.1:9308")
        found[int(node)] = page
    return found


def _below(path: str) -> Iterator[NodeFolder]:
    folders: dict[str, None] = {}
    for depth in range(DEPTH):
        above = os.path.join(escape(path), *["*"] * depth)
        for file in sorted(glob(os.path.join(above, NAME + "*"))):
            folders[os.path.dirname(file)] = None
        for file in sorted(glob(os.path.join(above, PROPERTIES))):
            logs = os.path.join(os.path.dirname(file), LOGS)
            if os.path.isdir(logs):
                folders[logs] = None
    for folder in folders:
        settings = _settings(folder)
        id = settings.get("node.id", settings.get("broker.id", "")).strip()
        node = int(id) if id.isascii() and id.isdigit() else _first_node(folder)
        if node is not None:
            yield NodeFolder(node, folder, settings.get("http.listener", "").strip())


def _settings(folder: str) -> dict[str, str]:
    """What the server.properties beside a folder of logs says, or in it."""
    for place in (folder, os.path.dirname(folder)):
        path = os.path.join(place, PROPERTIES)
        if not os.path.isfile(path):  # a pipe that nobody writes to would be waited for
            continue
        with suppress(OSError, ConfigError), open(path, "rb") as file:
            return dict(read_properties(decode_properties(file.read())))
    return {}


def _first_node(folder: str) -> int | None:
    """The node that a log's first line names."""
    for path in names_of(folder):
        with suppress(FileNotFoundError, ValueError, RecursionError, *UNPACKING), opened(path) as file:
            fact = json.loads(file.readline(HEAD_BYTES))
            if isinstance(fact, dict) and type(fact.get("node")) is int and fact["node"] >= 0:
                return int(fact["node"])
    return None
