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


CLIPPED = """
    [...document.querySelectorAll("article pre, article pre > code")]
        .filter(block => block.scrollWidth > block.clientWidth + 1)
        .map(block => block.textContent)
"""
"""Blocks of code with lines that the reader sees in part."""
HIDDEN = """
    [...document.querySelectorAll("article .mermaid, article .md-typeset__scrollwrap")]
        .filter(box => box.scrollWidth > box.clientWidth + 1)
        .filter(box => {
            const { overflowX, backgroundAttachment } = getComputedStyle(box)
            return overflowX !== "auto" || !backgroundAttachment.includes("local")
        })
        .map(box => box.outerHTML.slice(0, 200))
"""
"""Diagrams and tables that are wider than their place, and do not scroll or show no shadow at the edge."""
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
PATHS = [
    f"/{page}".removesuffix("README.md").removesuffix("index.md").removesuffix(".md").rstrip("/") + "/"
    for page in NAVIGATION
]


def _diagrams(page: str) -> int:
    path = ROOT / page
    return path.read_text(encoding="utf-8").count("\n```mermaid\n") if path.exists() else 0


def test_no_link_is_broken() -> None:
    """Every link within the site leads to a page, an anchor or a file of it."""
    pages = crawled(SITE)
    assert set(PATHS) <= set(pages)
    assert broken(SITE, pages) == []


def test_a_folder_is_shown_whole() -> None:
    """With the files of the folders inside it: the function and its test are what a reader looks for."""
    links = crawled(SITE)["/examples/minimal/"].links
    for name in ("template.yaml", "function/payments.py", "tests/test_payments.py", "events/order.json"):
        assert any(link.rstrip("/").endswith(name) for link in links), name


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
        ("held", "/docs/operations/"),
        ("Common Runtime", "/docs/deploying/"),
        ("idempotency key", "/docs/key-design/"),
        ("InProgress", "/reference/lambda_once/"),
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
        ("IAM", ("/docs/questions/#which-iam-policy", "/docs/deploying/#iam-permissions")),
        ("IAM policy", ("/docs/questions/#which-iam-policy", "/docs/deploying/#iam-permissions")),
        ("permissions", ("/docs/deploying/#permissions", "/docs/deploying/#iam-permissions")),
        ("timeout", "/docs/questions/#timeout"),
        ("lambda timeout", ("/docs/questions/#timeout", "/docs/deploying/#lambda-timeout")),
        ("stuck", ("/docs/questions/#is-something-stuck", "/docs/operations/#stuck")),
        ("unfinished", ("/docs/questions/#is-something-stuck", "/docs/operations/#stuck")),
        ("DLQ", ("/docs/questions/#why-is-this-message", "/docs/operations/#dead-letter-queues")),
        (
            "dead-letter queue",
            ("/docs/operations/#a-dead-letter-queue", "/docs/operations/#dead-letter-queues"),
        ),
        ("cost", "/docs/costs/"),
        ("test", "/docs/testing/"),
        ("how do I test", "/docs/questions/#how-do-i-test"),
        ("Terraform", "/docs/deploying/#terraform"),
        ("key", "/docs/key-design/"),
        ("crash", "/docs/questions/#crash"),
        ("leave", ("/docs/leaving/", "/docs/questions/#how-do-i-leave")),
        ("uninstall", ("/docs/leaving/", "/docs/questions/#how-do-i-leave")),
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


def test_diagrams_are_drawn(visitor: Callable[..., Visitor]) -> None:
    """Each diagram of each page is an SVG with a size."""
    reader = visitor()
    expected = {
        path: _diagrams(page) for path, page in zip(PATHS, NAVIGATION, strict=True) if _diagrams(page)
    }
    drawn = {path: reader.opens(path).evaluate(SIZES) for path in expected}
    assert {path: len(sizes) for path, sizes in drawn.items()} == expected
    assert all(width > 100 and height > 50 for sizes in drawn.values() for width, height in sizes), drawn


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


@pytest.mark.parametrize("width", [PHONE, 1280])
def test_the_first_page_shows_its_code_whole(visitor: Callable[..., Visitor], width: int) -> None:
    """No line of a block has to be scrolled."""
    page = visitor(width).opens("/")
    assert page.locator("article pre").count() > 1
    assert page.evaluate(CLIPPED) == []


