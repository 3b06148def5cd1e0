"""Pictures, tables and buttons of the built site can be read, on a phone, too: make site-test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.site.conftest import Visitor
from tests.site.test_site import PATHS, PHONE

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.site

SMALL_TERMINALS = """
    [...document.querySelectorAll("article img:not([src$='delivery.svg'])")]
        .filter(picture => picture.getBoundingClientRect().width < 600)
        .map(picture => picture.src)
"""
"""A terminal of 80 columns has letters of 12 pixels if it is 600 wide."""
BROKEN_WORDS = """
    [...document.querySelectorAll("article table code")].flatMap(code => {
        const text = code.firstChild
        return text?.nodeType !== Node.TEXT_NODE ? [] : [...text.data.matchAll(/\\w+/g)].filter(word => {
            const range = new Range()
            range.setStart(text, word.index)
            range.setEnd(text, word.index + word[0].length)
            return new Set([...range.getClientRects()].map(line => line.top)).size > 1
        }).map(String)
    })
"""
"""The words of code in tables that begin on one line and end on another."""
FAINT_BUTTONS = """
    [...document.querySelectorAll(".md-code__button")].filter(button => {
        const channels = colour => [...colour.match(/[\\d.]+/g).map(Number), 1].slice(0, 4)
        const luminance = rgb => rgb
            .map(channel => channel / 255)
            .map(channel => channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4)
            .reduce((sum, channel, index) => sum + channel * [0.2126, 0.7152, 0.0722][index], 0)
        const [below, [...above]] = [button.parentElement, button]
            .map((element, index) => getComputedStyle(element)[index ? "color" : "backgroundColor"])
            .map(channels)
        const shown = below.slice(0, 3).map((channel, index) => channel + (above[index] - channel) * above[3])
        const [dark, bright] = [below.slice(0, 3), shown].map(luminance).sort((a, b) => a - b)
        return below[3] < 1 || (bright + 0.05) / (dark + 0.05) < 3
    }).length
"""
"""The buttons that code shines through, or with less contrast than a control needs (WCAG 2.2, 1.4.11)."""
WRITTEN = [path for path in PATHS if not path.startswith("/reference/")]
"""The pages that are written; docstrings have no pictures."""
FAULTS = (SMALL_TERMINALS, BROKEN_WORDS, FAINT_BUTTONS)
OUTGROWN = """
    [...document.querySelectorAll("text")].filter(text => {
        const { x, width } = text.getBBox()
        const box = text.closest(".row") ? text.previousElementSibling.getBBox() : null
        const [left, right] = box ? [box.x + 4, box.x + box.width - 4] : [15, 425]
        return x < left || x + width > right
    }).map(text => text.textContent)
"""
"""The texts of the picture of a delivery that are wider than their box, or than the picture."""
SMALLEST = """
    Math.min(...[...document.querySelectorAll("text")]
        .map(text => parseFloat(getComputedStyle(text).fontSize)))
"""


@pytest.fixture
def bare(visitor: Callable[..., Visitor]) -> Callable[..., Visitor]:
    """Make visitors to whom the site's own style sheet is empty."""

    def without_style(*args: Any) -> Visitor:
        visited = visitor(*args)

        def empty(route: Route) -> None:
            route.fulfill(body="", content_type="text/css")

        visited.page.route("**/site.css", empty)
        return visited

    return without_style


@pytest.mark.parametrize(
    ("width", "scheme", "paths"),
    [
        (PHONE, "light", WRITTEN),
        (1280, "dark", ["/", "/docs/api.html", "/docs/cli.html", "/docs/deploying.html"]),
    ],
    ids=["phone", "desk"],
)
def test_no_page_has_a_fault(
    visitor: Callable[..., Visitor], width: int, scheme: str, paths: list[str]
) -> None:
    """Terminals are wide enough, a name in a table is not cut in two, and the buttons that copy are seen."""
    reader = visitor(width, scheme)
    found = {path: [reader.opens(path).evaluate(fault) for fault in FAULTS] for path in paths}
    assert {path: faults for path, faults in found.items() if any(faults)} == {}


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/", SMALL_TERMINALS),
        ("/docs/cli.html", SMALL_TERMINALS),
        ("/docs/api.html", BROKEN_WORDS),
        ("/docs/deploying.html", FAINT_BUTTONS),
    ],
)
def test_twin_without_its_style_sheet_the_site_has_these_faults(
    bare: Callable[..., Visitor], path: str, fault: str
) -> None:
    """So they are found, and the style sheet mends them."""
    assert bare(PHONE).opens(path).evaluate(fault)


def _delivery(visitor: Callable[..., Visitor]) -> Page:
    reader = visitor()
    reader.page.goto(f"{reader.address}/docs/img/delivery.svg")
    return reader.page


def test_the_picture_of_a_delivery_is_read_on_a_phone(visitor: Callable[..., Visitor]) -> None:
    """As wide as a page there, its smallest letters have 11 pixels, and each text is in its box."""
    assert _delivery(visitor).evaluate(SMALLEST) * (PHONE - 32) / 440 > 11
    assert _delivery(visitor).evaluate(OUTGROWN) == []


def test_twin_a_longer_text_outgrows_its_box(visitor: Callable[..., Visitor]) -> None:
    """In a box, and beside the boxes."""
    picture = _delivery(visitor)
    longer = """
        for (const kind of [".row text", ".note"])
            document.querySelector(kind).textContent = "a text longer than its box or the picture ".repeat(2)
    """
    picture.evaluate(longer)
    assert len(picture.evaluate(OUTGROWN)) == 2


def test_a_terminal_that_scrolls_needs_no_finger(visitor: Callable[..., Visitor]) -> None:
    """The browser gives it focus, and the arrow keys move it."""
    page = visitor(PHONE).opens("/docs/cli.html")
    page.locator("h2:has(+ p > img) a").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "document.activeElement.matches('p:has(> img)') && document.activeElement.scrollLeft > 0"
    )
