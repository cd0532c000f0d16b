"""Short chaos scenarios with real nodes; ``make chaos SCENARIO=all`` is the long version.

All of them in ZooKeeper mode, some in KRaft mode, whose troubles the simulator has. They wait more than they
work, and nodes have a net of their own where namespaces are permitted: so a few run at once. Links are cut in those
namespaces, else in the proxy, which slows and resets them everywhere.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.cluster.chaos.scenarios.table import SCENARIOS
from moldau.cluster.chaos.volumes import Plain
from moldau.cluster.kills.checking import RunVerdict
from moldau.cluster.modes import QUORUM, ZOOKEEPER

pytestmark = pytest.mark.timeout(340)

AT_ONCE = 4
LONG = (16, 19, 8, 9)
"""They start first, so that none of them is waited for alone in the end."""
RUNS = [(ZOOKEEPER, number) for number in sorted(SCENARIOS, key=lambda number: number not in LONG)]
RUNS += [(QUORUM, number) for number in (2, 6, 18, 19)]


class Done(NamedTuple):
    """A run's exit status, all that it said, and what it left."""

    status: int
    said: str
    folder: Path


Runs = Callable[[str, int], Done]


def named(which: tuple[str, int]) -> str:
    """A run in a test's name."""
    return f"{which[0]}-{which[1]}"


@pytest.fixture(scope="module")
def chaos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Starts what this module's tests will ask for, and waits for the one that is asked for."""
    folder = tmp_path_factory.mktemp("chaos")
    running: set[subprocess.Popen[str]] = set()
    # Copied here: pytest names the current test in the environment, and a thread that starts a program while that
    # changes hands it memory that may be gone (execv: EFAULT).
    environment = {**os.environ}

    def run(plane: str, number: int) -> Done:
        place = folder / f"{plane}-{number}"
        command = [sys.executable, "-m", "moldau.cluster.chaos", str(number), "--plane", plane, "--seed", "11"]
        command += ["--rounds", "1", "--seconds", "15", "--keep", str(place)]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            running.add(process)
            said = process.communicate()[0]
            running.discard(process)
        return Done(process.returncode, said, place)

    items = [item for item in request.session.items if item.get_closest_marker("skip") is None]
    mine = {item.nodeid.partition("[")[2] for item in items if item.path == request.path}
    asked = [which for which in RUNS if f"{named(which)}]" in mine]
    pool = ThreadPoolExecutor(AT_ONCE)
    futures: dict[tuple[str, int], Future[Done]] = {which: pool.submit(run, *which) for which in asked}
    yield lambda plane, number: futures[plane, number].result()
    pool.shutdown(wait=False, cancel_futures=True)
    for process in [*running]:
        process.terminate()
    pool.shutdown()


def permitted(done: Done, number: int) -> None:
    """Leave out a fault of disks that this machine does not permit: such a run begins with saying so."""
    if SCENARIOS[number].volume is not Plain and done.status == RunVerdict.UNKNOWN and "\n0 acknowledged" in done.said:
        pytest.skip(done.said)


@pytest.mark.parametrize("which", RUNS, ids=named)
def test_nothing_acknowledged_suffers_from_chaos(which: tuple[str, int], chaos: Runs) -> None:
    done = chaos(*which)

    permitted(done, which[1])
    assert done.status == RunVerdict.PASS, done.said


@pytest.mark.parametrize("which", [(QUORUM, 2)], ids=named)
def test_a_run_says_how_to_repeat_it_and_leaves_its_history(which: tuple[str, int], chaos: Runs) -> None:
    done = chaos(*which)

    assert "PASS; reproduce: python -m moldau.cluster.chaos 2 --seed 11" in done.said
    (folder,) = done.folder.iterdir()
    assert {"history.jsonl", "timeline.jsonl", "shown.jsonl", "report.txt"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("which", [(QUORUM, 18), (ZOOKEEPER, 18)], ids=named)
def test_clients_whose_connections_break_connect_again(which: tuple[str, int], chaos: Runs) -> None:
    assert "they connect again after" in chaos(*which).said
