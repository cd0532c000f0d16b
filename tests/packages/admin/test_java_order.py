"""Names stand in the order of Java's hash tables, as OpenJDK 17 gave it for the same names."""

from __future__ import annotations

from moldau.admin.classic.topics_described import answered_order

OF_JAVA = [
    "t-9", "t-20", "t-15", "t-14", "unwritten", "t-17", "unheard", "t-16", "t-11", "t-21", "t-10", "t-13",
    "t-12", "t-19", "t-18", "t-0", "t-2", "t-1", "t-4", "t-3", "t-6", "t-5", "t-8", "t-7",
]  # fmt: skip


def test_names_of_one_slot_stand_as_in_the_larger_copy_that_the_client_makes_on_the_way() -> None:
    """24 names fill a table of 32 slots to three quarters; a copy of it has 64, where these two are apart."""
    assert OF_JAVA.index("unwritten") < OF_JAVA.index("unheard")
    assert answered_order(sorted(OF_JAVA)) == OF_JAVA
