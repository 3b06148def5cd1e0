"""The built site on a loopback server of its own, and a browser that can reach nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.site.chromium import FLAGS, provide

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

SITE = Path(__file__).parents[2] / "build" / "site"
OPEN_SHADOWS = """
    const attach = Element.prototype.attachShadow
    Element.prototype.attachShadow = function (options) {
        return attach.call(this, {...options, mode: "open"})
    }
"""
"""Diagrams are drawn into closed shadow roots, where a test sees nothing."""
DRAWN = """
    document.querySelector("pre.mermaid") === null
    && [...document.querySelectorAll("div.mermaid")].every(drawn => drawn.shadowRoot.querySelector("svg"))
"""


@dataclass(frozen=True, slots=True)
class Visitor:
    """One page of the browser, and what went wrong on it: errors, and requests to other hosts."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    def opens(self, path: str) -> Page:
        """Go to *path* and wait for its diagrams."""
        self.page.goto(f"{self.address}{path}")
        self.page.wait_for_function(DRAWN)
        return self.page


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Serve the site."""
    assert (SITE / "index.html").exists(), "make site builds it"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium, with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=provide(), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser: Browser, address: str) -> Iterator[Callable[..., Visitor]]:
    """Make visitors with a screen of *width* and a *scheme*; none may have had a complaint in the end."""
    visitors: list[Visitor] = []

    def visitor(width: int = 1280, scheme: str = "light") -> Visitor:
        size = {"width": width, "height": 900}
        page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        visitors.append(Visitor(page, address))
        complaints = visitors[-1].complaints

        def admitted(route: Route) -> None:
            if route.request.url.startswith(f"{address}/"):
                route.continue_()
            else:
                complaints.append(f"a request to {route.request.url}")
                route.abort()

        page.add_init_script(OPEN_SHADOWS)
        page.route("**/*", admitted)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return visitors[-1]

    yield visitor
    for each in visitors:
        each.page.close()
    assert [complaint for each in visitors for complaint in each.complaints] == []
