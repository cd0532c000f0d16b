"""Tells a record that a client sent again under other numbers from one that a cluster wrote twice.

An idempotent producer of librdkafka with more than one request under way goes on under its next epoch, for all of its
partitions, when a broker refuses a batch for the one ahead of it, and sends again under that epoch what other
partitions have stored without having answered (its issue 4953, open). No broker can know such a record again. Brokers
of Apache Kafka refuse so, rightly; Moldau's do not (decision 52), so that an epoch which one of them ended excuses
nothing.

What is believed is what the producer logs of itself: which broker refused a batch of which epoch, and why the epoch
ended. An epoch is the client's own doing if nothing but refusals by brokers of Kafka ended it. Where librdkafka words
its log differently nothing is excused. ``make chaos`` goes by the same rule, and excuses what its own records did that
were too long under way as well (``message.timeout.ms``). Read next: ``moldau.history.sessions``.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection

from moldau.history.sessions import Session

TIMED_OUT = "timed out"
"""What a reason contains when the client gave up a record that was on its way."""
_SKIPPED = "skipped sequence numbers"
_GAVE_UP = re.compile(r"\d+ message\(s\) timed out ")
_PID = r"PID\{Id:(?P<id>\d+),Epoch:(?P<epoch>\d+)\}"
_REFUSED = re.compile(rf"^ERRSEQ .* \S+/(?P<broker>\d+): ProduceRequest for .*{_SKIPPED} \({_PID}")
_BEGUN = re.compile(rf"^DRAIN .* for {_PID} (?:epoch bump|reset) for \d+ partition\(s\) [^:]*: (?P<reason>.*)$")


class NextEpochs(logging.Handler):
    """Why producers ended their epochs: session -> the programs whose brokers refused a batch of it for the one ahead,
    TIMED_OUT, and any other reason. ``lines``: all that producers logged, for whoever looks for a cause; ``refusals``:
    those of refusals, with who refused."""

    def __init__(self, ran_by: Callable[[int], str], excused: Collection[str]) -> None:
        """``ran_by``: the program that runs a broker at the moment; ``excused``: the programs and reasons that are not
        Moldau's doing."""
        super().__init__(logging.DEBUG)
        self._ran_by, self._excused = ran_by, frozenset(excused)
        self.reasons: dict[Session, set[str]] = defaultdict(set)
        self.lines: list[str] = []
        self.refusals: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line of a producer's log."""
        text = record.getMessage()
        line = f"{record.created:.3f} {text}"
        self.lines.append(line)
        if found := _REFUSED.match(text):
            program = self._ran_by(int(found["broker"]))
            self.refusals.append(f"{program}: {line}")
            self._of(found).add(program)
        elif (found := _BEGUN.match(text)) and found["reason"] != _SKIPPED:
            self._of(found).add(TIMED_OUT if _GAVE_UP.match(found["reason"]) else found["reason"])

    def _of(self, found: re.Match[str]) -> set[str]:
        return self.reasons[int(found["id"]), int(found["epoch"])]

    def settings(self) -> dict[str, object]:
        """What a producer needs among its settings to tell this handler."""
        logger = logging.getLogger(f"{__name__}.{id(self)}")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(self)
        return {"debug": "eos", "log_level": 7, "logger": logger}

    def own_doing(self, session: Session) -> bool:
        """Whether the client may have sent again what it sent in this session, by no doing of Moldau's brokers."""
        reasons = self.reasons.get(session)
        return bool(reasons) and self._excused.issuperset(reasons or ())
