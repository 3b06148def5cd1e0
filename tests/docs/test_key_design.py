"""docs/key-design.md: the table of names that don't count is the one in the code."""

from __future__ import annotations

from lambda_once.sources.attributes import LEFT_OUT, Row
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "key-design.md").read_text(encoding="utf-8")
HEAD = "| stamped by | names |\n|---|---|\n"


def line(row: Row) -> str:
    """The line of the page for *row*."""
    where = f" ({row.where})" if row.where else ""
    names = ", ".join(f"`{name}`" for name in row.names.split())
    return f"| [{row.stamped_by}]({row.source}){where} | {names} |"


def test_the_table_of_stamps_is_the_one_of_the_code() -> None:
    """Row by row, in its order, each with its source."""
    table = PAGE.split(HEAD, 1)[1].split("\n\n", 1)[0]
    assert table.splitlines() == [line(row) for row in LEFT_OUT]


def test_each_row_has_a_source() -> None:
    """Someone who misses a name looks there first."""
    assert all(row.source.startswith("https://") for row in LEFT_OUT)
