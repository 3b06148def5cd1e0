"""The built site in a real browser: make site-test."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from tests.site.conftest import SITE, Visitor
from tests.site.crawl import broken, crawled

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
PHONE = 390
BEST = 5
"""Results that a reader sees without scrolling."""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
OVERFLOW = """
    [...document.body.querySelectorAll("*")]
        .filter(element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .filter(element => {
            for (let box = element; box !== document.body; box = box.parentElement) {
                const { position, overflowX } = getComputedStyle(box)
                if (position === "fixed" || box !== element && overflowX !== "visible") return false
            }
            return true
        })
        .map(element => element.outerHTML.slice(0, 200))
"""
"""What sticks out of the page to the right and is in no box of its own that scrolls."""


WIDER = """
    [...document.querySelectorAll("article .mermaid")]
        .filter(box => box.scrollWidth > box.clientWidth + 1)
        .length
"""
SIZES = """
    [...document.querySelectorAll(".mermaid")]
        .map(diagram => diagram.shadowRoot.querySelector("svg").getBoundingClientRect())
        .map(box => [box.width, box.height])
"""


def _entries(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for value in entry.values():
            yield from _entries(value) if isinstance(value, list) else [value]


CONFIGURATION = tomllib.loads((ROOT / "release" / "site" / "zensical.toml").read_text(encoding="utf-8"))
NAVIGATION = list(_entries(CONFIGURATION["project"]["nav"]))
"""The pages of the site, as files, in their order."""
PATHS = [f"/{page.removesuffix('README.md').replace('.md', '.html')}" for page in NAVIGATION]


def _diagrams(page: str) -> int:
    path = ROOT / page
    return path.read_text(encoding="utf-8").count("\n```mermaid\n") if path.exists() else 0


def test_no_link_is_broken() -> None:
    """Every link within the site leads to a page, an anchor or a file of it."""
    pages = crawled(SITE)
    assert set(PATHS) <= set(pages)
    assert broken(SITE, pages) == []


def test_twin_a_broken_link_is_found(tmp_path: Path) -> None:
    """A page, a file and an anchor that are not there are each reported."""
    links = ["good/", "good/#here", "good/?q=1#here", "a.css", "https://elsewhere.example/", "#own", ""]
    bad = ["gone/", "gone.css", "good/#gone", "../gone/", "#gone"]
    anchors = "".join(f'<a href="{link}"></a>' for link in [*links, *bad])
    (tmp_path / "good").mkdir()
    (tmp_path / "a.css").touch()
    (tmp_path / "good" / "index.html").write_text('<h2 id="here"></h2>')
    (tmp_path / "index.html").write_text(f'<h1 id="own"></h1>{anchors}')
    assert broken(tmp_path, crawled(tmp_path)) == sorted(f"/ -> {link}" for link in bad)


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("held", "/docs/operations.html"),
        ("Common Runtime", "/docs/deploying.html"),
        ("idempotency key", "/docs/key-design.html"),
        ("InProgress", "/reference/lambda_once.html"),
    ],
)
def test_search_finds(visitor: Callable[..., Visitor], asked: str, page: str) -> None:
    """The page that has the answer is among the first five results, and a click leads there."""
    reader = visitor().opens("/")
    results = _found(reader, asked)
    found = [result.get_attribute("href") for result in results.all()]
    answer = next(number for number, href in enumerate(found) if page in href)
    assert answer < BEST, found
    results.nth(answer).click()
    reader.wait_for_url(f"**{page}*")


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("IAM", ("/docs/questions.html#which-iam-policy", "/docs/deploying.html#iam-permissions")),
        ("IAM policy", ("/docs/questions.html#which-iam-policy", "/docs/deploying.html#iam-permissions")),
        ("permissions", ("/docs/deploying.html#permissions", "/docs/deploying.html#iam-permissions")),
        ("timeout", "/docs/questions.html#timeout"),
        ("lambda timeout", ("/docs/questions.html#timeout", "/docs/deploying.html#lambda-timeout")),
        ("stuck", ("/docs/questions.html#is-something-stuck", "/docs/operations.html#stuck")),
        ("unfinished", ("/docs/questions.html#is-something-stuck", "/docs/operations.html#stuck")),
        ("DLQ", ("/docs/questions.html#why-is-this-message", "/docs/operations.html#dead-letter-queues")),
        (
            "dead-letter queue",
            ("/docs/operations.html#a-dead-letter-queue", "/docs/operations.html#dead-letter-queues"),
        ),
        ("cost", "/docs/costs.html"),
        ("test", "/docs/testing.html"),
        ("how do I test", "/docs/questions.html#how-do-i-test"),
        ("Terraform", "/docs/deploying.html#terraform"),
        ("key", "/docs/key-design.html"),
        ("crash", "/docs/questions.html#crash"),
        ("leave", ("/docs/leaving.html", "/docs/questions.html#how-do-i-leave")),
        ("uninstall", ("/docs/leaving.html", "/docs/questions.html#how-do-i-leave")),
    ],
)
def test_the_first_hit_answers_what_readers_ask(
    visitor: Callable[..., Visitor], asked: str, page: str | tuple[str, ...]
) -> None:
    """In their words: nobody reads the second."""
    results = _found(visitor().opens("/"), asked)
    path, _, anchor = results.first.get_attribute("href").partition(f"?h={quote_plus(asked)}")
    assert f"/{path.split('/', 3)[3]}{anchor}".startswith(page)


def _found(reader: Any, asked: str) -> Any:
    """Return the links that the search shows for *asked*, the best first."""
    reader.get_by_role("button", name="Search").first.click()
    reader.get_by_role("combobox", name="Search").fill(asked)
    results = reader.locator(f"a[role=option][href*='?h={quote_plus(asked)}']")
    results.first.wait_for()
    return results


@pytest.mark.parametrize("width", [PHONE, 1280])
def test_diagrams_are_drawn(visitor: Callable[..., Visitor], width: int) -> None:
    """Each diagram of each page is an SVG with a size, and seen whole."""
    reader = visitor(width)
    expected = {
        path: _diagrams(page) for path, page in zip(PATHS, NAVIGATION, strict=True) if _diagrams(page)
    }
    drawn = {path: (reader.opens(path).evaluate(SIZES), reader.page.evaluate(WIDER)) for path in expected}
    assert {path: len(sizes) for path, (sizes, _) in drawn.items()} == expected
    assert all(width > 100 and height > 50 for sizes, _ in drawn.values() for width, height in sizes), drawn
    assert not any(wider for _, wider in drawn.values()), drawn


def test_every_page_fits_a_phone(visitor: Callable[..., Visitor]) -> None:
    """At 390 pixels nothing sticks out: wide tables, code and diagrams scroll in their place."""
    phone = visitor(PHONE)
    outside = {path: phone.opens(path).evaluate(OVERFLOW) for path in PATHS}
    assert {path: found for path, found in outside.items() if found} == {}


def test_twin_what_sticks_out_is_seen(visitor: Callable[..., Visitor]) -> None:
    """A paragraph that is wider than the phone is found."""
    page = visitor(PHONE).opens("/")
    page.evaluate("document.querySelector('article p').style.width = '600px'")
    assert any(found.startswith("<p") for found in page.evaluate(OVERFLOW))


def test_an_alert_is_a_warning(visitor: Callable[..., Visitor]) -> None:
    """What GitHub shows as a warning has a title and a colour here, and no page shows its mark."""
    page = visitor().opens("/docs/api.html")
    assert page.locator("article .admonition.warning .admonition-title").count() == 1
    marked = [path for path in SITE.rglob("*.html") if "<p>[!" in path.read_text(encoding="utf-8")]
    assert marked == []


def test_no_menu_has_one_entry() -> None:
    """A group is worth its click."""
    assert all(len(value) > 1 for group in CONFIGURATION["project"]["nav"] for value in group.values())


def test_the_reference_has_what_the_modules_export() -> None:
    """Also what is imported from inside, and constants."""
    pages = crawled(SITE)
    for name in (
        "Once",
        "Outcome",
        "HOLD",
        "patterns.Ledger",
        "patterns.fifo.Publisher",
        "testing.sqs_event",
    ):
        module, _, exported = f"lambda_once.{name}".rpartition(".")
        assert f"{module}.{exported}" in pages[f"/reference/{module}.html"].anchors


def test_dark_mode_switches(visitor: Callable[..., Visitor]) -> None:
    """The reader's system decides at first, and the switch from then on, on every page."""
    light, dark = visitor(), visitor(scheme="dark")
    backgrounds = [each.opens("/").evaluate(BACKGROUND) for each in (light, dark)]
    assert backgrounds[0] != backgrounds[1]
    light.page.get_by_title("Switch to dark mode").click()
    assert light.page.evaluate(BACKGROUND) == backgrounds[1]
    assert light.opens("/docs/guarantees.html").evaluate(BACKGROUND) == backgrounds[1]


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("/", "light"),
        ("/docs/guarantees.html", "light"),
        ("/docs/guarantees.html", "dark"),
        ("/reference/lambda_once.patterns.fifo.html", "dark"),
    ],
)
def test_pages_are_accessible(visitor: Callable[..., Visitor], path: str, scheme: str) -> None:
    """Axe finds nothing serious: names of controls, contrast, headings, landmarks."""
    assert _serious(visitor(scheme=scheme).opens(path)) == []


def test_twin_a_nameless_button_is_found(visitor: Callable[..., Visitor]) -> None:
    """Axe runs, and finds a control without a name."""
    page = visitor().opens("/")
    page.evaluate("document.querySelector('article').append(document.createElement('button'))")
    assert [found[0] for found in _serious(page)] == ["button-name"]


def _serious(page: Any) -> list[tuple[str, str]]:
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        (violation["id"], node["html"])
        for violation in violations
        if violation["impact"] in {"serious", "critical"}
        for node in violation["nodes"]
    ]
