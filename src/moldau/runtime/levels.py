"""Which loggers this process has and at what level, under Kafka's names for levels; changed while it runs (KIP-412).

A logger without a level of its own has that of the one above it. Changes live as long as the process. Decides nothing
about who may change them: ``moldau.broker.config.changes`` does.
"""

from __future__ import annotations

import logging

ROOT = "root"
LEVELS = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}
_OURS = ("moldau", "state.change.logger")


def levels() -> dict[str, str]:
    """Logger -> the level that counts for it; ``root`` is the one above all."""
    names = [name for name in logging.root.manager.loggerDict if name in _OURS or name.startswith("moldau.")]
    return {ROOT: _name(logging.root), **{name: _name(logging.getLogger(name)) for name in sorted(names)}}


def set_level(logger: str, level: str | None) -> None:
    """Give a logger a level, or with None that of the one above it."""
    logging.getLogger(None if logger == ROOT else logger).setLevel(logging.NOTSET if level is None else LEVELS[level])


def read_levels(text: str) -> dict[str, str]:
    """Logger -> level, out of ``INFO,moldau.broker.kraft=DEBUG``; a level alone is that of ``root``. ValueError says
    what is none."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        logger, _, level = part.rpartition("=")
        if level.upper() not in LEVELS:
            raise ValueError(f"{level} is no level of a log: one of {', '.join(LEVELS)} is expected")
        name = logger.strip() or ROOT
        if name != ROOT and name not in _OURS and not name.startswith("moldau."):
            raise ValueError(f"{name} is no logger: {ROOT}, {', '.join(_OURS)} or moldau.NAME is expected")
        found[name] = level.upper()
    return found


def _name(logger: logging.Logger) -> str:
    """The nearest of Kafka's levels that lets as much through."""
    number = logger.getEffectiveLevel()
    return next((name for name, least in LEVELS.items() if number >= least), "TRACE")
