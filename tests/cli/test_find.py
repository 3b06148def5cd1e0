from __future__ import annotations

import pytest

from lambda_once.core.canonical import digest
from lambda_once.core.keys import token
from lambda_once.core.writes import Release
from lambda_once_tools import search
from tests.cli.shop import REQUEST, Shop, complaint, lines, on_engine, open_shop

__all__ = ["open_shop"]

LONG = "x" * 300


def _keys(shop: Shop, *args: str) -> list[str]:
    return sorted(row["key"] for row in lines(shop.run("find", "--output", "jsonl", *args)))


def test_finished_tokens_are_found_with_their_state(shop: Shop) -> None:
    """By a part of their key, whatever became of them; a fitting name or service is no fitting key."""
    shop.complete("orders/charge/order_12345")
    shop.hold("orders/12345/order_9")
    shop.hold("orders/refund/order_12345-b")
    ran = shop.run("find", "12345", "--output", "jsonl")
    assert ran.exit_code == 0
    assert sorted((row["lockToken"], row["status"]) for row in lines(ran)) == [
        ("orders/charge/order_12345", "complete"),
        ("orders/refund/order_12345-b", "held"),
    ]


@pytest.mark.parametrize("key", ["order/create 1", "a%b", "größe", "#1", "2026-11-20T10:12", "x/y/z"])
def test_text_is_given_as_it_is_typed(shop: Shop, key: str) -> None:
    """The token has it percent-encoded; the operator types it plainly."""
    shop.complete(token("orders", "charge", None, f"<{key}>"))
    assert _keys(shop, key) == [f"<{key}>"]


def test_a_percent_code_is_not_taken_for_text(shop: Shop) -> None:
    """The 2F of an encoded slash is no 2F in the key."""
    shop.complete(token("orders", "charge", None, "a/b"))
    ran = shop.run("find", "2F")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert _keys(shop, "a/b") == ["a/b"]


def test_scopes_are_searched_too(shop: Shop) -> None:
    """A tenant's tokens are found by the tenant, in capitals or not."""
    shop.complete("orders/charge/acme/5")
    shop.complete("orders/mail/acme:POST/6")
    shop.complete("orders/acme/7")
    assert _keys(shop, "acme") == ["5", "6"]
    assert _keys(shop, "ACME", "--ignore-case") == ["5", "6"]


def test_find_is_case_sensitive_by_default(shop: Shop) -> None:
    """Also beyond ASCII."""
    shop.complete(token("orders", "charge", None, "Größe-A"))
    assert _keys(shop, "größe-a") == []
    assert _keys(shop, "GRÖSSE-a", "--ignore-case") == ["Größe-A"]


@pytest.mark.parametrize(
    ("key", "typed"),
    [(LONG, LONG), (12.5, "12.5"), ({"b": 1, "a": "x"}, '{"a": "x", "b": 1}')],
)
def test_a_hashed_key_is_found_by_all_of_it(shop: Shop, key: object, typed: str) -> None:
    """A long text, a fraction or JSON is stored as its SHA-256."""
    hashed = f"orders/charge/acme/{digest(key)}"
    shop.complete(hashed)
    ran = shop.run("find", typed, "--output", "jsonl")
    assert [row["lockToken"] for row in lines(ran)] == [hashed]
    assert "1 found by SHA-256" in ran.stderr


@pytest.mark.parametrize("delivery", ["059f36b4-87a3-44ab-83d2-661975830a7d", "größe/1", "shardId-0:49"])
def test_a_message_leads_to_its_token(shop: Shop, delivery: str) -> None:
    """By its whole id, whatever became of the token; with what it costs."""
    shop.hold("orders/charge/held", delivery=delivery)
    shop.complete("orders/mail/done", delivery=delivery)
    shop.complete("orders/charge/other", delivery=f"{delivery}-2")
    shop.complete("orders/charge/none")
    ran = shop.run("find", "--delivery", delivery, "--output", "jsonl")
    assert ran.exit_code == 0
    assert {row["lockToken"] for row in lines(ran)} == {"orders/charge/held", "orders/mail/done"}
    before, after, following = ran.stderr.splitlines()
    assert before.startswith("reading the whole table: about 4 rows, ")
    assert after.startswith("read 8 pages for ")
    assert following == "next: lambda-once show TOKEN"


def test_a_request_leads_to_its_token(shop: Shop) -> None:
    """By Lambda's request id, which a failed asynchronous invocation has; its retries have the same."""
    shop.end(shop.begin("orders/ship/blue/1", locked_by="ship/r-1", delivery="event-1"), Release(None))
    shop.release("orders/ship/2")
    shop.begin("orders/ship/3", locked_by="ship/r-12")
    shop.begin("orders/ship/4", locked_by="a/r-1/b")
    ran = shop.run("find", "--delivery", "r-1", "--output", "jsonl")
    assert [(row["lockToken"], row["status"]) for row in lines(ran)] == [("orders/ship/blue/1", "released")]
    assert {
        row["lockToken"] for row in lines(shop.run("find", "--delivery", REQUEST, "--output", "jsonl"))
    } == {"orders/ship/2"}
    assert shop.run("find", "--delivery", "r-").exit_code == 1


