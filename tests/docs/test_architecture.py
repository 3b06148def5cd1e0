"""The page on architecture: what it names is there."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "architecture.md"
PACKAGE, TOOLS = ROOT / "src" / "lambda_once", ROOT / "tools" / "src" / "lambda_once_tools"
_PATH = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?|[a-z_]+\.py)`")


def _named() -> set[str]:
    return set(_PATH.findall(PAGE.read_text(encoding="utf-8")))


def test_each_named_file_exists() -> None:
    """Each path is one of the repository, or of the package."""
    missing = [path for path in _named() if not ((ROOT / path).exists() or (PACKAGE / path).exists())]
    assert missing == []


def test_each_package_is_named() -> None:
    """None is left that only those find who list the folder."""
    packages = {
        f"{path.parent.relative_to(ROOT)}/"
        for each in (PACKAGE, TOOLS)
        for path in each.glob("*/__init__.py")
    }
    assert packages - _named() == set()


def test_each_arrow_is_an_import() -> None:
    """The picture shows no dependency that the code does not have."""
    arrows = re.findall(r"^    (\w+) --> (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert arrows
    for importer, imported in arrows:
        folders = (PACKAGE / importer, TOOLS / importer)
        sources = [path.read_text(encoding="utf-8") for each in folders for path in each.rglob("*.py")]
        names = f"from lambda_once.{imported}", f"from lambda_once_tools.{imported}"
        assert any(name in source for source in sources for name in names), (importer, imported)
