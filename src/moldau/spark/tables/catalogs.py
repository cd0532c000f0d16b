"""Iceberg's catalogs, as pyiceberg opens them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moldau.spark.tables.ledger import TableError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def without_reads(catalog: Catalog) -> Catalog:
    """The same catalog, which holds no read of its database open.

    A ``SqlCatalog`` (pyiceberg 0.12) looks whether its tables are there and leaves the answer unread. SQLite locks the
    database for as long as such a read is not freed, and refuses every writer meanwhile ("database is locked"). With
    Python 3.13 it is part of a cycle, which only the garbage collector frees; closing the connection does not.
    """
    engine = getattr(catalog, "engine", None)  # only what is in a database has one
    if engine is not None and engine.dialect.name == "sqlite":
        gc.collect()
    return catalog


def with_hdfs(catalog: Catalog, location: str = "") -> Catalog:
    """The same catalog, which reaches tables on HDFS by delta-rs's client unless it says by what."""
    if location.startswith("hdfs://") or catalog.properties.get("warehouse", "").startswith("hdfs://"):
        catalog.properties.setdefault("py-io-impl", "moldau.spark.tables.hdfs_iceberg.HdfsFileIO")
    return catalog


class NoAnswer(TableError):
    """A catalog that did not answer, or whose answer was lost: what it was asked for may be done, or not."""


@contextmanager
def settings_read() -> Iterator[None]:
    """TableError where pyiceberg cannot read its file of settings, which it does as it is imported and after."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("strictyaml"):
            raise
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        why = " ".join((getattr(error, "problem", None) or str(error)).split())
        raise TableError(
            f".pyiceberg.yaml (in $PYICEBERG_HOME, the home folder or here) cannot be read{line}: {why}"
        ) from error


@contextmanager
def answering(name: str) -> Iterator[None]:
    """NoAnswer, which names the table, where a REST catalog is not there, or a server or gateway before it fails.

    pyiceberg (0.12) asks once. Its ``CommitStateUnknownException`` is for 500, 502 and 504 in answer to a commit, but a
    connection that ends and 503 leave as little known.
    """
    from pyiceberg.exceptions import CommitStateUnknownException, ServerError, ServiceUnavailableError
    from requests import RequestException

    try:
        yield
    except (CommitStateUnknownException, ServerError, ServiceUnavailableError, RequestException) as error:
        why = f"{type(error).__name__}: {error}"
        raise NoAnswer(f"table {name}: the catalog gave no answer, run this again: {why}") from error
