"""Times of a crontab, and runs that follow them one after the other."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.pipeline.reading import PipelineError
from moldau.pipeline.running import Ended
from moldau.pipeline.schedule import parse_schedule
from moldau.pipeline.ticking import Ticks

MONDAY = datetime(2026, 11, 23, 7, 2, 30)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("* * * * *", "2026-11-23 07:03"),
        ("*/5 * * * *", "2026-11-23 07:05"),
        ("7/20 * * * *", "2026-11-23 07:07"),
        ("0 8-18/2 * * *", "2026-11-23 08:00"),
        ("2 7 * * *", "2026-11-24 07:02"),
        ("0 0 1 * *", "2026-12-01 00:00"),
        ("0 0 * * sun", "2026-11-29 00:00"),
        ("0 0 * * 7", "2026-11-29 00:00"),
        ("0 0 13 * fri", "2026-11-27 00:00"),
        ("0 0 */2 * fri", "2026-11-27 00:00"),
        ("30 12 29 feb *", "2028-02-29 12:30"),
        ("0,30 1 * jan,mar-apr mon-fri", "2027-01-01 01:00"),
        ("@hourly", "2026-11-23 08:00"),
        ("@weekly", "2026-11-29 00:00"),
    ],
)
def test_the_next_time_is_found(text: str, after: str) -> None:
    assert str(parse_schedule(text).after(MONDAY))[:16] == after


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is no schedule: five fields"),
        ("* * * *", "is no schedule: five fields"),
        ("60 * * * *", "'60' is no minute: 0 to 59"),
        ("* 5-3 * * *", "'5-3' is no hour"),
        ("* * 0 * *", "'0' is no day of month"),
        ("* * * foo *", "'foo' is no month"),
        ("* * * * 8", "'8' is no day of week"),
        ("*/0 * * * *", "'\\*/0' is no minute"),
        ("1- * * * *", "'1-' is no minute"),
        (", * * * *", "'' is no minute"),
        ("0 0 31 feb *", "never comes"),
    ],
)
def test_what_is_no_schedule_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_schedule(text)


@given(
    st.tuples(st.integers(0, 59), st.integers(0, 23), st.integers(1, 28), st.integers(1, 12), st.integers(0, 7)),
    st.lists(st.sampled_from(range(5)), unique=True),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
)
def test_no_time_before_the_next_one_is_right(numbers: tuple[int, ...], free: list[int], moment: datetime) -> None:
    """Held against a schedule that looks at every minute of the next day."""
    schedule = parse_schedule(" ".join("*" if at in free else str(one) for at, one in enumerate(numbers)))

    def right(at: datetime) -> bool:
        parts = (at.minute, at.hour, at.day, at.month, at.isoweekday() % 7)
        fits = [at_ in free or parts[at_] == numbers[at_] % (7 if at_ == 4 else 100) for at_ in range(5)]
        days = fits[2] or fits[4] if not {2, 4} & set(free) else fits[2] and fits[4]
        return fits[0] and fits[1] and days and fits[3]

    found = schedule.after(moment)
    assert right(found)
    first = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    minutes = (first + timedelta(minutes=one) for one in range(min(1440, int((found - first).total_seconds() // 60))))
    assert not any(map(right, minutes))


@given(st.text(alphabet="0123456789*/-, abjfn@", max_size=20))
def test_no_text_fails_otherwise_than_by_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_schedule(text).after(MONDAY)


class Clock:
    """Time that passes when somebody waits or works."""

    def __init__(self) -> None:
        self.at = MONDAY

    def now(self) -> datetime:
        return self.at

    def wait(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Work:
    """A run that takes so many minutes, notes when it began, and stops its ticks after the last."""

    def __init__(self, clock: Clock, minutes: list[int], begun: list[str], ended: Ended = Ended.DONE) -> None:
        self.clock, self.minutes, self.begun, self.ended = clock, minutes, begun, ended
        self.ticks: Ticks | None = None

    def run(self) -> Ended:
        self.begun.append(str(self.clock.at)[11:16])
        self.clock.wait(60 * self.minutes.pop(0))
        if not self.minutes:
            assert self.ticks is not None
            self.ticks.stop()
        return self.ended

    def stop(self) -> None:
        self.begun.append("stopped")


def test_runs_follow_the_times_never_overlap_and_tell_what_they_missed() -> None:
    clock, begun, said = Clock(), [], []
    work = Work(clock, [1, 12, 1, 0], begun)
    work.ticks = Ticks(parse_schedule("*/5 * * * *"), lambda: work, say=said.append, now=clock.now, wait=clock.wait)
    assert work.ticks.run() is Ended.STOPPED
    assert begun == ["07:05", "07:10", "07:25", "07:30", "stopped"]
    assert said == ["the run took 0:12:00: 2 times of '*/5 * * * *' were missed"]


def test_a_file_that_is_wrong_at_its_time_is_told_and_read_again_at_the_next() -> None:
    clock, begun, said = Clock(), [], []
    work = Work(clock, [0], begun)
    wrong: list[Exception] = [PipelineError("a.yaml:3:1: error: no"), FileNotFoundError("a.yaml")]

    def begin() -> Work:
        if wrong:
            raise wrong.pop(0)
        return work

    work.ticks = Ticks(parse_schedule("@hourly"), begin, say=said.append, now=clock.now, wait=clock.wait)
    assert work.ticks.run() is Ended.STOPPED
    assert begun == ["10:00", "stopped"]
    assert said[0] == "the file cannot be taken, and is read again at the next time:\na.yaml:3:1: error: no"
    assert len(said) == 2


def test_a_run_that_pauses_is_told_and_tried_again_at_the_next_time() -> None:
    clock, begun, said = Clock(), [], []
    work = Work(clock, [0, 0], begun, Ended.PAUSED)
    work.ticks = Ticks(parse_schedule("@hourly"), lambda: work, say=said.append, now=clock.now, wait=clock.wait)
    work.ticks.run()
    assert begun == ["08:00", "09:00", "stopped"]
    assert len(said) == 2
    assert "tried again at the next time" in said[0]


@pytest.mark.parametrize("back", [timedelta(days=365), timedelta(minutes=30)])
def test_a_clock_that_was_set_back_far_counts_anew_and_a_little_runs_nothing_twice(
    back: timedelta,
) -> None:
    clock, said = Clock(), list[str]()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.wait(seconds)
        if len(waits) == 1:
            clock.at = clock.at - back
        assert len(waits) < 10_000, "it waits for ever"

    work = Work(clock, [0, 0], [])
    work.ticks = Ticks(parse_schedule("@hourly"), lambda: work, say=said.append, now=clock.now, wait=wait)
    assert work.ticks.run() is Ended.STOPPED
    assert [one for one in work.begun if one != "stopped"] == ["08:00", "09:00"]
    assert len(said) == (1 if back > timedelta(hours=1) else 0)
