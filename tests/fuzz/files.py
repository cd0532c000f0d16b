"""Files of a broker damaged while it runs, after a clean stop and after kill -9: it lives, and everything else serves.

Damaged are the folders of the topics that are fuzzed and of the groups' log, and the files of the log directory itself,
on one node of the cluster; never the witness's. The metadata log is the node's own ground: with that damaged it may
also end, if it says so in a line that names the file; it is then given back as it was.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from moldau.cluster.nodes import is_alive
from tests.fuzz.target import SERVE_S, TOPICS, Found, Target

CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
               "cleaner-offset-checkpoint")  # fmt: skip
FOLDERS = (*TOPICS, "__consumer_offsets")
METADATA = "__cluster_metadata-0"
LOOK_S = 3.0
"""How long a node is watched with its files damaged: retention and the cleaner look every one or two seconds."""


class FileFuzzer:
    """One round damages some files of one node and waits until the cluster is whole again."""

    def __init__(self, target: Target, rng: Random) -> None:
        self.target = target
        self.rng = rng

    def close(self) -> None:
        """Nothing is kept."""

    def round(self) -> int:
        """Damage, start, look, repair; how many files."""
        node = self.rng.choice([node for node in self.target.cluster.spec.nodes if node.is_broker])
        how = self.rng.choice(("running", "stopped", "killed"))
        if how == "stopped":
            self.target.stop(node.id)
        elif how == "killed":
            self.target.kill(node.id)
        data = self._data(Path(node.folder))
        hurt = self._damage(data)
        if how != "running":
            self.target.launch(node.id)
        try:
            self._watch(node.id, how)
        except Found as found:
            raise Found(f"{how}, damaged {hurt}: {found}") from None
        self._repair(node.id, data)
        return len(hurt)

    def metadata_round(self) -> int:
        """Damage the metadata log of one stopped node: it lives, or it ends and says which file; then give it back."""
        node = self.rng.choice(self.target.cluster.spec.nodes)
        self.target.kill(node.id)
        folder = self._data(Path(node.folder)) / METADATA
        kept = folder.with_name("kept-by-the-fuzzer")
        if not folder.is_dir():  # ZooKeeper mode has none
            self.target.launch(node.id)
            self.target.settle()
            return 0
        shutil.copytree(folder, kept)
        files = [file for file in folder.iterdir() if file.is_file() and file.stat().st_size]
        hurt = [self._hurt(file) for file in self.rng.sample(files, 1)]
        self.target.launch(node.id)
        serves = self._serves_or_ends(node.id)
        if not serves:
            words = self.target.words(node.id)
            if "Traceback" in words.rpartition("starting")[2] or not any(name.split()[-1] in words for name in hurt):
                raise Found(f"metadata damaged {hurt}: the node ended and did not say which file\n{words}")
        else:
            self.target.kill(node.id)
        shutil.rmtree(folder)
        kept.rename(folder)
        self.target.forget(node.id)
        self.target.launch(node.id)
        self.target.settle()
        return len(hurt)

    def _serves_or_ends(self, id: int) -> bool:
        deadline = time.monotonic() + SERVE_S
        while time.monotonic() < deadline:
            if not is_alive(self.target.cluster.node(id).pid):
                return False
            with suppress(Exception):
                if id in self.target.cluster.serving():
                    return True
            time.sleep(0.05)
        raise Found(f"node {id} neither serves nor ends\n{self.target.words(id)}")

    @staticmethod
    def _data(folder: Path) -> Path:
        """The log directory: the folder that has a meta.properties."""
        return next(path.parent for path in folder.rglob("meta.properties"))

    def _damage(self, data: Path) -> list[str]:
        folders = [path for path in data.iterdir() if path.is_dir() and path.name.rpartition("-")[0] in FOLDERS]
        files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
        chosen = self.rng.sample(files, min(len(files), self.rng.choice((1, 2, 8))))
        if self.rng.random() < 0.3:
            chosen += [data / name for name in CHECKPOINTS if (data / name).exists() and self.rng.random() < 0.5]
        hurt = []
        for file in chosen:
            with suppress(FileNotFoundError):  # a running node renames and deletes
                hurt.append(self._hurt(file))
        if folders and self.rng.random() < 0.2:
            hurt.append(self._litter(self.rng.choice(folders)))
        return hurt

    def _hurt(self, file: Path) -> str:
        rng, size = self.rng, file.stat().st_size
        ways: dict[str, Callable[[], object]] = {
            "flipped": lambda: _write(file, rng.randrange(max(size, 1)), bytes([rng.randrange(256)])),
            "zeroed": lambda: _write(file, rng.randrange(max(size, 1)), bytes(min(size, 4096))),
            "filled": lambda: _write(file, rng.randrange(max(size, 1)), b"\xff" * 64),
            "cut": lambda: os.truncate(file, rng.randrange(max(size, 1))),
            "emptied": lambda: os.truncate(file, 0),
            "grown": lambda: _write(file, size, rng.randbytes(rng.choice((1, 100, 10_000)))),
            "removed": lambda: file.unlink(),
            "no text": lambda: file.write_bytes(rng.randbytes(200)),
        }
        name = rng.choice(list(ways))
        ways[name]()
        return f"{name} {file.parent.name}/{file.name}"

    def _litter(self, folder: Path) -> str:
        """Put something there that no log has."""
        name = self.rng.choice(
            ("00000000000000000009.log", "x.log", "-1.log", "00000000000000000000.log.swap", "9" * 200 + ".index",
             "00000000000000000005.snapshot", "00000000000000000000.log.cleaned", "lost+found")
        )  # fmt: skip
        with suppress(OSError):
            (folder / name).write_bytes(self.rng.randbytes(self.rng.choice((0, 50, 5_000))))
        return f"littered {folder.name}/{name}"

    def _watch(self, id: int, how: str) -> None:
        """The node lives and serves, and goes on for some passes of retention and the cleaner."""
        if how != "running":
            self.target.until(lambda: id in self.target.cluster.serving() or self._dead(id), f"node {id} serves")
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline:
            self.target.check()
            time.sleep(0.2)

    def _dead(self, id: int) -> bool:
        self.target.check()
        return False

    def _repair(self, id: int, data: Path) -> None:
        """An operator's way: the folders that may be damaged are taken away, and come back from the other replicas."""
        if self.rng.random() < 0.5:
            return
        self.target.settle()
        self.target.stop(id)
        for path in list(data.iterdir()):
            if path.is_dir() and path.name.rpartition("-")[0] in FOLDERS:
                shutil.rmtree(path)
        for name in CHECKPOINTS:
            with suppress(FileNotFoundError):
                (data / name).unlink()
        self.target.launch(id)
        self.target.settle()


def _write(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)
