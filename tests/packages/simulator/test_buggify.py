"""Buggify points: each is where it is said to be, only simulated nodes take any, and by the seed."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import moldau
from moldau.ports import buggify
from moldau.ports.buggify import BUGGIFY_POINTS, SHORT_FETCH
from moldau.runtime.world import real_world
from moldau.simulator.buggify import COVERAGE_POINTS as BUGGIFY
from moldau.simulator.buggify import SeededBuggify, coverage_point
from moldau.simulator.campaign import NODES, ZNODES, Sum, missed
from moldau.simulator.coverage_points import COVERAGE_POINTS
from moldau.simulator.coverage_points_zookeeper import ZOOKEEPER_COVERAGE_POINTS
from moldau.simulator.plan import draw

SOURCE = Path(moldau.__file__).parent
TAKEN = re.compile(r"\bbuggify\(([A-Z][A-Z_]+)\)")


def test_every_point_is_taken_in_the_file_that_is_named_for_it_and_nowhere_else() -> None:
    found = [
        (getattr(buggify, name), str(path.relative_to(SOURCE)))
        for path in sorted(SOURCE.rglob("*.py"))
        for name in TAKEN.findall(path.read_text())
    ]
    assert sorted(found) == sorted((point, where) for point, (where, _) in BUGGIFY_POINTS.items())
    assert all(": " in why for _, why in BUGGIFY_POINTS.values()), "what it is: why it is allowed"


def test_no_real_node_takes_a_buggify_point() -> None:
    loop = asyncio.new_event_loop()
    assert real_world(loop, lambda task, error: None).buggify is None
    loop.close()
    givers = [path for path in SOURCE.rglob("*.py") if re.search(r"\bbuggify=", path.read_text())]
    assert {path.parent.name for path in givers} == {"simulator"}


def test_a_seed_decides_which_points_are_taken_and_when() -> None:
    one, same, other = (SeededBuggify(random.Random(seed)) for seed in (7, 7, 8))
    asked = [point for _ in range(200) for point in BUGGIFY_POINTS]
    said = [one(point) for point in asked]
    assert said == [same(point) for point in asked]
    assert said != [other(point) for point in asked]
    assert one.taken == same.taken
    assert 0 < len(one.taken) < len(BUGGIFY_POINTS), "a run allows some of them"
    assert one.coverage == {coverage_point(point) for point in one.taken}
    assert draw(7).buggify


def test_a_point_that_no_seed_of_either_plane_takes_is_named() -> None:
    some = BUGGIFY - {coverage_point(SHORT_FETCH)}
    rows = {NODES: Sum(coverage=set(COVERAGE_POINTS) | some), ZNODES: Sum(coverage=set(ZOOKEEPER_COVERAGE_POINTS))}
    assert missed(rows) == {"both modes": [coverage_point(SHORT_FETCH)]}
    rows[ZNODES].coverage.add(coverage_point(SHORT_FETCH))
    assert missed(rows) == {}
