"""The migration drill, short, under load: to the quorum, back, there again, finished; a controller killed each time.

The cluster is made, and goes there the second time, by the commands of docs/migration.md, as they are shown."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.packages.admin.test_examples import words_of

from moldau import Cluster
from moldau.cluster.migration.steps import MigrationPhase
from moldau.cluster.migration_drill.drill import SETTINGS, Drill, assert_done
from moldau.cluster.nodes import ClusterSpec, is_alive

PATIENCE_S = 240


class ByCommands(Drill):
    """The second way is that of the page's commands, in the folder that holds ``moldau-data``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.starting: subprocess.Popen[str] | None = None
        self.left = words_of("migration.md")
        self.told(*self.next("up"), "--port", "0", *(word for pair in SETTINGS.items() for word in config(*pair)))
        self.cluster = Cluster(data=folder / "moldau-data")
        super().__init__(self.cluster, seed=7, brief=True)

    def next(self, *begins: str) -> list[str]:
        """The next line of the page."""
        words = self.left.pop(0)
        assert tuple(words[: len(begins)]) == begins, "another order than the drill's"
        return words

    def command(self, *words: str) -> subprocess.Popen[str]:
        """A command that runs in the folder."""
        return subprocess.Popen(
            [sys.executable, "-m", "moldau", *words], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def ended(self, running: subprocess.Popen[str]) -> str:
        """What a command said that must end well."""
        try:
            said, _ = running.communicate(timeout=PATIENCE_S)
        finally:
            running.kill()
        assert running.returncode == 0, said
        return said

    def told(self, *words: str) -> str:
        return self.ended(self.command(*words))

    def begin(self) -> None:
        if not self._migration.controllers:
            super().begin()
            return
        self.starting = self.command(*self.next("migrate", "start"))

        def controllers_run() -> bool:
            assert self.starting is not None
            assert self.starting.poll() in (None, 0), self.starting.communicate()
            started = {node.id: node.pid for node in ClusterSpec.load(self.cluster.folder).nodes}
            for node in self._migration.controllers:
                node.pid = started[node.id]
            return all(is_alive(node.pid) for node in self._migration.controllers)

        self.cluster.wait_until(controllers_run, "the command has started the controllers", PATIENCE_S)

    def wait_until_both(self) -> None:
        if self.starting is None:
            super().wait_until_both()
            return
        said = self.ended(self.starting)
        assert MigrationPhase.BOTH.value in said
        assert "next: moldau migrate brokers, then moldau migrate finalise" in said
        assert "ZooKeeper, takes part" in self.told(*self.next("migrate", "status"))

    def cross_all(self) -> None:
        assert "next: moldau migrate finalise" in self.told(*self.next("migrate", "brokers"))

    def finalise(self) -> None:
        assert self.told(*self.next("migrate", "finalise")).endswith("the migration is finished\nnext: nothing\n")
        assert not self.left


def config(key: str, value: str) -> tuple[str, str]:
    return "--config", f"{key}={value}"


@pytest.mark.timeout(900)
def test_a_cluster_migrates_goes_back_and_migrates_again_under_load_and_loses_nothing(tmp_path: Path) -> None:
    try:
        drill = ByCommands(tmp_path)
        with closing(drill.cluster):
            drill.run()
        assert_done(Cluster(data=tmp_path / "moldau-data"))
    finally:
        subprocess.run([sys.executable, "-m", "moldau", "down"], cwd=tmp_path, capture_output=True, check=False)
