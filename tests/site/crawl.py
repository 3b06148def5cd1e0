"""The built site as files: its pages, and the links between them that lead nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit


@dataclass(frozen=True, slots=True)
class Page:
    """What a page links to, as written, and the anchors that links to it may name."""

    links: frozenset[str]
    anchors: frozenset[str]


def crawled(site: Path) -> dict[str, Page]:
    """Return every page of *site* by its address there. 404.html has none: it is served at any."""
    pages = (path for path in site.rglob("*.html") if path.name != "404.html")
    return {f"/{path.relative_to(site).as_posix().removesuffix('index.html')}": _read(path) for path in pages}


def broken(site: Path, pages: Mapping[str, Page]) -> list[str]:
    """Return each link within the site that leads nowhere, as "page -> link"."""
    return sorted(
        f"{address} -> {link}"
        for address, page in pages.items()
        for link in page.links
        if not _leads_somewhere(address, link, site, pages)
    )


def _leads_somewhere(address: str, link: str, site: Path, pages: Mapping[str, Page]) -> bool:
    target = urlsplit(urljoin(f"http://site{address}", link))
    if target.netloc != "site":
        return True
    path = unquote(target.path)
    if path in pages:
        return not target.fragment or unquote(target.fragment) in pages[path].anchors
    return not path.endswith("/") and (site / path.removeprefix("/")).is_file()


def _read(path: Path) -> Page:
    parser = _Parser()
    parser.feed(path.read_text(encoding="utf-8"))
    return Page(frozenset(parser.links), frozenset(parser.anchors))


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src", "srcset"} and value:
                self.links.add(value)
            elif name in {"id", "name"} and value:
                self.anchors.add(value)
