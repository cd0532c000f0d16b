"""Scenes are text: commands, ``----``, and what followed from each. A blank line ends a block; ``#`` explains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def played(text: str, run: Callable[[str], str]) -> str:
    """The scene with everything that follows from each command written below its dashes."""
    blocks = []
    for block in text.strip().split("\n\n"):
        said = block.split("\n----")[0]
        commands = [line for line in said.splitlines() if not line.startswith("#")]
        if commands:
            said += "\n----\n" + "\n".join(run(command) for command in commands)
        blocks.append(said)
    return "\n\n".join(blocks) + "\n"


def play(path: Path, run: Callable[[str], str], *, rewrite: bool) -> None:
    """Hold a scene to what is written in it, or write it down anew."""
    text = path.read_text()
    if rewrite:
        path.write_text(played(text, run))
    else:
        assert played(text, run) == text
