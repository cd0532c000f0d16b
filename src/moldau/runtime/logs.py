"""The node's log files, in the line format of Kafka's log4j: ``[time] LEVEL message (logger)``.

server.log has everything, controller.log what the modules of the controller and of the quorum say, state-change.log
(and its twin of JSON lines) one line per change of a partition or replica. Without a folder everything goes to standard
output. Files are written by a thread (``log_writer.py``), bounded in size, and repeated warnings are counted
(``repeated.py``).
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.runtime.late_clock import log_record
from moldau.runtime.levels import LEVELS, ROOT
from moldau.runtime.repeated import WINDOW_S, Repeated

if TYPE_CHECKING:
    from moldau.runtime.log_writer import LogWriter, Sink

LINE = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
STATE_CHANGE = "state.change.logger"
STATE_CHANGE_JSON = "state.change.json"
CONTROLLER = (
    "moldau.broker.controller.service", "moldau.broker.controller.failure_detector",
    "moldau.broker.controller.registration", "moldau.broker.config.bootstrap_file", "moldau.broker.kraft",
    *(f"moldau.broker.zookeeper.{module}" for module in (
        "admin_znodes", "channels", "directories", "undeleted", "watching", "writer")),
)  # fmt: skip
"""Loggers, each named after its module, whose lines are in controller.log too."""
DRAIN_S = 5.0
"""How long the end of a process, or a FATAL line, waits for a disk that does not take log lines."""
MAX_BYTES, MAX_FILES = 16 * 2**20, 5
_writers: list[LogWriter] = []


MESSAGE_CHARS_MAX = 4_000
"""Longer messages are cut: names and ids in them come from clients, and may be as long as a request."""
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}
_CONTROLS |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def one_line(text: str) -> str:
    """The text as one line of a log: control characters escaped, so that nobody's name can forge a line, and no longer
    than ``MESSAGE_CHARS_MAX``."""
    if len(text) > MESSAGE_CHARS_MAX:
        text = f"{text[:MESSAGE_CHARS_MAX]}... ({len(text) - MESSAGE_CHARS_MAX} more characters)"
    return text if text.isprintable() else text.translate(_CONTROLS)


class _KafkaFormatter(logging.Formatter):
    """Kafka writes WARN and FATAL, and milliseconds after a comma. A message is one line; ``lines`` of a record, which
    are our own (stacks), follow it."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(record.created))},{int(record.msecs):03d}"

    def format(self, record: logging.LogRecord) -> str:
        record.levelname = {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(record.levelname, record.levelname)
        text = super().format(record)
        lines: str | None = getattr(record, "lines", None)
        return text if lines is None else f"{text}\n{lines.rstrip()}"

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)


class _LinesFormatter(_KafkaFormatter):
    """A message of several lines becomes as many log lines: what one batch changed is written at once."""

    def format(self, record: logging.LogRecord) -> str:
        lines = record.getMessage().split("\n")
        if len(lines) == 1:
            return super().format(record)
        mark = "\ue000"  # for private use: in no message of ours, and not escaped
        record = logging.makeLogRecord(record.__dict__ | {"msg": mark, "args": ()})  # others format it as well
        head, _, tail = super().format(record).partition(mark)
        return "\n".join([f"{head}{line}{tail}" for line in lines])


class _FileHandler(logging.Handler):
    """Puts formatted lines into the writer's queue. FATAL lines, and what waits before them, are on disk on return."""

    def __init__(self, writer: LogWriter, file: Sink) -> None:
        super().__init__()
        self._writer = writer
        self._file = file
        self._repeated = Repeated()

    def emit(self, record: logging.LogRecord) -> None:
        if not self._repeated.passes(record):
            if self._repeated.begins_to_count(record):
                self._writer.call_later(WINDOW_S, lambda: self._tell_repeated(record))
            return
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        fatal = record.levelno >= logging.CRITICAL
        self._writer.put(self._file, line, must=fatal)
        if fatal:
            self.flush()

    def flush(self) -> None:
        self._writer.drain(DRAIN_S)

    def _tell_repeated(self, record: logging.LogRecord) -> None:
        if count := self._repeated.end(record):
            try:
                text = f"{count} more lines like this one were left out within {WINDOW_S:g} s: {record.getMessage()}"
                told = log_record(record.name, record.levelno, record.pathname, record.lineno, text, (), None)
                line = self.format(told)
            except Exception:  # as for the lines themselves; this is the thread that writes all of them
                self.handleError(record)
                return
            self._writer.put(self._file, line)


