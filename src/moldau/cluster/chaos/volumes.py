"""What a node's data lies on: a plain folder, a small disk that can be filled, or one that can be frozen.

All are mounted in the command's own mount namespace and end with it. CannotBreak says what is not permitted here.
Read next: ``system.py``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from moldau.cluster.chaos.net import INSIDE, CannotBreak
from moldau.model.protocol import Protocol

SMALL_MB = 48
FREEZABLE_MB = 256
_FILLER = "filler"


class Volume(Protocol):
    """A node's data folder."""

    def prepare(self, folder: Path) -> None:
        """Make the folder."""

    def fill(self, folder: Path) -> None:
        """Leave no space."""

    def empty(self, folder: Path) -> None:
        """Give the space back."""

    def freeze(self, folder: Path) -> None:
        """Let every write hang."""

    def thaw(self, folder: Path) -> None:
        """Let them go on."""

    def close(self, folder: Path) -> None:
        """Give it up; what it holds goes with it."""


class Plain:
    """A folder on the disk that the command was given."""

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def fill(self, folder: Path) -> None:
        raise CannotBreak("a plain folder's disk is not filled")

    def empty(self, folder: Path) -> None:
        """It was never full."""

    def freeze(self, folder: Path) -> None:
        raise CannotBreak("a plain folder's disk is not frozen")

    def thaw(self, folder: Path) -> None:
        """It was never frozen."""

    def close(self, folder: Path) -> None:
        """It stays."""


class SmallVolume(Plain):
    """A tmpfs of a few MiB."""

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _must(["mount", "-t", "tmpfs", "-o", f"size={SMALL_MB}m", "moldau", str(folder)])

    def fill(self, folder: Path) -> None:
        with open(folder / _FILLER, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def empty(self, folder: Path) -> None:
        (folder / _FILLER).unlink(missing_ok=True)

    def close(self, folder: Path) -> None:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


class Freezable(Plain):
    """An ext4 in a file, which ``fsfreeze`` stops: an exact hung disk. Needs root."""

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        image = folder.with_name("disk.ext4")
        with open(image, "wb") as file:
            file.truncate(FREEZABLE_MB << 20)
        _must(["mkfs.ext4", "-q", "-F", str(image)])
        _must(["mount", "-o", "loop", str(image), str(folder)])
        (folder / "lost+found").rmdir()

    def freeze(self, folder: Path) -> None:
        _must(["fsfreeze", "-f", str(folder)])

    def thaw(self, folder: Path) -> None:
        subprocess.run(["fsfreeze", "-u", str(folder)], capture_output=True, check=False)

    def close(self, folder: Path) -> None:
        self.thaw(folder)
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        folder.with_name("disk.ext4").unlink(missing_ok=True)


def _must(command: list[str]) -> None:
    if os.environ.get(INSIDE) != "yes":
        raise CannotBreak(f"nothing is mounted outside a namespace of one's own: {os.environ.get(INSIDE, '')}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CannotBreak(f"no {command[0]} on the PATH") from None
    if done.returncode:
        raise CannotBreak(f"{' '.join(command)}: {done.stderr.strip()}")
