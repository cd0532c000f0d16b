"""Topics in PySpark without a jar: ``format("moldau")`` for batch and stream, and exactly-once tables.

``moldau.spark.session()`` starts a local session with the right interpreter; any session works, since the package
``pyspark_moldau`` beside this one lets Spark find the source by itself. Read next: source.py, options.py, tables/.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from moldau.spark.local import session as session
    from moldau.spark.supervise import run as run
    from moldau.spark.supervise import until_it_stands as until_it_stands

__all__ = ["run", "session", "until_it_stands"]

_AT = {"session": "local", "run": "supervise", "until_it_stands": "supervise"}


def __getattr__(name: str) -> object:
    if name in _AT:
        import importlib

        return getattr(importlib.import_module(f"moldau.spark.{_AT[name]}"), name)
    raise AttributeError(f"module 'moldau.spark' has no attribute {name!r}")
