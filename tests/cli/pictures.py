"""The terminal pictures of docs/img, drawn from a scripted table: `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.text import Text

from lambda_once.core.lifecycle import Failure
from lambda_once.core.writes import Hold, Release
from lambda_once_tools.cli import lists, render
from lambda_once_tools.cli.app import app
from tests.cli.shop import Shop, on_strict
from tests.kit import terminal

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "img"
COLUMNS = 80
"""More would be too small to read on a page."""
SERVICE = "orders"
HARMLESS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "eu-central-1",
}


class Picture(NamedTuple):
    """One command, and what it is to be seen on."""

    name: str
    command: str
    """As a reader would type it, after ``lambda-once``."""
    prepare: Callable[[Shop], object]


def _request(number: int) -> str:
    return f"payments/5f2b6a3e-7d0c-4c1d-9a51-0e8d7c6b5a{number:02}"


def _some_of_each_status(shop: Shop) -> None:
    """One payment is lost, one held, two in progress."""
    shop.begin("orders/charge/pay_12301", lease=30, locked_by=_request(1))
    shop.clock.advance(1_260)
    shop.begin("orders/ship/acme/order_12344", lease=60, locked_by=_request(2))
    shop.clock.advance(240)
    _held(shop)
    shop.clock.advance(417)
    shop.begin("orders/charge/pay_12346", lease=30, locked_by=_request(5))
    shop.begin("orders/charge/pay_12347", lease=30, locked_by=_request(6))
    shop.clock.advance(4)


def _held(shop: Shop) -> None:
    """Tried once before, and released by a person; now it is held again."""
    token, failure = "orders/charge/pay_12345", Failure("GatewayTimeout", "no answer in 10 s")
    delivery = "059f36b4-87a3-44ab-83d2-661975830a7d"
    shop.begin(token, mortal=False, locked_by=_request(3), delivery=delivery)
    shop.clock.advance(10)
    shop.end(token, Hold(failure))
    shop.clock.advance(300)
    shop.decide(token, Release(failure), by="ann", because="the gateway has no such charge")
    shop.clock.advance(62)
    shop.begin(token, "b27c", locked_by=_request(4), delivery=delivery)
    shop.clock.advance(10)
    shop.end(token, Hold(failure), "b27c")
    shop.clock.advance(4_000)


def _nothing(_shop: Shop) -> None:
    """No table is read."""


PICTURES = (
    Picture("cli-list", "list", _some_of_each_status),
    Picture("cli-show", "show orders/charge/pay_12345", _held),
    Picture(
        "cli-explain",
        "explain --handler orders.payments:charge --function-name payments "
        "../events/sqs-payment.json ../events/sqs-payment-amended.json",
        _nothing,
    ),
)


def drawn(picture: Picture) -> str:
    """Return *picture* as SVG: the command, what it prints, and what it says."""
    with pytest.MonkeyPatch.context() as patch, _forgotten():
        for name, value in (HARMLESS | {"POWERTOOLS_SERVICE_NAME": SERVICE}).items():
            patch.setenv(name, value)
        patch.setenv("LAMBDA_ONCE_TABLE", "tokens")
        patch.chdir(ROOT / "examples")
        console = terminal.recorder(COLUMNS)
        for module in (render, lists):  # imported before: a first import under the patch would keep it
            patch.setattr(module, "console", lambda **_: console)
        patch.setattr(render.Output, "say", lambda _, text: console.print(Text(text, style="dim")))
        with on_strict(patch) as shop:
            picture.prepare(shop)
            console.print(Text(f"$ lambda-once {picture.command}\n", style="bold"))
            app(picture.command.split(), standalone_mode=False)
        return terminal.picture(console, "lambda-once", picture.name)


@contextmanager
def _forgotten() -> Iterator[None]:
    """Forget afterwards the handlers that were imported, and where from."""
    modules, path = set(sys.modules), sys.path.copy()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if name.split(".")[0] == "orders":
                del sys.modules[name]


if __name__ == "__main__":
    for each in PICTURES:
        path = FOLDER / f"{each.name}.svg"
        path.write_text(drawn(each), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
