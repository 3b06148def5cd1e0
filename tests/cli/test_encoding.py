"""Text that cannot be encoded, which any client can send, breaks neither a hold nor what commands print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from lambda_once import HOLD, Once
from lambda_once.core.lifecycle import Failure, State
from lambda_once.core.results import Inline
from lambda_once.core.writes import Complete, Hold
from lambda_once.testing import api_event, lambda_context
from lambda_once_tools.cli.app import app
from tests.cli.shop import Shop, lines, on_strict, open_shop

__all__ = ["open_shop"]

LONE = "\ud800"
"""A surrogate without its other half: JSON has an escape for it, UTF-8 has not."""


def held(shop: Shop) -> str:
    """Let a client's lone surrogate be quoted in the exception that holds its token; return the token."""
    once = Once(store=shop.store, service="shop", on_error=HOLD)
    once._runtime.clock = shop.clock

    @once.api_gateway(name="refund", caller=False)
    def handler(event: Any) -> None:
        raise ValueError(f"no such order: {json.loads(event['body'])['order']}")

    event = api_event("POST", "/refunds", {"order": LONE}, {"Idempotency-Key": "k-1"})
    with pytest.raises(ValueError, match="no such order"):
        handler(event, lambda_context())
    (row,) = lines(shop.run("list", "--held", "--output", "jsonl"))
    return str(row["lockToken"])


def test_a_surrogate_in_an_exception_does_not_break_the_hold(shop: Shop) -> None:
    """The token is held, and the message has the escape."""
    row = shop.store.read(held(shop), shop._deadline())
    assert row is not None
    assert row.state is State.HELD
    assert row.error == Failure("ValueError", "no such order: \\ud800")


@pytest.mark.parametrize("form", ["json", "jsonl", "table"])
def test_a_surrogate_of_a_client_is_listed_and_shown(shop: Shop, form: str) -> None:
    """In each format, and other rows with it."""
    token = held(shop)
    shop.hold("orders/refund/held-1")
    listed = shop.run("list", "--held", "--output", form)
    assert (listed.exit_code, "held-1" in listed.stdout, "k-1" in listed.stdout) == (1, True, True)
    shown = shop.run("show", token, "--output", form)
    assert shown.exit_code == 1
    assert "no such order: \\" in shown.stdout


@pytest.mark.parametrize("form", ["json", "jsonl", "table"])
def test_whatever_a_row_has_is_printed(shop: Shop, form: str) -> None:
    """A row that others wrote, too; JSON is ASCII, and has the text itself."""
    is_printed(shop, form, "é \x9b31m \u202e \u2028")


@pytest.mark.parametrize("form", ["json", "jsonl", "table"])
def test_a_lone_surrogate_is_printed(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """On an engine that stores it as sent; dynoxide 3.2.0 refuses it (SerializationException)."""
    with on_strict(monkeypatch) as shop:
        is_printed(shop, form, LONE)


def is_printed(shop: Shop, form: str, text: str) -> None:
    """Insist that `list` and `show` print *text* wherever a row may have it."""
    token = shop.begin("orders/refund/5", mortal=False, locked_by=f"payments {text}/1", delivery=text)
    shop.end(token, Hold(Failure(f"E{text}", text)))
    for command in ("list", "--held"), ("show", token):
        ran = shop.run(*command, "--output", form)
        assert ran.exit_code == 1
        if form != "table":
            assert ran.stdout.isascii()
            (row,) = lines(ran) if form == "jsonl" else [json.loads(ran.stdout)]
            assert text in repr_of(row)


def repr_of(value: object) -> str:
    """Return all texts in *value*, one after the other."""
    if isinstance(value, dict):
        return " ".join(map(repr_of, value.values()))
    return " ".join(map(repr_of, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("stored", [f'["{LONE}"]', '["é\x9b\u2028\U0001f600"]'])
def test_a_result_is_printed_as_ascii(monkeypatch: pytest.MonkeyPatch, stored: str) -> None:
    """It is JSON that means the same."""
    with on_strict(monkeypatch) as shop:
        token = shop.begin("orders/charge/5")
        shop.end(token, Complete(Inline(stored)))
        ran = shop.run("show", token, "--result")
    assert ran.exit_code == 0
    assert ran.stdout.isascii()
    assert json.loads(ran.stdout) == json.loads(stored)


def test_an_output_of_few_characters_is_no_obstacle(shop: Shop) -> None:
    """What the encoding of the terminal does not have is escaped in tables, too."""
    token = shop.begin("orders/refund/5", mortal=False, locked_by="zahlungen für alle/1")
    shop.end(token, Hold(Failure("Größe", "über 5 €")))
    ran = CliRunner(charset="latin-1", env={"LAMBDA_ONCE_TABLE": shop.name}).invoke(
        app, ["show", token, *endpoint_of(shop)], catch_exceptions=False
    )
    assert ran.exit_code == 1
    assert "über 5 \\u20ac" in ran.stdout


def endpoint_of(shop: Shop) -> list[str]:
    """Return the option that leads to the engine of *shop*."""
    return [] if shop._endpoint is None else ["--endpoint-url", shop._endpoint]
