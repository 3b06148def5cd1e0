"""`once.outcome` of work that the old version began or did: what the next delivery would get."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from click.testing import CliRunner
from pydantic import BaseModel

from lambda_once import HOLD, InProgress, ResultUnavailable, RetryLater, StoreUnavailable
from lambda_once.testing import lambda_context
from lambda_once_tools.cli.app import app
from tests.kit import powertools, tables
from tests.kit.powertools import PREFIX, Shop

EVENT = {"id": "o-1", "total": 4990}


class Receipt(BaseModel):
    of: str


class Other(BaseModel):
    number: int


def receipt(event: Any) -> dict[str, Any]:
    """Return what the old version answers."""
    return {"of": event["id"]}


def test_the_result_of_the_old_version(shop: Shop) -> None:
    """It is complete with its result, typed as for the work, and nothing is written."""
    shop.old(receipt)(EVENT)
    before = shop.items(shop.records)
    outcome = shop.once().outcome("o-1", name="charge", returns=Receipt)
    assert (outcome.state, outcome.result) == ("complete", Receipt(of="o-1"))
    assert (outcome.acquired, outcome.finished) == (None, None)
    assert outcome.expires is not None
    assert (shop.items(shop.records), shop.items(shop.tokens)) == (before, [])
    plain = shop.once(history=None)
    assert plain.outcome("o-1", name="charge").state == "unknown"
    assert plain.outcome("o-1", name="charge", history=shop.history()).state == "complete"


def test_asking_on_an_event_loop(shop: Shop) -> None:
    """The same."""
    shop.old(receipt)(EVENT)
    assert asyncio.run(shop.once().aoutcome("o-1", name="charge")).result == {"of": "o-1"}


def test_an_attempt_of_the_old_version(shop: Shop) -> None:
    """It is in progress until its time is over; then nobody knows."""
    shop.begun(EVENT)
    running = shop.once().outcome("o-1", name="charge")
    assert running.state == "in_progress"
    with pytest.raises(InProgress):
        running.result  # noqa: B018
    shop.lapse()
    lapsed = shop.once().outcome("o-1", name="charge")
    assert lapsed.state == "lapsed"
    with pytest.raises(RetryLater, match="unknown"):
        lapsed.result  # noqa: B018


def test_neither_version_knows_it(shop: Shop) -> None:
    """Then it has not begun."""
    assert shop.once().outcome("o-2", name="charge").state == "unknown"


@pytest.mark.parametrize("asked", [1, "1"])
@pytest.mark.parametrize("stored", [1, "1"])
def test_a_number_and_its_text_are_one_key(shop: Shop, stored: object, asked: object) -> None:
    """As they are one token: a path has the text of an id that a message has as a number."""
    shop.old(receipt)({"id": stored})
    assert shop.once().outcome(asked, name="charge").result == {"of": stored}


def test_what_the_next_delivery_gets(shop: Shop) -> None:
    """A token that an operator released runs nothing: the record is replayed. One that is held is held."""

    def fails(_: Any) -> None:
        raise TimeoutError

    def ask() -> str:
        return shop.once().outcome("o-1", name="charge").state

    with suppress(TimeoutError):
        shop.new(fails, on_error=HOLD)(EVENT)
    shop.old(receipt)(EVENT)
    assert ask() == "held"
    shop.resolve(done=False)
    assert ask() == "complete"
    assert shop.new(fails)(EVENT) == {"of": "o-1"}
    assert ask() == "complete"


def test_an_argument_that_is_the_key(shop: Shop) -> None:
    """An old function whose argument was hashed whole."""
    config = IdempotencyConfig()
    config.register_lambda_context(lambda_context("shop"))

    @idempotent_function(  # type: ignore[untyped-decorator]
        data_keyword_argument="order_id",
        persistence_store=shop.layer(),
        config=config,
        key_prefix=PREFIX,
    )
    def old(order_id: str) -> str:
        return f"ch_{order_id}"

    old(order_id="o-1")
    history = shop.history(config=IdempotencyConfig(), data="order_id")
    assert shop.once(history=history).outcome("o-1", name="charge").result == "ch_o-1"


def test_a_payload_is_not_compared(shop: Shop) -> None:
    """There is none to compare."""
    config: dict[str, Any] = {"payload_validation_jmespath": "total"}
    shop.old(receipt, **config)(EVENT)
    history = shop.history(config=IdempotencyConfig(event_key_jmespath="id", **config))
    assert shop.once(history=history).outcome("o-1", name="charge").state == "complete"


def test_a_result_of_another_type(shop: Shop) -> None:
    """Complete, and the result says why there is none."""
    shop.old(receipt)(EVENT)
    outcome = shop.once().outcome("o-1", name="charge", returns=Other)
    assert outcome.state == "complete"
    with pytest.raises(ResultUnavailable):
        outcome.result  # noqa: B018


def test_a_table_that_does_not_answer(shop: Shop) -> None:
    """Whoever could not ask does not say unknown."""
    away = shop.through(tables.client("http://127.0.0.1:9", patience=0.1))
    with pytest.raises(StoreUnavailable):
        shop.once(history=away.history()).outcome("o-1", name="charge")


def test_disabled(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table is asked, as under the work."""
    shop.old(receipt)(EVENT)
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    assert shop.once().outcome("o-1", name="charge").state == "unknown"


@pytest.mark.engine
def test_what_an_operator_reads(engine_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command knows no function, so it names what a history would change."""

    def run(*line: str) -> str:
        return " ".join(CliRunner().invoke(app, [*line, "--table", shop.tokens]).output.split())

    for name, value in {**tables.CREDENTIALS, "AWS_ENDPOINT_URL_DYNAMODB": engine_endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", tables.REGION)
    client = tables.client(engine_endpoint)
    with powertools.shop(client) as shop:
        shop.old(receipt)(EVENT)
        assert "Under history=, the old version may have done it" in run("show", "shop/charge/o-1")
        assert shop.new(receipt)(EVENT) == {"of": "o-1"}
        decide = ("--not-done", "--force", "--drop-result", "--because", "asked the bank", "--yes")
        said = run("resolve", "shop/charge/o-1", *decide)
        assert "runs, as a new attempt; under history=, only if the old version has not done it" in said
        outcome = shop.once().outcome("o-1", name="charge")
        assert (outcome.state, outcome.result) == ("complete", {"of": "o-1"})
        assert shop.new(lambda _: "it ran")(EVENT) == {"of": "o-1"}
    client.close()
