"""The scenes in tests/scenes/quorum. ``MOLDAU_REWRITE=1`` writes down what happens now: read the diff first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.rooms.quorum.scene import Scene

SCENES = Path(__file__).parents[2] / "scenes" / "quorum"


def played(text: str) -> str:
    """The scene with everything that follows from each command written below its dashes."""
    scene = Scene()
    blocks = []
    for block in text.strip().split("\n\n"):
        said = block.split("\n----")[0]
        commands = [line for line in said.splitlines() if not line.startswith("#")]
        if commands:
            said += "\n----\n" + "\n".join(scene.run(command) for command in commands)
        blocks.append(said)
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", sorted(SCENES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_scene_plays_as_written(path: Path) -> None:
    text = path.read_text()
    if os.environ.get("MOLDAU_REWRITE"):
        path.write_text(played(text))
        return
    assert played(text) == text
