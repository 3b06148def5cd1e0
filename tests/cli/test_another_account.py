"""The command line on a table that is named by its ARN, as one of another account is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from click.testing import Result

from tests.cli.shop import Shop, lines, on_strict

SURE = ("--because", "never sent", "--by", "ann", "--yes")
TOKEN = "orders/charge/order_5"


@dataclass(frozen=True, slots=True)
class ByArn:
    """A shop whose operators name the table by its ARN alone."""

    shop: Shop
    arn: str

    def run(self, *args: str) -> Result:
        return self.shop.run(*args, LAMBDA_ONCE_TABLE=self.arn)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[ByArn]:
    """A table with one row that is held."""
    with on_strict(monkeypatch) as shop:
        shop.hold(TOKEN)
        yield ByArn(shop, shop.client.describe_table(TableName=shop.name)["Table"]["TableArn"])


@pytest.mark.parametrize(
    "command", [["list", "--held"], ["find", "order"], ["show", TOKEN]], ids=lambda each: str(each[0])
)
def test_a_row_is_listed_found_and_shown(there: ByArn, command: list[str]) -> None:
    """By the variable, and by --table."""
    for ran in (
        there.run(*command, "--output", "jsonl"),
        there.shop.run(*command, "--output", "jsonl", "--table", there.arn),
    ):
        assert [row["lockToken"] for row in lines(ran)] == [TOKEN]


def test_a_row_is_resolved(there: ByArn) -> None:
    """And is no longer listed."""
    ran = there.run("resolve", TOKEN, "--not-done", *SURE)
    assert ran.exit_code == 0, ran.stderr
    assert lines(there.run("list", "--held", "--output", "jsonl")) == []
