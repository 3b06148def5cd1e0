from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.docs.pages import BESIDE_CODE, PAGES, ROOT, anchors, links, named
from tests.guarantees.test_twins import TWINS

GUARANTEES = ROOT / "docs" / "guarantees.md"
FAULTS = ROOT / "tests" / "faults" / "README.md"
EVIDENCE = ROOT / "tests" / "guarantees" / "README.md"
THREATS = ROOT / "docs" / "threat-model.md"
AT_THE_ROOT = [ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]
SITE = ROOT / "release" / "site" / "zensical.toml"
_TEST = re.compile(r"`(test_\w+(?:\[\w+\])?)`")
_DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, *BESIDE_CODE, *AT_THE_ROOT], ids=named)
def test_relative_links_lead_somewhere(page: Path) -> None:
    """The file is there (the site shows no folders), and so is the heading where the link names one."""
    broken = []
    for link in links(page):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [*PAGES, *AT_THE_ROOT], ids=named)
def test_no_address_is_a_placeholder(page: Path) -> None:
    """Someone would copy it, and send a report or a check to a stranger."""
    placeholder = r"\b(?:OWNER|ORG|YOUR[-_]?ORG|USER)/\w+|\w*@example\.(?:org|net)\b"
    assert re.findall(placeholder, page.read_text("utf-8")) == []


def reached(start: Path, pages: Mapping[Path, Iterable[Path]]) -> set[Path]:
    """Return *start* and the pages to which links lead from there, through pages."""
    found, left = {start}, [start]
    while left:
        new = set(pages.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def linked() -> dict[Path, set[Path]]:
    """Return the files to which each page links."""
    pages = [*PAGES, *BESIDE_CODE, *AT_THE_ROOT]
    return {
        page: {(page.parent / link.partition("#")[0]).resolve() for link in links(page)} for page in pages
    }


def test_every_page_is_reached_from_the_readme() -> None:
    """By links of pages that are themselves reached."""
    found = reached(ROOT / "README.md", linked())
    assert [named(page) for page in [*PAGES, *BESIDE_CODE] if page not in found] == []


def test_twin_a_page_that_only_unreached_pages_link_to_is_not_reached() -> None:
    """Two pages that link to each other do not reach one another from outside."""
    readme, guide, island, other = (Path(name) for name in ("readme", "guide", "island", "other"))
    found = reached(readme, {readme: {guide}, guide: {readme}, island: {other, guide}, other: {island}})
    assert found == {readme, guide}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """Each page of docs/ and beside the tests once, and no page that is not there."""
    named_pages = re.findall(r'"((?:benchmarks|docs|tests)/[^"]+\.md)"', SITE.read_text(encoding="utf-8"))
    assert sorted(named_pages) == sorted(named(page) for page in [*PAGES[1:], *BESIDE_CODE])


def test_an_entry_of_the_menu_is_the_title_of_its_page() -> None:
    """A reader who clicks on it, or finds it by a search, is where the words said."""
    entries = re.findall(r'\{ "([^"]+)" = "([^"]+\.md)" \}', SITE.read_text(encoding="utf-8"))
    titles = {
        page: (ROOT / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for _, page in entries
        if (ROOT / page).exists()
    }
    assert len(titles) > len(PAGES)
    assert {page: entry for entry, page in entries if page in titles} == titles


@pytest.mark.parametrize("page", [FAULTS, EVIDENCE, THREATS], ids=named)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    """Each is somewhere in tests/ under the name that the page gives."""
    files = (ROOT / "tests").rglob("test_*.py")
    defined = {name for file in files for name in _DEFINED.findall(file.read_text(encoding="utf-8"))}
    named_tests = set(_TEST.findall(page.read_text(encoding="utf-8")))
    assert named_tests
    assert named_tests - defined - {f"test_twin[{twin}]" for twin in TWINS} == set()


def test_each_threat_names_what_shows_that_it_fails() -> None:
    """What is not prevented is no item: the page has it under "Accepted"."""
    threats = re.findall(r"^\* \*\*.*\n(?:  .*\n)*", THREATS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(threats) > 20
    assert [threat for threat in threats if not _TEST.search(threat)] == []


def test_the_evidence_names_every_row_of_the_table_of_twins() -> None:
    """No twin is added, or renamed, without the promise that it belongs to."""
    page = EVIDENCE.read_text(encoding="utf-8")
    assert [twin for twin in TWINS if f"`test_twin[{twin}]`" not in page] == []


def test_each_guarantee_has_a_test_and_a_negative_twin() -> None:
    """Each names a test that shows it, and but the seventh one that shows what happens without its guard."""
    sections, promised = (
        re.split(r"^## (?=\d+\. )", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        for page in (EVIDENCE, GUARANTEES)
    )
    numbers = [int(section.partition(".")[0]) for section in sections]
    assert numbers == [*range(1, 17)]
    assert [each.splitlines()[0] for each in sections] == [each.splitlines()[0] for each in promised]
    for number, section in zip(numbers, sections, strict=True):
        cited = _TEST.findall(section)
        assert any("test_twin" not in name for name in cited), section.splitlines()[0]
        assert number in (7, 10) or any("test_twin" in name for name in cited), section.splitlines()[0]


def test_each_test_is_in_the_file_that_its_link_leads_to() -> None:
    """A reader who follows the link finds the test there."""
    links = re.findall(r"\[(`test_[^\]]+`)\]\(([^)]+)\)", EVIDENCE.read_text(encoding="utf-8"))
    assert links
    for names, target in links:
        defined = _DEFINED.findall((EVIDENCE.parent / target).read_text(encoding="utf-8"))
        assert set(_TEST.findall(names)) <= set(defined), target
