"""Docs that say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.generate import PAGE, page
from docs.pictures import PICTURES
from docs.reference import PAGES as REFERENCE

from moldau.model.topic_defaults import BECOMES, check_default

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NO_LAWS: frozenset[str] = frozenset()
"""Words of another kind that look like ids of laws."""


def test_the_configuration_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("name", sorted(name for name, (_, factor) in BECOMES.items() if factor == 1))
def test_the_configuration_page_says_what_a_default_of_topics_may_be_where_that_is_less(name: str) -> None:
    """offsets.topic.segment.bytes was told to be 1 or more, and is refused below 1048576."""
    lines = [line for line in page().splitlines() if line.startswith(f"| `{name}` |")]
    assert lines
    for line in lines:
        if "a whole number" in line:
            told = re.search(r"(?:of at least|from) (-?\d+)", line)
            check_default(name, told[1] if told else str(-(1 << 63)))


@pytest.mark.parametrize("path", [*REFERENCE, *PICTURES], ids=lambda path: path.stem)
def test_a_reference_page_or_picture_is_what_the_code_says(path: Path) -> None:
    assert path.read_text() == {**REFERENCE, **PICTURES}[path](), "run `make docs`, and commit what it wrote"


@pytest.mark.parametrize("page_of", [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], ids=lambda path: path.stem)
def test_every_file_that_a_page_sends_its_reader_to_is_there(page_of: Path) -> None:
    """Names are paths from the root or from src/moldau; one with capitals stands for many."""
    named = re.findall(r"`([a-z_]+(?:/[a-z0-9_]+)+\.(?:py|txt))`", page_of.read_text())
    gone = [name for name in named if not (ROOT / name).exists() and not (ROOT / "src" / "moldau" / name).exists()]
    assert not gone, f"{page_of.name} names {gone}"


def test_every_package_is_on_the_page_of_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.parent.name for path in (ROOT / "src" / "moldau").glob("*/__init__.py")}
    within = {path.parent.name for path in (ROOT / "src" / "moldau" / "broker").glob("*/__init__.py")}
    assert not [name for name in sorted(packages | within) if f"`{name}/`" not in text]


def test_every_public_member_says_what_it_does() -> None:
    undone = re.findall(r"^\| `.*\|  \|$", (ROOT / "docs" / "reference-python.md").read_text(), re.M)
    assert not undone, "a docstring is missing"


def anchors(path: Path) -> set[str]:
    """What a link into a page may name: its headings, as GitHub writes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_of_the_docs_leads_somewhere() -> None:
    for found in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", found.read_text()):
            if "://" not in target:
                there = found.parent / target if target else found
                assert there.exists(), f"{found.name} points to {target}"
                assert not anchor or anchor in anchors(there), f"{found.name} points to {target}#{anchor}"


def test_every_law_that_is_cited_is_told_on_the_page_of_laws() -> None:
    """S1 to X7: whoever meets an id in a comment or in a failure finds its sentence there."""
    told = re.findall(r"^\| ([SCRZLX]\d+) \|", (ROOT / "docs" / "laws.md").read_text(), re.M)
    assert len(told) == len(set(told))
    cited: dict[str, str] = {}
    for path in [*(ROOT / "src" / "moldau").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        for found in re.findall(r"\b(?:[Ll]aws? |[(\"*| ])([SCRZLX]\d{1,2})(?=[\s:,.;)|])", path.read_text()):
            cited.setdefault(found, str(path.relative_to(ROOT)))
    unknown = {id: path for id, path in cited.items() if id not in told and id not in NO_LAWS}
    assert not unknown, "ids without a sentence in docs/laws.md"


def test_a_law_is_told_on_one_page_only() -> None:
    """Elsewhere a row begins with an id only where a count of mutants is written by a command, between its marks."""
    for path in PAGES:
        if path.name != "laws.md" and path.parent.name != "decisions":
            text = re.sub(r"<!-- (zoo|mutants): laws -->.*?<!-- end of \1: laws -->", "", path.read_text(), flags=re.S)
            assert not re.findall(r"^\| ([SCRZLX]\d+) \|", text, re.M), f"{path.name} tells laws again"


def test_every_decision_that_is_cited_was_recorded() -> None:
    recorded = {int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("*.md")}
    for path in [*PAGES, *(ROOT / "src").rglob("*.py")]:
        cited = {int(number) for number in re.findall(r"\b[Dd]ecision (\d+)\b", path.read_text())}
        assert cited <= recorded, f"{path.relative_to(ROOT)} cites {sorted(cited - recorded)}"


def test_every_word_of_the_glossary_is_in_use() -> None:
    """Each of our own words occurs in the source or on another page; one that has gone, goes from the glossary too."""
    glossary = ROOT / "docs" / "glossary.md"
    words = re.findall(r"^\| \*([^*]+)\* \|", glossary.read_text(), re.M)
    assert len(words) == len(set(words)) > 10
    paths = [*(ROOT / "src").rglob("*.py"), *(path for path in PAGES if path != glossary)]
    text = "\n".join(path.read_text() for path in paths)
    unused = [word for word in words if not re.search(rf"\b{word.replace(' ', '[ _-]')}", text, re.I)]
    assert not unused


def test_each_step_of_the_three_walks_names_one_file_that_is_there() -> None:
    walks = re.split(r"^## ", (ROOT / "docs" / "walks.md").read_text(), flags=re.M)[1:]
    assert [walk.partition("\n")[0] for walk in walks] == ["A produce request", "A fetch", "A broker's death"]
    for walk in walks:
        steps = re.findall(r"^\d+\. (.*(?:\n   .*)*)", walk, re.M)
        assert len(steps) >= 7
        for step in steps:
            (file,) = re.findall(r"`([a-z_/0-9]+\.py)`", step)
            assert (ROOT / "src" / "moldau" / file).exists(), step
