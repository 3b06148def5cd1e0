"""The command line and the watchdog on a table whose key and index have names of their own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.lifecycle import State
from lambda_once.testing import create_table
from tests.cli.shop import Shop, lines, open_shop
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.operations.watch import CHARGE, Post
from tests.stores.conftest import NAMES

__all__ = ["open_shop"]

SURE = ("--by", "ann", "--because", "seen at the bank", "--yes")
PLACE = "orders/charge/1"


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions, commands and the watchdog have them from the environment."""
    for name, value in asdict(NAMES).items():
        monkeypatch.setenv(f"LAMBDA_ONCE_{name.upper()}", value)


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def post(request: pytest.FixtureRequest) -> Iterator[Post]:
    """Such a table of each engine, and a watchdog."""
    if request.param == "strict":
        with mounted():
            create_table(tables.client(), "tokens")
            yield Post(tables.client(), "tokens")
        return
    client = tables.client(request.getfixturevalue("dynamodb_local"))
    with tables.fresh(client) as name:
        yield Post(client, name)
    client.close()


def _address(key: str = PLACE) -> dict[str, Any]:
    """An item of another program, under the partition key of a token of ours."""
    return {"pk": {"S": key}, "sk": {"S": "address"}, "street": {"S": "Main"}, "ttl": {"N": "1"}}


def _items(client: Any, table: str) -> list[tuple[str, str]]:
    return sorted((item["pk"]["S"], item["sk"]["S"]) for item in client.scan(TableName=table)["Items"])


def test_commands_find_list_show_and_resolve(shop: Shop) -> None:
    """And another program's item in the same partition is none of theirs."""
    shop.complete(PLACE)
    shop.hold("orders/charge/2")
    shop.begin("orders/charge/3")
    shop.put(_address())
    shop.clock.advance(3600)
    assert [row["lockToken"] for row in lines(shop.run("list", "--held", "--output", "jsonl"))] == [
        "orders/charge/2"
    ]
    assert [row["lockToken"] for row in lines(shop.run("list", "--overdue", "--output", "jsonl"))] == [
        "orders/charge/3"
    ]
    assert [row["lockToken"] for row in lines(shop.run("find", "1", "--output", "jsonl"))] == [PLACE]
    (shown,) = lines(shop.run("show", PLACE, "--output", "jsonl"))
    assert (shown["lockToken"], shown["status"]) == (PLACE, "complete")
    assert shop.run("resolve", "orders/charge/2", "--not-done", *SURE).exit_code == 0
    record = shop.store.read("orders/charge/2", shop._deadline())
    assert record is not None
    assert record.state is State.RELEASED
    assert (PLACE, "address") in _items(shop.client, shop.name)


def test_a_large_result_is_forgotten_with_its_parts(shop: Shop) -> None:
    """No part of it is left in the table."""
    large = f'"{random.Random("large").randbytes(20_000).hex()}"'
    shop.complete(PLACE, large)
    assert len(_items(shop.client, shop.name)) > 1
    assert shop.run("forget", PLACE, *SURE).exit_code == 0
    assert _items(shop.client, shop.name) == [(PLACE, "lambda-once")]


def test_the_watchdog_releases_and_goes_on_where_it_stopped(post: Post) -> None:
    """Its own rows, the cursors, have the constant sort key, too."""
    post.lapse("1", "2", "3")
    run = post.watchdog(actions={"charge": "release"}, rows=2)
    counts = [run({}, None)["checked"] for _ in range(2)]
    assert counts == [2, 1]
    assert post.states("1", "2", "3") == [State.RELEASED] * 3
    assert ("lambda-once#watchdog", "lambda-once") in _items(post.client, post.name)


def test_the_sweep_leaves_another_programs_items(post: Post) -> None:
    """Expired or not, in a partition of ours or not."""
    over = {"pk": {"S": CHARGE.format("over")}, "sk": {"S": "lambda-once"}}
    ttl = {"ttl": {"N": str(epoch_seconds(post.clock.now()) - 7200)}}
    for item in (over | ttl, _address(), _address("customer#1")):
        post.client.put_item(TableName=post.name, Item=item)
    assert post.run(sweep=True)["swept"] == 1
    assert {key for key in _items(post.client, post.name) if "watchdog" not in key[0]} >= {
        (PLACE, "address"),
        ("customer#1", "address"),
    }
    assert (CHARGE.format("over"), "lambda-once") not in _items(post.client, post.name)


def test_twin_without_the_sort_key_in_what_is_read_the_sweep_counts_a_strangers_item(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes an expired item of another program for a row of ours, and asks for its deletion."""
    from lambda_once.stores import naming

    monkeypatch.setattr(naming, "_is_token", lambda *_: True)
    post.client.put_item(TableName=post.name, Item=_address())
    post.run(sweep=True)
    assert post.sent["DeleteItem"] == 1
