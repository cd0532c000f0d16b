"""Topics in PySpark without a jar: ``format("moldau")`` for batch and stream, and exactly-once tables.

``moldau.spark.session()`` starts a local session with the right interpreter; any session works, since the package
``pyspark_moldau`` beside this one lets Spark find the source by itself. Read next: source.py, options.py, tables.py.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from moldau.spark.local import session as session

__all__ = ["session"]


def __getattr__(name: str) -> object:
    if name == "session":
        from moldau.spark.local import session

        return session
    raise AttributeError(f"module 'moldau.spark' has no attribute {name!r}")