def test_twin_a_clipped_block_is_found(visitor: Callable[..., Visitor]) -> None:
    """On a phone, a line that does not wrap."""
    page = visitor(PHONE).opens("/")
    page.add_style_tag(content="article pre > code { white-space: pre !important }")
    assert any("take_money" in block for block in page.evaluate(CLIPPED))


def test_no_diagram_is_clipped(visitor: Callable[..., Visitor]) -> None:
    """On a desk each is seen whole; that of the guarantees on a phone, too."""
    desk = visitor()
    assert [path for path in PATHS if desk.opens(path).evaluate(WIDER)] == []
    assert visitor(PHONE).opens("/docs/guarantees/").evaluate(WIDER) == 0


def test_what_scrolls_shows_that_it_does(visitor: Callable[..., Visitor]) -> None:
    """On a phone a wide table or diagram scrolls, and has a shadow where something is hidden."""
    phone = visitor(PHONE)
    hidden = {path: phone.opens(path).evaluate(HIDDEN) for path in PATHS}
    assert {path: found for path, found in hidden.items() if found} == {}


def test_twin_what_is_hidden_without_a_shadow_is_found(visitor: Callable[..., Visitor]) -> None:
    """A table and a diagram, each without its background."""
    page = visitor(PHONE).opens("/docs/lifecycle/")
    page.add_style_tag(
        content="article :is(.mermaid, .md-typeset__scrollwrap) { background: none !important }"
    )
    found = page.evaluate(HIDDEN)
    assert any("mermaid" in box for box in found)
    assert any("<table" in box for box in found)


def test_an_alert_is_a_warning(visitor: Callable[..., Visitor]) -> None:
    """What GitHub shows as a warning has a title and a colour here, and no page shows its mark."""
    page = visitor().opens("/docs/api/")
    assert page.locator("article .admonition.warning .admonition-title").count() == 1
    marked = [path for path in SITE.rglob("*.html") if "<p>[!" in path.read_text(encoding="utf-8")]
    assert marked == []


def test_an_empty_header_row_is_not_seen(visitor: Callable[..., Visitor]) -> None:
    """GitHub needs one; here it would be a bar without words."""
    page = visitor().opens("/docs/deploying/")
    seen = [head for head in page.locator("article thead").all() if head.is_visible()]
    assert seen
    assert all(head.inner_text().strip() for head in seen)


def test_no_menu_has_one_entry() -> None:
    """A group is worth its click."""
    assert all(len(value) > 1 for group in CONFIGURATION["project"]["nav"] for value in group.values())


def test_the_reference_is_in_the_order_of_use(visitor: Callable[..., Visitor]) -> None:
    """`Once` and its options come first; what a program gets has no constructor there."""
    reader = visitor().opens("/reference/lambda_once/")
    names = [heading.split()[0] for heading in reader.locator("h2.doc-heading").all_inner_texts()]
    assert names[:4] == ["Once", "Attempt", "Replayed", "Outcome"]
    assert reader.locator("text=Attempt(").count() == 0


def test_the_first_page_has_version_and_repository() -> None:
    """Those of pyproject.toml; where that names no repository, no page has a link to one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    first = (SITE / "index.html").read_text(encoding="utf-8")
    assert f"Version {project['version']}" in first
    assert f"lambda-once {project['version']}" in first
    repository = project.get("urls", {}).get("Repository")
    assert ("md-source" in first) == (repository is not None)
    assert repository is None or repository in first


def test_dark_mode_switches(visitor: Callable[..., Visitor]) -> None:
    """The reader's system decides at first, and the switch from then on, on every page."""
    light, dark = visitor(), visitor(scheme="dark")
    backgrounds = [each.opens("/").evaluate(BACKGROUND) for each in (light, dark)]
    assert backgrounds[0] != backgrounds[1]
    light.page.get_by_title("Switch to dark mode").click()
    assert light.page.evaluate(BACKGROUND) == backgrounds[1]
    assert light.opens("/docs/guarantees/").evaluate(BACKGROUND) == backgrounds[1]


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("/", "light"),
        ("/docs/guarantees/", "light"),
        ("/docs/guarantees/", "dark"),
        ("/reference/lambda_once.patterns.fifo/", "dark"),
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