def start_logs(
    folder: str | None,
    levels: Mapping[str, str] | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
    max_age_s: float | None = None,
    state_change_stdout: bool = False,
) -> None:
    """Open the log files in ``folder`` (made if need be), or standard output when it is None.

    Args:
        levels: logger -> one of ``LEVELS``; ``root`` stands for all of Moldau's.
        max_bytes: of each file, when the next one begins.
        max_files: how many of each log there are at most, the one that is written included.
        max_age_s: of each file, when the next one begins however small it is; None is never.
        state_change_stdout: whether the lines of state-change.log go to standard output too.
    """
    stop_logs()
    logging.setLogRecordFactory(log_record)
    wanted = {name: LEVELS[level] for name, level in (levels or {}).items()}
    level = wanted.pop(ROOT, logging.INFO)
    logging.raiseExceptions = False
    logging.addLevelName(LEVELS["TRACE"], "TRACE")
    root = logging.getLogger()
    root.handlers.clear()
    root.setLevel(max(logging.WARNING, level))
    logging.getLogger("moldau").setLevel(level)
    for name in (STATE_CHANGE, STATE_CHANGE_JSON):
        logging.getLogger(name).propagate = False
        logging.getLogger(name).setLevel(level)
    if folder is None:
        _handle(root, logging.StreamHandler(sys.stdout))
        for name in (STATE_CHANGE, STATE_CHANGE_JSON):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # nobody keeps them, so nobody need write them
    else:
        _open_files(folder, max_bytes, max_files, max_age_s)
    if state_change_stdout:
        logging.getLogger(STATE_CHANGE).setLevel(level)
        from moldau.runtime.log_writer import Stdout

        _handle_lines(_FileHandler(_writer(), Stdout()))
    for name, number in wanted.items():
        logging.getLogger(name).setLevel(number)


def stop_logs() -> None:
    """Have everything that was said written, and the files closed; waits for a disk that hangs for ``DRAIN_S``."""
    for writer in _writers:
        writer.stop(DRAIN_S)
    _writers.clear()
    for name in ("", *CONTROLLER, STATE_CHANGE, STATE_CHANGE_JSON):
        logger = logging.getLogger(name)
        logger.handlers = [one for one in logger.handlers if not isinstance(one, _FileHandler)]


def reopen_logs() -> None:
    """Open every log file again by its name, as after logrotate has moved it (SIGHUP)."""
    for writer in _writers:
        writer.reopen()


def _writer() -> LogWriter:
    """The thread that writes, started when it is first needed."""
    from moldau.runtime.log_writer import LogWriter

    def dropped(count: int) -> str:
        text = f"{count} log lines were dropped here: the disk did not take them"
        return _KafkaFormatter(LINE).format(logging.LogRecord("moldau.logs", logging.WARNING, "", 0, text, (), None))

    if not _writers:
        _writers.append(LogWriter(dropped=dropped))
    return _writers[0]


def _open_files(folder: str, max_bytes: int, max_files: int, max_age_s: float | None) -> None:
    os.makedirs(folder, exist_ok=True)
    writer = _writer()

    def file(name: str) -> _FileHandler:
        path = os.path.join(folder, name)
        return _FileHandler(writer, writer.open(path, max_bytes=max_bytes, max_files=max_files, max_age_s=max_age_s))

    _handle(logging.getLogger(), file("server.log"))
    controller = file("controller.log")
    for name in CONTROLLER:
        _handle(logging.getLogger(name), controller)
    _handle_lines(file("state-change.log"))
    twin = file("state-change.jsonl")
    twin.setFormatter(logging.Formatter("%(message)s"))
    logging.getLogger(STATE_CHANGE_JSON).addHandler(twin)


def _handle(logger: logging.Logger, handler: logging.Handler) -> None:
    handler.setFormatter(_KafkaFormatter(LINE))
    logger.addHandler(handler)


def _handle_lines(handler: logging.Handler) -> None:
    handler.setFormatter(_LinesFormatter(LINE))
    logging.getLogger(STATE_CHANGE).addHandler(handler)
