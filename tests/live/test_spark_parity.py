"""Spark's own Kafka connector beside ``format("moldau")``: the same rows for the same options, or a reason why not.

Both run in one session of an environment of its own, on the same topics; without it (``make parity`` makes it) these
tests are skipped. Read next: tests/parity/cases.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from foreign import create_topic
from kafka_peer import KafkaPeer, wait_until
from moldau_peer import MoldauPeer
from tests.tools import missing

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-parity" / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-parity: make parity")


def program(module: str, *arguments: object) -> list[str]:
    return [str(PYTHON), "-m", module, *map(str, arguments)]


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": str(PYTHON)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("system", [MoldauPeer, KafkaPeer])
def test_every_option_means_the_same_or_differs_for_a_reason_that_is_given(system: type[KafkaPeer]) -> None:
    if system is KafkaPeer and (why := missing("kafka")) is not None:
        pytest.skip(why)
    with system(nodes=1) as peer:
        command = program("tests.parity.compare", peer.bootstrap_servers)
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-4000:]
    assert said[-1] == {"end": True}, done.stderr[-4000:]
    other = [line for line in said[:-1] if not line["same"] and not line["differs"]]
    assert other == []
    assert [line["case"] for line in said[:-1] if line["same"] and line["differs"]] == [], (
        "these do not differ any more"
    )


@pytest.mark.timeout(600)
def test_sparks_own_connector_reads_and_writes_on_while_a_broker_is_killed(tmp_path: Path) -> None:
    """Its stream from one topic into another, at least once, with a kill -9 of the leader of its partitions.

    What the program says goes to files: of two readers of a pipe each has a part of it.
    """
    said, errors = tmp_path / "said", tmp_path / "errors"
    with MoldauPeer(nodes=3) as peer, said.open("wb") as out, errors.open("wb") as err:
        create_topic(peer.bootstrap_servers, "killed-in", 3)
        create_topic(peer.bootstrap_servers, "killed-out", 3)
        command = program("tests.parity.killed", peer.bootstrap_servers)
        running = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT, env=environment())
        try:
            wait_until(
                lambda: "half" in said.read_text() or running.poll() is not None,
                "half of the records were written",
                240,
            )
            peer.kill(1)
            running.wait(300)
        finally:
            running.kill()
            running.wait()
    assert "equal" in said.read_text().split(), (said.read_text(), errors.read_text()[-4000:])
