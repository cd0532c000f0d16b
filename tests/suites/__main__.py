"""Run other projects' client suites against clusters of ours, or Apache Kafka's, and say what became of each test.

    python -m tests.suites /path/to/sources [--only kgo] [--test TestGroup] [--system kafka]

The path holds checkouts named as their projects are: ``franz-go``, ``kafka-go``, ``sarama``, ``librdkafka`` (whose
tests/test-runner has been built). What is not there is skipped, and it is said why. Exit code 1 when something fails
that ``known.py`` does not name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.suites.kfake import Kfake
from tests.suites.known import reason
from tests.suites.librdkafka import Librdkafka
from tests.suites.plain_go import COMPRESS, FRANZ_GO, SEGMENTIO, TOPICS
from tests.suites.sarama import Sarama
from tests.suites.suite import CannotBuild, Outcome, Suite
from tests.suites.systems import SYSTEMS

SHOWN_LINES = 12
SUITES: tuple[Suite, ...] = (FRANZ_GO, Kfake(), SEGMENTIO, COMPRESS, TOPICS, Sarama(), Librdkafka())


class Tally:
    """What was counted, over all suites that were played against a system."""

    def __init__(self, system: str) -> None:
        self.system = system
        self.counts: dict[str, int] = dict.fromkeys(("passed", "skipped", "known", "unexpected"), 0)

    def add(self, suite: Suite, outcome: Outcome) -> None:
        verdict, why = outcome.verdict, ""
        if verdict == "failed":
            reasons = [self._reason(suite, name) or self._reason(suite, outcome.test) for name in outcome.failed]
            verdict = "known" if all(reasons) else "unexpected"
            why = "; ".join(dict.fromkeys(one for one in reasons if one)) if verdict == "known" else ""
            strangers = [name for name, one in zip(outcome.failed, reasons, strict=True) if one is None]
            why = why or "NOT KNOWN: " + ", ".join(strangers)
        elif verdict == "passed" and self._reason(suite, outcome.test):
            why = "passes, though it is named as known"
        self.counts[verdict] += 1
        print(f"{suite.name:17} {outcome.test:55} {verdict:10} {outcome.seconds:6.1f} s  {why}", flush=True)
        if verdict == "unexpected":
            for line in outcome.output.splitlines()[-SHOWN_LINES:]:
                print(f"    | {line[:200]}")

    def _reason(self, suite: Suite, test: str) -> str | None:
        return reason(suite.known, test, self.system)


def main() -> int:
    """Play what is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__)
    parser.add_argument("sources", help="the folder with the projects' checkouts", nargs="?", default="")
    parser.add_argument("--only", help="one suite: " + ", ".join(suite.name for suite in SUITES))
    parser.add_argument("--test", default=".", help="tests whose names match this expression")
    parser.add_argument("--system", choices=SYSTEMS, default="moldau", help="whose clusters (kafka needs `make jars`)")
    asked = parser.parse_args()
    if not asked.sources:
        print("suites: skipped: say where the sources are: make suites SUITES=/path/to/sources")
        return 0
    system = SYSTEMS[asked.system]
    tally, broken = Tally(system.name), 0
    for suite in SUITES:
        if asked.only not in (None, suite.name):
            continue
        why = suite.absent(Path(asked.sources))
        if why is not None:
            print(f"{suite.name:17} skipped: {why}", flush=True)
            continue
        try:
            for outcome in suite.run(Path(asked.sources), asked.test, system):
                tally.add(suite, outcome)
        except CannotBuild as error:
            broken += 1
            print(f"{suite.name:17} cannot be built: {error}", flush=True)
    counted = ", ".join(f"{count} {what}" for what, count in tally.counts.items())
    print(f"suites against {system.name}: {counted}", flush=True)
    return 1 if tally.counts["unexpected"] or broken else 0


if __name__ == "__main__":
    sys.exit(main())
