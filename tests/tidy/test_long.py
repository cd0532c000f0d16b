"""What `make test` leaves out is there, and is what was measured as long."""

from __future__ import annotations

import re

from tests.long import LIST, is_kept, is_long, long_ones
from tests.tools import ROOT

SAID = """
["tests/live/test_demo.py::test_one[a b-1]", 3.0]
["tests/live/test_demo.py::test_two", 1.2]
["tests/live/test_demo.py::test_two", 2.0]
["tests/live/test_demo.py::test_three", 1.9]
["tests/live/test_fuzz.py::test_a_node", 60.0]
""".strip()


def test_what_was_long_once_is_long_and_what_is_kept_is_not() -> None:
    assert long_ones(SAID) == ["tests/live/test_demo.py::test_one[a b-1]", "tests/live/test_demo.py::test_two"]


def test_what_was_not_measured_stays_long_and_what_has_become_quick_comes_back() -> None:
    listed = ["tests/live/test_demo.py::test_left_out", "tests/live/test_demo.py::test_three"]
    assert long_ones(SAID, listed) == [
        "tests/live/test_demo.py::test_left_out",
        "tests/live/test_demo.py::test_one[a b-1]",
        "tests/live/test_demo.py::test_two",
    ]


def test_every_long_test_is_there_and_none_is_kept() -> None:
    named = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    assert named
    assert all(map(is_long, named))
    for nodeid in named:
        file, _, test = nodeid.partition("::")
        assert re.search(rf"def {test.split('[')[0]}\(", (ROOT / file).read_text()), nodeid
    assert not [nodeid for nodeid in named if is_kept(nodeid)]
