"""Rare ways of production code: each is where it is said to be, only simulated worlds take any, and by the seed."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import moldau
from moldau.ports import rare
from moldau.ports.rare import SHORT_FETCH, WAYS
from moldau.runtime.world import real_world
from moldau.simulator.campaign import NODES, ZNODES, Sum, missed
from moldau.simulator.marks import MARKS
from moldau.simulator.marks_zookeeper import ZOOKEEPER_MARKS
from moldau.simulator.plan import draw
from moldau.simulator.rare import MARKS as RARE
from moldau.simulator.rare import Chances, mark

SOURCE = Path(moldau.__file__).parent
TAKEN = re.compile(r"\brare\(([A-Z][A-Z_]+)\)")


def test_every_way_is_taken_in_the_file_that_is_named_for_it_and_nowhere_else() -> None:
    found = [
        (getattr(rare, name), str(path.relative_to(SOURCE)))
        for path in sorted(SOURCE.rglob("*.py"))
        for name in TAKEN.findall(path.read_text())
    ]
    assert sorted(found) == sorted((way, where) for way, (where, _) in WAYS.items())
    assert all(": " in why for _, why in WAYS.values()), "what it is: why it is allowed"


def test_no_real_world_takes_a_rare_way() -> None:
    loop = asyncio.new_event_loop()
    assert real_world(loop, lambda task, error: None).rare is None
    loop.close()
    givers = [path for path in SOURCE.rglob("*.py") if re.search(r"\brare=", path.read_text())]
    assert {path.parent.name for path in givers} == {"simulator"}


def test_a_seed_decides_which_ways_are_taken_and_when() -> None:
    one, same, other = (Chances(random.Random(seed)) for seed in (7, 7, 8))
    asked = [way for _ in range(200) for way in WAYS]
    said = [one(way) for way in asked]
    assert said == [same(way) for way in asked]
    assert said != [other(way) for way in asked]
    assert one.taken == same.taken
    assert 0 < len(one.taken) < len(WAYS), "a run allows some of them"
    assert one.marks == {mark(way) for way in one.taken}
    assert draw(7).rare


def test_a_way_that_no_seed_of_either_plane_takes_is_named() -> None:
    some = RARE - {mark(SHORT_FETCH)}
    rows = {NODES: Sum(marks=set(MARKS) | some), ZNODES: Sum(marks=set(ZOOKEEPER_MARKS))}
    assert missed(rows) == {"both planes": [mark(SHORT_FETCH)]}
    rows[ZNODES].marks.add(mark(SHORT_FETCH))
    assert missed(rows) == {}
