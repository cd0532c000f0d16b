"""The node's log files, in the line format of Kafka's log4j: ``[time] LEVEL message (logger)``.

server.log has everything, controller.log what the controller and the quorum say, state-change.log (and its twin of JSON
lines) one line per change of a partition or replica (SL-1). Without a folder everything goes to standard output.
"""

from __future__ import annotations

import logging
import os
import sys
import time

LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
STATE_CHANGE = "state.change.logger"
STATE_CHANGE_JSON = "state.change.json"
CONTROLLER = ("moldau.controller", "moldau.quorum")


class _KafkaFormatter(logging.Formatter):
    """Kafka writes WARN and FATAL, and milliseconds after a comma."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(record.created))},{int(record.msecs):03d}"

    def format(self, record: logging.LogRecord) -> str:
        record.levelname = {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(record.levelname, record.levelname)
        return super().format(record)


class _LinesFormatter(_KafkaFormatter):
    """A message of several lines becomes as many log lines: what one batch changed is written at once."""

    def format(self, record: logging.LogRecord) -> str:
        lines = record.getMessage().split("\n")
        if len(lines) == 1:
            return super().format(record)
        mark = "\0"
        record.msg, record.args = mark, ()
        head, _, tail = super().format(record).partition(mark)
        return "\n".join([f"{head}{line}{tail}" for line in lines])


def start_logs(folder: str | None, level: int = logging.INFO) -> None:
    """Open the log files in ``folder`` (made if need be), or standard output when it is None."""
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    logging.getLogger("moldau").setLevel(level)
    for name in (STATE_CHANGE, STATE_CHANGE_JSON):
        logging.getLogger(name).propagate = False
        logging.getLogger(name).setLevel(level)
    if folder is None:
        _handle(root, logging.StreamHandler(sys.stdout))
        for name in (STATE_CHANGE, STATE_CHANGE_JSON):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # nobody keeps them, so nobody need write them
        return
    os.makedirs(folder, exist_ok=True)
    _handle(root, _file(folder, "server.log"))
    controller = _file(folder, "controller.log")
    for name in CONTROLLER:
        _handle(logging.getLogger(name), controller)
    changes = _file(folder, "state-change.log")
    _handle(logging.getLogger(STATE_CHANGE), changes)
    changes.setFormatter(_LinesFormatter(LINE))
    twin = _file(folder, "state-change.jsonl")
    twin.setFormatter(logging.Formatter("%(message)s"))
    logging.getLogger(STATE_CHANGE_JSON).addHandler(twin)


def _file(folder: str, name: str) -> logging.FileHandler:
    return logging.FileHandler(os.path.join(folder, name), encoding="utf-8", delay=False)


def _handle(logger: logging.Logger, handler: logging.Handler) -> None:
    handler.setFormatter(_KafkaFormatter(LINE))
    logger.addHandler(handler)
