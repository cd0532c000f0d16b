"""The scenes in tests/scenes/controller. ``pytest --rewrite`` writes down what happens now: read the diff first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages.controller.scene import Scene
from tests.scenes.playing import play

SCENES = Path(__file__).parents[2] / "scenes" / "controller"


@pytest.mark.parametrize("path", sorted(SCENES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_scene_plays_as_written(path: Path, rewrite: bool) -> None:
    play(path, Scene().run, rewrite=rewrite)
