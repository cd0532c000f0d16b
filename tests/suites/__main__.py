"""Run other projects' client suites against clusters of ours, or Apache Kafka's, and say what became of each test.

    python -m tests.suites /path/to/sources [--only kgo] [--test TestGroup] [--system kafka]

The path holds checkouts named as their projects are: ``franz-go``, ``kafka-go``, ``sarama``, ``librdkafka`` (whose
tests/test-runner has been built). What is not there is skipped, and it is said why. A test is "known" when it failed
and ``known.py`` says that it may, "unexpected" when it failed otherwise; what it printed is kept in a file then. Exit
code 1 when something failed unexpectedly, or a suite could not be played to its end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.suites.kfake import Kfake
from tests.suites.known import reason
from tests.suites.librdkafka import Librdkafka
from tests.suites.plain_go import COMPRESS, FRANZ_GO, SEGMENTIO, TOPICS
from tests.suites.sarama import Sarama
from tests.suites.suite import CannotBuild, Outcome, Suite
from tests.suites.systems import SYSTEMS, BrokerEnded, NoCluster, System

SHOWN_LINES = 12
INTERRUPTED = 130
SUITES: tuple[Suite, ...] = (FRANZ_GO, Kfake(), SEGMENTIO, COMPRESS, TOPICS, Sarama(), Librdkafka())


class Tally:
    """What was counted, over all suites that were played against a system."""

    def __init__(self, system: str) -> None:
        self.system = system
        self.counts: dict[str, int] = dict.fromkeys(("passed", "skipped", "known", "unexpected"), 0)
        self.unexpected: list[str] = []
        """Suites and tests that failed and were not to, with the file that holds what each printed."""
        self.broken: list[str] = []
        """Suites that were not played, or not to their end."""
        self._folder: Path | None = None

    def add(self, suite: Suite, outcome: Outcome) -> None:
        verdict, why = outcome.verdict, outcome.why
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
            file = self._keep(suite, outcome)
            for line in outcome.output.splitlines()[-SHOWN_LINES:]:
                print(f"    | {line[:200]}")
            print(f"    all that it printed: {file}", flush=True)
            self.unexpected.append(f"{suite.name} {outcome.test}: {file}")

    def broke(self, suite: Suite, why: str) -> None:
        """A suite was not played, or not to its end."""
        print(f"{suite.name:17} {why}", flush=True)
        self.broken.append(suite.name)

    def end(self) -> None:
        """Say what was counted, and what a reader has to look at."""
        counted = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        print(f"suites against {self.system}: {counted}", flush=True)
        for one in self.unexpected:
            print(f"    unexpected: {one}")
        if self.broken:
            print(f"    not played to the end: {', '.join(self.broken)}", flush=True)

    def _keep(self, suite: Suite, outcome: Outcome) -> Path:
        """The file that holds all that a test printed."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="moldau-suites-"))
        file = self._folder / f"{suite.name}-{outcome.test.replace('/', '-').replace(' ', '-')}.txt"
        file.write_text(outcome.output, encoding="utf-8")
        return file

    def _reason(self, suite: Suite, test: str) -> str | None:
        return reason(suite.known, test, self.system)


def play(suite: Suite, sources: Path, only: str, system: System, tally: Tally) -> None:
    """Play one suite, as far as it can be played."""
    why = suite.absent(sources)
    if why is not None:
        print(f"{suite.name:17} skipped: {why}", flush=True)
        return
    try:
        for outcome in suite.run(sources, only, system):
            tally.add(suite, outcome)
    except CannotBuild as error:
        tally.broke(suite, f"cannot be built: {error}")
    except NoCluster as error:
        tally.broke(suite, f"not played: no cluster of {system.name} starts here: {error}")
    except BrokerEnded as error:
        tally.broke(suite, f"not played any further: {error}")


def main() -> int:
    """Play what is there."""
    names = [suite.name for suite in SUITES]
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sources", help="the folder with the projects' checkouts", nargs="?", default="")
    parser.add_argument("--only", choices=names, help="one suite")
    parser.add_argument("--test", default=".", help="tests whose names match this expression")
    parser.add_argument("--system", choices=SYSTEMS, default="moldau", help="whose clusters (kafka needs `make jars`)")
    asked = parser.parse_args()
    if not asked.sources:
        print("suites: skipped: say where the sources are: make suites SUITES=/path/to/sources")
        return 0
    system = SYSTEMS[asked.system]
    tally = Tally(system.name)
    try:
        for suite in SUITES:
            if asked.only in (None, suite.name):
                play(suite, Path(asked.sources), asked.test, system, tally)
    except KeyboardInterrupt:
        print("interrupted: what follows was counted until then")
        tally.end()
        return INTERRUPTED
    tally.end()
    return 1 if tally.counts["unexpected"] or tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
