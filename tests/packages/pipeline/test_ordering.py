"""Which plans leave rows in an order that nothing says."""

from __future__ import annotations

import pytest

from moldau.pipeline.ordering import Order, order_of

CACHED = """\
{above}
{indent}+- InMemoryRelation [_offset#1L, k#4L], StorageLevel(disk, memory, deserialized, 1 replicas)
{indent}      +- *(2) Sort [_topic#3 ASC NULLS FIRST], false, 0
{indent}         +- Exchange hashpartitioning(_topic#3, _partition#2, 8), REPARTITION_BY_NUM, [plan_id=56]
{indent}            +- Window [row_number() windowspecdefinition(k#4L)], [k#4L], [_offset#1L ASC NULLS FIRST]
"""


def plan(*above: str) -> str:
    """A plan, as Spark prints one, of nodes above a cached source that was itself shuffled."""
    lines = [f"{'   ' * (at - 1)}{'+- ' if at else ''}{node}" for at, node in enumerate(above)]
    return CACHED.format(above="\n".join(lines), indent="   " * (len(above) - 1))


@pytest.mark.parametrize(
    "above",
    [
        ("Project [k#4L, _offset#1L]", "Filter (isnotnull(k#4L) AND (k#4L = 1))"),
        ("MapInArrow decode(value#3), [k#4L], false",),
        ("Generate explode(tags#9), false, [tag#10]",),
    ],
)
def test_steps_that_keep_the_order_are_left_alone(above: tuple[str, ...]) -> None:
    assert order_of(plan(*above)) is Order.KEPT


@pytest.mark.parametrize(
    "above",
    [
        ("Sort [k#4L ASC NULLS FIRST], true", "Aggregate [k#4L], [k#4L, count(1) AS n#173L]"),
        ("GlobalLimit 10", "LocalLimit 10", "Sort [k#4L ASC NULLS FIRST], true", "Project [k#4L]"),
    ],
)
def test_an_order_that_a_step_says_is_known(above: tuple[str, ...]) -> None:
    assert order_of(plan(*above)) is Order.SORTED


@pytest.mark.parametrize(
    "above",
    [
        ("Aggregate [k#4L], [k#4L, count(1) AS n#173L]", "Project [k#4L]"),
        ("Project [k#4L]", "Join Inner, (k#4L = cast(x#296 as bigint))"),
        ("Project [k#4L]", "Window [row_number() windowspecdefinition(k#4L)], [k#4L]"),
        ("RepartitionByExpression [k#4L]",),
        ("FlatMapGroupsInPandas [k#4L], applied(k#4L), [n#5L]",),
        ("Aggregate [k#4L], [k#4L]", "Sort [k#4L ASC NULLS FIRST], true"),
        ("Sort [k#4L ASC NULLS FIRST], false", "Aggregate [k#4L], [k#4L]"),
        ("GlobalLimit 10", "LocalLimit 10", "Project [k#4L]"),
    ],
)
def test_steps_that_shuffle_are_known(above: tuple[str, ...]) -> None:
    assert order_of(plan(*above)) is Order.ANY


def test_what_a_step_cached_itself_is_not_taken_for_the_records() -> None:
    text = """\
Project [k#4L]
+- InMemoryRelation [k#4L, n#9L], StorageLevel(disk, memory, deserialized, 1 replicas)
      +- *(2) HashAggregate(keys=[k#4L], functions=[count(1)], output=[k#4L, n#9L])
         +- Exchange hashpartitioning(k#4L, 200), ENSURE_REQUIREMENTS, [plan_id=56]
            +- InMemoryTableScan [k#4L]
                  +- InMemoryRelation [_offset#1L, k#4L], StorageLevel(disk, memory, deserialized, 1 replicas)
                        +- *(1) Range (0, 100, step=1, splits=2)
"""
    assert order_of(text) is Order.ANY


def test_a_second_branch_beside_a_cached_one_is_looked_at() -> None:
    text = """\
Union false, false
:- InMemoryRelation [k#4L], StorageLevel(disk, memory, deserialized, 1 replicas)
:     +- *(1) Range (0, 100, step=1, splits=2)
+- Aggregate [k#4L], [k#4L]
   +- LocalRelation [k#4L]
"""
    assert order_of(text) is Order.ANY
    assert order_of(text.replace("Aggregate", "Project")) is Order.KEPT
