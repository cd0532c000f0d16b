"""Iceberg's catalogs, as pyiceberg opens them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

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