def test_no_token_of_a_delivery(shop: Shop) -> None:
    """A part of an id finds nothing; why there may be none is printed."""
    shop.hold("orders/charge/held", delivery="message-1")
    ran = shop.run("find", "--delivery", "message")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "A duplicate acquires none: search the log" in ran.stderr


@pytest.mark.parametrize(
    ("args", "about"),
    [
        ([], "either TEXT or --delivery"),
        (["1", "--delivery", "m"], "either TEXT or --delivery"),
        (["--delivery", ""], "--delivery is empty"),
        (["--delivery", "m", "--ignore-case"], "cannot be combined"),
    ],
)
def test_a_text_or_a_delivery(shop: Shop, args: list[str], about: str) -> None:
    """One of them, and not both."""
    assert about in complaint(shop.run("find", *args))


def test_what_is_no_token_is_passed_over(shop: Shop) -> None:
    """Parts of large results, cursors, and rows of another program; what could be a token is named."""
    shop.complete("orders/charge/big", '"' + "".join(hex(n * n) for n in range(20_000)) + '"')
    shop.put({"lockToken": {"S": "lambda-once#big"}})
    shop.put({"lockToken": {"S": "big"}})
    shop.put({"lockToken": {"S": "their/own/big"}})
    ran = shop.run("find", "big", "--output", "jsonl")
    assert [row["lockToken"] for row in lines(ran)] == ["orders/charge/big"]
    assert ran.exit_code == 2
    named = ran.stderr.splitlines()[-1]
    assert named.startswith("not readable: the row of token their/own/big was not written")
    assert shop.run("find", "charge/big").exit_code == 1


def test_find_prints_its_cost(shop: Shop) -> None:
    """Before from the table's size, after as DynamoDB counted it."""
    shop.complete("orders/charge/order_1")
    before, after, *_ = shop.run("find", "order_1").stderr.splitlines()
    assert before.startswith("reading the whole table: about 1 row, ")
    assert before.endswith(" read units, less than $0.01")
    assert after.startswith("read 8 pages for ")
    assert float(after.split()[4]) > 0


def test_a_limit_ends_the_search(shop: Shop) -> None:
    """And it is said that there may be more."""
    for n in range(5):
        shop.complete(f"orders/charge/order_{n}")
    ran = shop.run("find", "order_", "--limit", "2", "--output", "jsonl")
    assert len(lines(ran)) == 2
    assert "stopped at 2: there may be more" in ran.stderr


def test_pages_are_bounded(shop: Shop) -> None:
    """What was not read is said, also where nothing was found."""
    shop.complete("orders/charge/order_1")
    ran = shop.run("find", "nothing like it", "--segments", "4", "--max-pages", "3")
    assert ran.exit_code == 2
    assert "read 3 pages" in ran.stderr
    assert "stopped after 3 pages: the table was not read to its end" in ran.stderr
    assert (
        "not read to its end" not in shop.run("find", "nothing", "--segments", "4", "--max-pages", "4").stderr
    )


@pytest.mark.engine
def test_a_large_table_is_read_page_by_page(monkeypatch: pytest.MonkeyPatch, engine_endpoint: str) -> None:
    """Every segment to its end: of rows over several megabytes none is missed."""
    text = '"' + "".join(hex(n * n * n) for n in range(200_000)) + '"'
    with on_engine(monkeypatch, engine_endpoint) as shop:
        for n in range(6):
            shop.complete(f"orders/charge/order_{n}", text)
        ran = shop.run("find", "order_", "--segments", "2", "--output", "jsonl")
        assert sorted(row["key"] for row in lines(ran)) == [f"order_{n}" for n in range(6)]
        assert int(ran.stderr.splitlines()[1].split()[1]) > 2


def test_nothing_found_prints_advice(shop: Shop) -> None:
    """Exit code 1, and why a key may not be found by a part of it."""
    ran = shop.run("find", "order_5")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "no key or scope contains 'order_5' or is its SHA-256" in ran.stderr
    assert "lambda-once explain" in ran.stderr


def test_the_size_need_not_be_known(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not describe the table may still search it."""
    from botocore.exceptions import ClientError

    from lambda_once.stores.transport import TokenTransport

    call = TokenTransport.call

    def denied(self: TokenTransport, operation: str, *rest: object) -> object:
        if operation == "describe_table":
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeTable")
        return call(self, operation, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenTransport, "call", denied)
    shop.complete("orders/charge/order_1")
    ran = shop.run("find", "order_1", "--output", "jsonl")
    assert len(lines(ran)) == 1
    assert "its size is unknown (dynamodb:DescribeTable is denied)" in ran.stderr


def test_the_request_asks_for_the_encoded_text_and_the_digests() -> None:
    """Nothing but what is shown is projected; without regard to case nothing is filtered."""
    what = search.containing("a/b")
    request = search.scan_request("tokens", what)
    assert request["FilterExpression"] == "contains(#lockToken, :wanted0) OR contains(#lockToken, :wanted1)"
    assert request["ExpressionAttributeValues"][":wanted0"] == {"S": "a%2Fb"}
    assert "result" not in request["ProjectionExpression"]
    assert "FilterExpression" not in search.scan_request("tokens", search.containing("a", ignore_case=True))
